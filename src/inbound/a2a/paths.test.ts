import { describe, expect, it } from 'vitest';
import { isA2aPath, type Place, placeOf } from './paths.js';

const find = (path: string): Place | 'unknown' | undefined =>
  placeOf(path, (name) => name === 'echo' || name === 'two words');

const rest = (path: string) => {
  const place = find(path);
  if (!place || place === 'unknown' || place.endpoint.kind !== 'rest') throw new Error(`${path} is not REST`);
  return { agent: place.agent, ...place.endpoint.target };
};

describe('where things are beneath /a2a', () => {
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
    expect(find(path)).toEqual({ agent, endpoint: { kind: 'rpc', streams } });
  });

  it.each([
    ['/message:send', { by: { POST: 'SendMessage' } }],
    ['/message%3Asend', { by: { POST: 'SendMessage' } }],
    ['/message:stream', { by: { POST: 'SendStreamingMessage' } }],
    ['/tasks', { by: { GET: 'ListTasks' } }],
    ['/tasks/', { by: { GET: 'ListTasks' } }],
    ['/tasks/t1', { by: { GET: 'GetTask' }, taskId: 't1' }],
    ['/tasks/a%2Fb%3Ac', { by: { GET: 'GetTask' }, taskId: 'a/b:c' }],
    ['/tasks/urn:x:1', { by: { GET: 'GetTask' }, taskId: 'urn:x:1' }],
    ['/tasks/urn%3Ax:cancel', { by: { POST: 'CancelTask' }, taskId: 'urn:x' }],
    ['/tasks/t1:subscribe', { by: { GET: 'SubscribeToTask', POST: 'SubscribeToTask' }, taskId: 't1' }],
    [
      '/tasks/t1/pushNotificationConfigs',
      { by: { GET: 'ListTaskPushNotificationConfigs', POST: 'CreateTaskPushNotificationConfig' }, taskId: 't1' },
    ],
    [
      '/tasks/t1/pushNotificationConfigs/p%201',
      {
        by: { GET: 'GetTaskPushNotificationConfig', DELETE: 'DeleteTaskPushNotificationConfig' },
        taskId: 't1',
        configId: 'p 1',
      },
    ],
    ['/extendedAgentCard', { by: { GET: 'GetExtendedAgentCard' } }],
  ])('S-75: %s is REST for an agent, a tenant of it, /v1 and the front agent', (path, target) => {
    expect(rest(`/a2a/echo${path}`)).toEqual({ agent: 'echo', v1: false, ...target });
    expect(rest(`/a2a/echo/acme${path}`)).toEqual({ agent: 'echo', v1: false, tenant: 'acme', ...target });
    expect(rest(`/a2a/echo/v1${path}`)).toEqual({ agent: 'echo', v1: true, ...target });
    expect(rest(`/a2a${path}`)).toEqual({ agent: undefined, v1: false, ...target });
    expect(rest(`/a2a/v1${path}`)).toEqual({ agent: undefined, v1: true, ...target });
  });

  it('knows the paths only 0.3 has, and its proto’s slip', () => {
    expect(rest('/a2a/echo/v1/card').by).toEqual({ GET: 'GetExtendedAgentCard' });
    expect(find('/a2a/echo/card')).toBeUndefined();
    expect(rest('/a2a/echo/v1/task/t1/pushNotificationConfigs').taskId).toBe('t1');
  });

  it('finds the extended card of 0.2 from the deeper URL of its cards', () => {
    const url = new URL('http://gateway/a2a/echo/rpc');
    const { pathname } = new URL(`${url.href}/../agent/authenticatedExtendedCard`);
    expect(find(pathname)).toEqual({ agent: 'echo', endpoint: { kind: 'extendedCard' } });
    expect(find('/a2a/agent/authenticatedExtendedCard')).toEqual({
      agent: undefined,
      endpoint: { kind: 'extendedCard' },
    });
  });

  it('tells agents that are not there from paths that are nothing', () => {
    expect(find('/a2a/nobody')).toBe('unknown');
    expect(find('/a2a/nobody/message:send')).toBe('unknown');
    expect(find('/a2a/nobody/v1/tasks')).toBe('unknown');
    expect(find('/a2a/agents')).toBeUndefined();
    expect(find('/a2a/push/abc')).toBeUndefined();
    expect(find('/a2a/echo/nothing')).toBeUndefined();
    expect(find('/a2a/echo/tasks/%E0%A4%A')).toBeUndefined();
    expect(find('/a2along')).toBeUndefined();
    expect(find('/mcp')).toBeUndefined();
  });

  it('knows its own paths', () => {
    for (const path of [
      '/a2a',
      '/a2a/x',
      '/v1/a2a/x',
      '/.well-known/agent.json',
      '/.well-known/agents/x.json',
      '/.well-known/api-catalog',
    ])
      expect(isA2aPath(path)).toBe(true);
    for (const path of ['/mcp', '/a2ab', '/.well-known/oauth-protected-resource']) expect(isA2aPath(path)).toBe(false);
  });
});
