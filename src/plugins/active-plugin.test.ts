import { describe, expect, it } from 'vitest';
import type { Log } from '../telemetry/log.js';
import { ActivePlugin, type ActivePluginOptions } from './active-plugin.js';
import type { Plugin } from './api.js';
import type { CallView, HookCall } from './call-view.js';
import { eventDecision, InvalidAnswer, listDecision, requestDecision, responseDecision } from './hook-answers.js';
import { checkedPlugin, PluginLoadError } from './plugin-module.js';
import { Scope } from './scope.js';

const ALL = { servers: [], tools: [], methods: [] };

function recorded(): { readonly log: Log; readonly lines: object[] } {
  const lines: object[] = [];
  const write = (fields: object): void => void lines.push(fields);
  return { log: { debug: write, info: write, warn: write, error: write, isLevelEnabled: () => true }, lines };
}

let ended = 0;
const VIEW = { forHook: () => ({ end: () => ended++ }) as unknown as HookCall } as CallView;

function active(hook: Plugin['onRequest'], more: Partial<ActivePluginOptions> = {}) {
  const { log, lines } = recorded();
  const plugin: Plugin = { apiVersion: 1, ...(hook && { onRequest: hook }) };
  const options = { scope: new Scope(ALL), onFailure: 'closed', timeout: 100, log } as const;
  const made = new ActivePlugin({ name: 'it', plugin, ...options, ...more });
  const run = () => made.run('onRequest', VIEW, (call) => plugin.onRequest?.(call), requestDecision);
  return { made, run, lines };
}

describe('a hook', () => {
  it('decides, or decides nothing', async () => {
    expect(await active(() => undefined).run()).toBeUndefined();
    expect(await active(async () => ({ deny: 'no' })).run()).toEqual({ deny: 'no' });
  });

  it('S1-80: fails with the policy of its plugin, and without its message', async () => {
    const hook = () => {
      throw new Error('a secret');
    };
    const closed = active(hook);
    await expect(closed.run()).rejects.toMatchObject({
      reason: 'plugin_failed',
      message: 'The plugin "it" failed',
      data: { plugin: 'it', problem: 'threw', outcome: 'not_executed' },
    });
    expect(JSON.stringify(closed.lines)).not.toContain('a secret');
    expect(closed.lines).toMatchObject([{ plugin: 'it', hook: 'onRequest', error: 'Error' }]);
    expect(await active(hook, { onFailure: 'open' }).run()).toBeUndefined();
  });

  it.each([
    Object.assign(new Error('a secret'), { name: Symbol('a') }),
    Object.assign(new Error('a secret'), { message: Symbol('a') }),
    new Proxy(new Error('a secret'), {
      get() {
        throw new Error('another');
      },
    }),
    Object.create(null),
  ])('fails in the same way if its error cannot be read', async (thrown) => {
    const { run, made, lines } = active(() => {
      throw thrown;
    });
    await expect(run()).rejects.toMatchObject({ reason: 'plugin_failed', data: { problem: 'threw' } });
    made.audit({});
    const late = active(async () => {
      throw thrown;
    });
    await expect(late.run()).rejects.toMatchObject({ reason: 'plugin_failed', data: { problem: 'threw' } });
    expect(lines).toHaveLength(1);
  });

  it('ends after its time, and its signal with it', async () => {
    const before = ended;
    const { run, made } = active(() => new Promise(() => {}));
    await expect(run()).rejects.toMatchObject({ data: { problem: 'timeout' } });
    expect(ended).toBe(before + 1);
    expect([...made.runs]).toEqual([['onRequest timeout', 1]]);
  });

  it('is bounded in runs at the same time', async () => {
    const { run } = active(() => new Promise(() => {}), { timeout: 2_000 });
    const results = await Promise.allSettled(Array.from({ length: 1_001 }, run));
    const problems = results.map((each) => (each as { reason: { data: { problem: string } } }).reason.data.problem);
    expect(problems.filter((problem) => problem === 'busy')).toHaveLength(1);
  });
});

