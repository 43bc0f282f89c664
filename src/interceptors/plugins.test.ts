import { describe, expect, it } from 'vitest';
import type { CallContext, McpResult } from '../core/call.js';
import { McpContext } from '../core/call.js';
import { GATEWAY, LOCAL } from '../core/caller.js';
import { ALL_SERVERS, complete, plainCall } from '../core/gateway.js';
import { ActivePlugin } from '../plugins/active-plugin.js';
import type { Plugin } from '../plugins/api.js';
import { Scope, type ScopeSettings } from '../plugins/scope.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import { SILENT } from '../telemetry/log.js';
import { pluginStep } from './plugins.js';

const ALL: ScopeSettings = { servers: [], tools: [], methods: [] };

function active(plugin: Omit<Plugin, 'apiVersion'>, scope: Partial<ScopeSettings> = {}, name = 'it'): ActivePlugin {
  return new ActivePlugin({
    ...{ name, plugin: { apiVersion: 1, ...plugin }, scope: new Scope({ ...ALL, ...scope }) },
    ...{ onFailure: 'closed', timeout: 10_000, log: SILENT },
  });
}

const stepOf = (...plugins: ActivePlugin[]) =>
  pluginStep({ plugins, ownerOf: () => undefined, validate: (context, next) => next(context) });

function contextOf(method = 'tools/call', principal = LOCAL): McpContext {
  const call = plainCall(method, RawObject.from({ name: 'files__read', arguments: { path: '/a' } }), ALL_SERVERS);
  const target = { server: 'files', kind: 'tool', name: 'read' } as const;
  return new McpContext({ ...GATEWAY, principal }, call, { target, forward: () => Promise.reject() }, 0);
}

/** A result that fails if somebody parses it. */
function unread(): McpResult {
  const result = RawObject.whole(Buffer.from('{"content":[]}'));
  for (const name of ['value', 'get', 'bytes', 'object'] as const)
    Object.defineProperty(result, name, {
      value: () => {
        throw new Error('the result was parsed');
      },
    });
  return complete(result);
}

describe('without work for plugins', () => {
  it('there is no step', () => {
    expect(stepOf()).toBeUndefined();
    expect(stepOf(active({ onAudit: () => {} }))).toBeUndefined();
  });

  it.each([
    ['another server', { servers: ['web'] }],
    ['another tool', { tools: ['write'] }],
    ['another method', { methods: ['prompts/*'] }],
  ])('%s: the call passes without a promise, and its result unparsed', (_, scope) => {
    const step = stepOf(active({ onResponse: () => undefined, onRequest: () => undefined }, scope))!;
    const result = unread();
    expect(step(contextOf(), () => result)).toBe(result);
  });

  it("the gateway's own requests pass", () => {
    const step = stepOf(active({ onRequest: () => ({ deny: 'no' }) }))!;
    const result = unread();
    expect(step(contextOf('tools/call', GATEWAY.principal), () => result)).toBe(result);
  });

  it('a result is not parsed for a hook that reads its size only', async () => {
    const sizes: number[] = [];
    const step = stepOf(active({ onResponse: (_call, { size }) => void sizes.push(size) as undefined }))!;
    const result = unread();
    expect(await step(contextOf(), () => result)).toBe(result);
    expect(sizes).toEqual([14]);
  });
});

it('S1-80: requests pass the plugins in order, results in the reverse order, and a reply ends the way in', async () => {
  const seen: string[] = [];
  const named = (name: string, reply = false): ActivePlugin =>
    active(
      {
        onRequest: () => {
          seen.push(`request ${name}`);
          return reply ? { reply: { content: [] } } : undefined;
        },
        onResponse: () => void seen.push(`response ${name}`) as undefined,
      },
      {},
      name,
    );
  const next = (_: CallContext): McpResult => {
    seen.push('server');
    return complete(RawObject.from({ content: [] }));
  };
  await stepOf(named('a'), named('b'))!(contextOf(), next);
  expect(seen.splice(0)).toEqual(['request a', 'request b', 'server', 'response b', 'response a']);
  await stepOf(named('a'), named('b', true), named('c'))!(contextOf(), next);
  expect(seen).toEqual(['request a', 'request b', 'response a']);
});

it('a refusal names the plugin in the audit record', async () => {
  const context = contextOf();
  const step = stepOf(active({ onRequest: () => ({ deny: 'Not today' }) }, {}, 'guard'))!;
  await expect(step(context, unread)).rejects.toMatchObject({
    reason: 'plugin_denied',
    message: 'Not today',
    data: { plugin: 'guard', outcome: 'not_executed' },
  });
  expect(context.notes.decision).toEqual({ decision: 'denied', rule: 'plugin guard' });
});

it('a result that was refused may have run', async () => {
  const step = stepOf(active({ onResponse: () => ({ deny: 'Not this' }) }))!;
  const next = (): McpResult => complete(RawObject.from({ content: [] }));
  await expect(step(contextOf(), next)).rejects.toMatchObject({
    reason: 'plugin_denied',
    data: { outcome: 'unknown' },
  });
});

it('writing to the call and to the result changes nothing', async () => {
  const step = stepOf(
    active({
      onRequest: ({ params }) => {
        params['arguments'] = { path: '/etc' };
        return undefined;
      },
      onResponse: (_call, { result }) => {
        result['content'] = [];
        return undefined;
      },
    }),
  )!;
  const context = contextOf();
  let forwarded: unknown;
  const result = await step(context, (given) => {
    forwarded = given.arguments;
    return complete(RawObject.from({ content: [{ type: 'text', text: 'a' }] }));
  });
  expect(forwarded).toEqual({ path: '/a' });
  expect((result as { result: RawObject }).result.bytes().toString()).toBe('{"content":[{"type":"text","text":"a"}]}');
});
