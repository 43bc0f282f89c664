import { describe, expect, it } from 'vitest';
import { RESERVED_AGENTS } from '../../config/reserved-names.js';
import { CALLBACK_PATH } from '../../core/a2a/push/agent-callback-urls.js';
import { LOCAL } from '../../core/caller.js';
import type { Operation } from '../../protocol/a2a/model.js';
import type { Route } from '../http/route.js';
import { RouteTable } from '../http/route-table.js';
import { A2aHttpEndpoint, type A2aHttpEndpointOptions } from './http-endpoint.js';

const agents = new Set(['echo', 'two words']);
const endpoint = new A2aHttpEndpoint({
  agents: { get: (name: string) => (agents.has(name) ? {} : undefined) },
  profile: '1.0.1',
} as unknown as A2aHttpEndpointOptions);
const parameters = { agent: endpoint.agent({}) };
const [errors] = endpoint.routes().map((route) => route.errors);
const table = new RouteTable({
  routes: endpoint.routes(),
  parameters,
  fallbacks: endpoint.fallbacks(),
  errors: errors!,
});

/** The operations at a path by method, the path parameters, and the error format. */
function find(path: string) {
  const match = table.match(path);
  const { resource } = match;
  if (resource.missing) return { missing: resource.missing(path).reason };
  const by = Object.fromEntries(
    [...resource.methods]
      .filter(([method]) => method !== 'HEAD')
      .map(([method, route]) => [method, operationOf(route)]),
  );
  return { ...table.resolve(match, path, LOCAL), by, errors: resource.errors.name };
}

const operationOf = ({ description }: Route): string => description.replace('A2A over HTTP+JSON: ', '');

describe('the paths under /a2a', () => {
  it.each([
    ['/a2a/echo', 'echo', false],
    ['/a2a/echo/', 'echo', false],
    ['/a2a/ECHO', 'echo', false],
    ['/a2a/two%20words', 'two words', false],
    ['/a2a/echo/rpc', 'echo', false],
    ['/a2a/echo/message/send', 'echo', false],
    ['/a2a/echo/message/stream', 'echo', true],
    ['/v1/a2a/echo', 'echo', false],
    ['/v1/a2a/echo/message/send', 'echo', false],
    ['/a2a', undefined, false],
    ['/a2a/', undefined, false],
    ['/a2a/rpc', undefined, false],
  ])('S-74: %s is JSON-RPC', (path, agent, streams) => {
    expect(find(path)).toEqual({
      ...(agent !== undefined && { agent }),
      by: { POST: streams ? 'A2A over JSON-RPC, with a streamed response' : 'A2A over JSON-RPC' },
      errors: 'a2a-jsonrpc',
    });
  });

  it.each<[string, Partial<Record<string, Operation>>, { task?: string; config?: string }?]>([
    ['/message:send', { POST: 'SendMessage' }],
    ['/message%3Asend', { POST: 'SendMessage' }],
    ['/message:stream', { POST: 'SendStreamingMessage' }],
    ['/tasks', { GET: 'ListTasks' }],
    ['/tasks/', { GET: 'ListTasks' }],
    ['/tasks/t1', { GET: 'GetTask' }, { task: 't1' }],
    ['/tasks/a%2Fb%3Ac', { GET: 'GetTask' }, { task: 'a/b:c' }],
    ['/tasks/urn:x:1', { GET: 'GetTask' }, { task: 'urn:x:1' }],
    ['/tasks/urn%3Ax:cancel', { POST: 'CancelTask' }, { task: 'urn:x' }],
    ['/tasks/t1:subscribe', { GET: 'SubscribeToTask', POST: 'SubscribeToTask' }, { task: 't1' }],
    [
      '/tasks/t1/pushNotificationConfigs',
      { GET: 'ListTaskPushNotificationConfigs', POST: 'CreateTaskPushNotificationConfig' },
      { task: 't1' },
    ],
    [
      '/tasks/t1/pushNotificationConfigs/p%201',
      { GET: 'GetTaskPushNotificationConfig', DELETE: 'DeleteTaskPushNotificationConfig' },
      { task: 't1', config: 'p 1' },
    ],
    ['/extendedAgentCard', { GET: 'GetExtendedAgentCard' }],
  ])('S-75: %s is REST for an agent, a tenant of it, /v1 and the routing agent', (path, by, names = {}) => {
    const current = { by, ...names, errors: 'a2a-rest' };
    const older = { by, ...names, errors: 'a2a-rest-v1' };
    expect(find(`/a2a/echo${path}`)).toEqual({ agent: 'echo', ...current });
    expect(find(`/a2a/echo/acme${path}`)).toEqual({ agent: 'echo', tenant: 'acme', ...current });
    expect(find(`/a2a/echo/v1${path}`)).toEqual({ agent: 'echo', ...older });
    expect(find(`/a2a/echo/v1/acme${path}`)).toEqual({ agent: 'echo', tenant: 'acme', ...older });
    expect(find(`/a2a${path}`)).toEqual(current);
    expect(find(`/a2a/v1${path}`)).toEqual(older);
    expect(find(`/v1/a2a${path}`)).toEqual(current);
  });

  it('has the paths of 0.3 and the misspelling of its proto', () => {
    expect(find('/a2a/echo/v1/card')).toMatchObject({ by: { GET: 'GetExtendedAgentCard' } });
    expect(find('/a2a/echo/card')).toEqual({ missing: 'not_found' });
    for (const path of ['/task/t1/pushNotificationConfigs', '/tasks/t1/pushNotifications', '/task/t1:cancel'])
      expect(find(`/a2a/echo/v1${path}`)).toMatchObject({ task: 't1' });
    expect(find('/a2a/echo/task/t1')).toEqual({ missing: 'not_found' });
    expect(find('/a2a/echo/tasks/t1/pushNotifications')).toEqual({ missing: 'not_found' });
  });

  it('finds the extended card of 0.2 from the deeper URL of its cards', () => {
    const by = { GET: 'A2A up to 0.2: the extended card' };
    const url = new URL('http://gateway/a2a/echo/rpc');
    const { pathname } = new URL(`${url.href}/../agent/authenticatedExtendedCard`);
    expect(find(pathname)).toMatchObject({ agent: 'echo', by });
    expect(find('/a2a/agent/authenticatedExtendedCard')).toMatchObject({ by });
  });

  it('distinguishes unknown agents from unknown paths', () => {
    for (const path of ['/a2a/nobody', '/a2a/nobody/message:send', '/a2a/nobody/v1/tasks', '/a2a/agents'])
      expect(() => find(path)).toThrow(`There is no agent at ${path}`);
    expect(find('/a2a/nobody/nothing')).toEqual({ missing: 'not_found' });
    expect(find('/a2a/echo/nothing')).toEqual({ missing: 'not_found' });
    expect(find('/a2a/echo/tasks/%E0%A4%A')).toEqual({ missing: 'not_found' });
    expect(find('/a2along')).toEqual({ missing: 'not_found' });
    expect(find('/mcp')).toEqual({ missing: 'not_found' });
  });
});

it('no agent can have the name of a path that the gateway serves itself', () => {
  const paths = [...endpoint.routes().map(({ path }) => path), CALLBACK_PATH, '/a2a/agents'];
  const segments = paths.flatMap((path) => /^\/a2a\/(\w+)(?:\/|$)/.exec(path)?.[1]?.toLowerCase() ?? []);
  expect(new Set(segments)).toEqual(RESERVED_AGENTS);
});