describe('answers', () => {
  const cyclic: Record<string, unknown> = {};
  cyclic['self'] = cyclic;
  const wrong: unknown[] = [
    1,
    'deny',
    [],
    { deny: '' },
    { deny: 5 },
    { reply: [] },
    { reply: null },
    { reply: cyclic },
    { reply: { n: 1n } },
    { reply: {}, params: {} },
    { other: 1 },
    { reply: { toJSON: () => 5 } },
  ];

  it('refuses everything that is not a decision', () => {
    for (const answer of wrong) expect(() => requestDecision(answer)).toThrow(InvalidAnswer);
  });

  it('takes nothing, null and an empty object for no decision', () => {
    for (const answer of [undefined, null, {}]) expect(requestDecision(answer)).toBeUndefined();
  });

  it('cuts refusals and removes control characters', () => {
    const read = requestDecision({ deny: `a\n\u0007b${'x'.repeat(1_000)}` }) as { deny: string };
    expect(read.deny.startsWith('a b')).toBe(true);
    expect(read.deny).toHaveLength(500);
  });

  it('reads results and events', () => {
    expect(responseDecision({ result: { a: 1 } })).toEqual({ result: { a: 1 } });
    expect(() => responseDecision({ reply: {} })).toThrow(InvalidAnswer);
    expect(eventDecision({ drop: true })).toEqual({ drop: true });
    expect(() => eventDecision({ drop: false })).toThrow(InvalidAnswer);
  });

  it('takes items of a list with their own identity, each once', () => {
    const given = ['a', 'b'].map((name) => ({ server: 's', name, item: { name } }));
    const [a, b] = given as [(typeof given)[0], (typeof given)[0]];
    const changed = { ...b, server: 'forged', item: { name: 'b', title: 'B' } };
    expect(listDecision({ items: [changed] }, given, 'name')).toEqual([{ server: 's', name: 'b', item: changed.item }]);
    for (const items of [[{ ...a, item: { name: 'c' } }], [a, a], [{}], 'a', [null]])
      expect(() => listDecision({ items }, given, 'name')).toThrow(InvalidAnswer);
  });
});

describe('a scope', () => {
  const tool = (server: string, name: string) => ({ server, kind: 'tool', name }) as const;

  it('covers everything without patterns', () => {
    expect(new Scope(ALL).covers('tools/call', undefined)).toBe(true);
  });

  it('matches servers, tools and methods', () => {
    const scope = new Scope({ servers: ['fi*'], tools: ['read', 'files__write'], methods: ['tools/*'] });
    expect(scope.covers('tools/call', tool('files', 'read'))).toBe(true);
    expect(scope.covers('tools/call', tool('files', 'write'))).toBe(true);
    expect(scope.covers('tools/call', tool('files', 'other'))).toBe(false);
    expect(scope.covers('tools/call', tool('web', 'read'))).toBe(false);
    expect(scope.covers('prompts/get', { server: 'files', kind: 'prompt', name: 'read' })).toBe(false);
    expect(scope.covers('tools/list', { server: undefined, kind: 'catalog', name: 'tools/list' })).toBe(false);
  });

  it('covers the tasks of every tool of a server', () => {
    const scope = new Scope({ ...ALL, servers: ['files'], tools: ['read'] });
    expect(scope.covers('tasks/get', { server: 'files', kind: 'task', name: 't' })).toBe(true);
    expect(scope.covers('tasks/get', { server: 'web', kind: 'task', name: 't' })).toBe(false);
  });
});

describe('a module', () => {
  const onRequest = (): undefined => undefined;
  it.each([
    [undefined, 'not an object'],
    [{ onRequest }, 'apiVersion'],
    [{ apiVersion: 2, onRequest }, 'apiVersion'],
    [{ apiVersion: 1 }, 'none of the hooks'],
    [{ apiVersion: 1, onRequest: 5 }, 'onRequest is not a function'],
    [{ apiVersion: 1, onRequest, onReqest: onRequest }, 'unknown hook onReqest'],
    [{ apiVersion: 1, onRequest, resourceScheme: 'a b' }, 'resourceScheme'],
  ])('S1-80: %j is refused', (value, problem) => {
    expect(() => checkedPlugin(value, 'x.mjs')).toThrow(PluginLoadError);
    expect(() => checkedPlugin(value, 'x.mjs')).toThrow(problem);
  });
});
