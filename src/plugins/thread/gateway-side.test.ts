/** Plugins that are modules: their code runs in a thread, and nothing that it does stops the gateway. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { checkPlugin } from '../../app/commands/plugin-check.js';
import { McpContext } from '../../core/call.js';
import { Cancellation, GATEWAY, LOCAL } from '../../core/caller.js';
import { ALL_SERVERS, plainCall } from '../../core/gateway.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Log } from '../../telemetry/log.js';
import { ActivePlugin } from '../active-plugin.js';
import type { Hook, JsonObject, PluginError } from '../api.js';
import { CallView, LazyResponse } from '../call-view.js';
import { errorDecision, eventDecision, listDecision, requestDecision, responseDecision } from '../hook-answers.js';
import { PluginLoadError } from '../plugin-module.js';
import { Scope } from '../scope.js';
import { ThreadPlugin, type ThreadPluginOptions } from './gateway-side.js';

const ENDLESS = 'for (;;);';
/** Every hook of the module does this. */
const everyHook = (code: string): string =>
  `const hook = ${code};
  export default { apiVersion: 1, onRequest: hook, onResponse: hook, onError: hook, onEvent: hook, onList: hook, onAudit: hook };`;
const onRequest = (code: string): string => `export default { apiVersion: 1, onRequest: ${code} };`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'parley-threads-'));
});
afterAll(() => rm(folder, { recursive: true }));
const open: ThreadPlugin[] = [];
afterEach(() => Promise.all(open.splice(0).map((thread) => thread.close())));

let files = 0;
async function moduleOf(source: string): Promise<string> {
  const file = path.join(folder, `plugin-${files++}.mjs`);
  await writeFile(file, source);
  return file;
}

async function loaded(source: string, more: Partial<ThreadPluginOptions> = {}): Promise<ThreadPlugin> {
  const limits = { blockLimit: 200, memory: 256 * 2 ** 20 };
  const thread = await ThreadPlugin.load({ use: await moduleOf(source), directory: folder, ...limits, ...more });
  open.push(thread);
  return thread;
}

interface Line {
  readonly event?: string;
  readonly plugin?: string;
  readonly [key: string]: unknown;
}

function recorded(): { readonly log: Log; readonly lines: Line[] } {
  const lines: Line[] = [];
  const write = (fields: object): void => void lines.push(fields as Line);
  return { log: { debug: write, info: write, warn: write, error: write, isLevelEnabled: () => true }, lines };
}

interface Settings extends Partial<ThreadPluginOptions> {
  readonly onFailure?: 'closed' | 'open';
  readonly timeout?: number;
}

async function active(source: string, { onFailure = 'closed', timeout = 60_000, ...more }: Settings = {}) {
  const thread = await loaded(source, more);
  const { log, lines } = recorded();
  const scope = new Scope({ servers: [], tools: [], methods: [] });
  const made = new ActivePlugin({ name: 'it', plugin: thread.plugin, thread, scope, onFailure, timeout, log });
  return { made, lines, run: (hook: Hook = 'onRequest', view = viewOf()) => ran(made, hook, view) };
}

function viewOf(args: JsonObject = { path: '/a' }, cancellation = new Cancellation()): CallView {
  const call = plainCall('tools/call', RawObject.from({ name: 'files__read', arguments: args }), ALL_SERVERS);
  const route = {
    target: { server: 'files', kind: 'tool', name: 'read' },
    item: { kind: 'tool', value: { name: 'read', title: 'Read' } },
    forward: () => Promise.reject(new Error('not called')),
  };
  const caller = { ...GATEWAY, principal: LOCAL };
  const context = new McpContext(caller, { ...call, cancellation } as never, route as never, performance.now());
  return new CallView(
    context,
    () => 'account',
    (_, { name }) => name === 'shown',
  );
}

const RESULT = { content: [{ type: 'text', text: 'hi' }] };
const ITEMS = [{ server: 'files', name: 'read', item: { name: 'read' } }];
const ERROR: PluginError = { code: 5, message: 'no' };

/** Runs the hook as the steps around a call do. */
async function ran(made: ActivePlugin, hook: Hook, view: CallView): Promise<unknown> {
  const { plugin } = made;
  switch (hook) {
    case 'onRequest':
      return made.run(hook, view, (call) => plugin.onRequest?.(call), requestDecision);
    case 'onResponse':
      return made.run(hook, view, (call) => plugin.onResponse?.(call, LazyResponse.of(RESULT)), responseDecision);
    case 'onError':
      return made.run(
        hook,
        view,
        (call) => plugin.onError?.(call, ERROR),
        (answer) => errorDecision(answer, ERROR),
      );
    case 'onEvent':
      return made.run(hook, view, (call) => plugin.onEvent?.(call, { n: 1 }), eventDecision);
    case 'onList':
      return made.run(
        hook,
        view,
        (call) => plugin.onList?.(call, ITEMS),
        (answer) => listDecision(answer, ITEMS, 'name'),
      );
    default:
      return made.audit({ n: 1 });
  }
}

/** The line that names the disabled plugin. */
const disabledIn = (lines: readonly Line[]) => lines.find(({ event }) => event === 'plugin.disabled');
const BLOCKED = { data: { plugin: 'it', problem: 'blocked' } };

describe('code that never ends', () => {
  const later = (how: string) => `async () => { await ${how}; ${ENDLESS} }`;
  const PLACES: readonly [string, string][] = [
    ['before the first wait of a hook', `() => { ${ENDLESS} }`],
    ['after a wait for nothing', later('undefined')],
    ['after a wait for a timer', later('new Promise((resolve) => setTimeout(resolve, 20))')],
    ['in promises without end', 'async () => { for (;;) await undefined; }'],
    ['in a timer', `() => { setTimeout(() => { ${ENDLESS} }, 20); return new Promise(() => {}); }`],
    ['in the answer', `() => ({ deny: { toJSON() { ${ENDLESS} } } })`],
    ['in a getter of the answer', `() => ({ get deny() { ${ENDLESS} } })`],
    ['in `then` of the answer', `() => ({ then() { ${ENDLESS} } })`],
    ['in reading `then`', `() => Object.defineProperty({}, 'then', { get() { ${ENDLESS} } })`],
    ['in `then` of another answer', `() => ({ then(settle) { setImmediate(settle, { then() { ${ENDLESS} } }); } })`],
    ['in a pattern', "() => { /^(a+)+$/.test('a'.repeat(60) + 'b'); }"],
    ['in a log', "() => { for (;;) console.log('x'); }"],
  ];

  it.each(PLACES)('%s: the call is refused, the plugin is named and disabled', async (_, code) => {
    const { run, made, lines } = await active(onRequest(code));
    await expect(run()).rejects.toMatchObject({ reason: 'plugin_failed', ...BLOCKED });
    expect(made.disabled).toBe(true);
    expect(disabledIn(lines)).toMatchObject({
      plugin: 'it',
      cause: 'blocked',
      blockedMs: expect.any(Number) as number,
    });
    await expect(run()).rejects.toMatchObject({ data: { plugin: 'it', problem: 'disabled' } });
  });

  it.each(['onRequest', 'onResponse', 'onError', 'onEvent', 'onList'] as const)(
    'in %s ends the call by the policy',
    async (hook) => {
      const source = everyHook(later('undefined'));
      const [closed, opened] = [await active(source), await active(source, { onFailure: 'open' })];
      await expect(closed.run(hook)).rejects.toMatchObject(BLOCKED);
      expect(await opened.run(hook)).toBeUndefined();
      for (const { made, lines } of [closed, opened]) {
        expect(made.disabled).toBe(true);
        expect(lines).toContainEqual(expect.objectContaining({ event: 'plugin.failed', hook, problem: 'blocked' }));
      }
      expect(await opened.run(hook)).toBeUndefined();
    },
  );

  it('in onAudit disables the plugin, and nothing waits for it', async () => {
    const { run, made } = await active(everyHook(later('undefined')));
    await run('onAudit');
    await expect.poll(() => made.disabled, { timeout: 60_000 }).toBe(true);
    expect([...made.runs]).toEqual([['onAudit blocked', 1]]);
  });

  it('after the hook is noticed without another call', async () => {
    const { run, made, lines } = await active(onRequest(`() => { setTimeout(() => { ${ENDLESS} }, 1); }`));
    expect(await run()).toBeUndefined();
    await expect.poll(() => made.disabled, { timeout: 60_000 }).toBe(true);
    expect(disabledIn(lines)).toMatchObject({ plugin: 'it', cause: 'blocked' });
  });

  it('delays neither other plugins nor other work', async () => {
    const source = onRequest(later('undefined'));
    const [endless, other] = [
      await active(source, { blockLimit: 600_000 }),
      await active(onRequest("() => ({ deny: 'no' })")),
    ];
    let over = false;
    const failed = expect(endless.run().finally(() => (over = true))).rejects.toMatchObject({
      data: { problem: 'ended' },
    });
    for (let round = 0; round < 20; round++) expect(await other.run()).toEqual({ deny: 'no' });
    expect(over).toBe(false);
    // The end of the gateway does not wait for the code.
    await open[0]?.close();
    await failed;
    await expect((await active(source)).run()).rejects.toMatchObject(BLOCKED);
    expect(other.made.disabled).toBe(false);
    expect(await other.run()).toEqual({ deny: 'no' });
  });

  it('ends every waiting call of the plugin by the policy, also beyond its time', async () => {
    const { run } = await active(onRequest(later('undefined')), { timeout: 50, blockLimit: 500 });
    const ends = await Promise.allSettled(Array.from({ length: 5 }, () => run()));
    expect(ends).toMatchObject(Array.from({ length: 5 }, () => ({ status: 'rejected', reason: BLOCKED })));
  });

  it('without processor time ends too, and the call before', async () => {
    const waits = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);';
    const { run, made } = await active(onRequest(`() => { ${waits} }`), { timeout: 50 });
    await expect(run()).rejects.toMatchObject({ data: { problem: 'timeout' } });
    await expect.poll(() => made.disabled, { timeout: 60_000 }).toBe(true);
  });

  it('during the import is ended in time', async () => {
    await expect(loaded(ENDLESS, { loadTime: 1_000 })).rejects.toThrow('takes too long');
    const file = await moduleOf(ENDLESS);
    await expect(checkPlugin(file, folder, 1_000)).rejects.toThrow(PluginLoadError);
  });

  it('during the setup does not keep the thread', async () => {
    const thread = await loaded(`export default { apiVersion: 1, setup() { ${ENDLESS} }, onAudit() {} };`);
    const { log } = recorded();
    const setup = Promise.resolve(thread.plugin.setup?.({ name: 'it', options: {}, log: log as never }));
    const fails = expect(setup).rejects.toThrow('ended the thread');
    await thread.close();
    await fails;
  });
});

describe('a thread', () => {
  it('that was stopped for a short block answers all the same', async () => {
    const { run, made } = await active(
      onRequest(
        "() => { const end = performance.now() + 60; while (performance.now() < end); return { deny: 'no' }; }",
      ),
      { timeout: 10, blockLimit: 60_000 },
    );
    expect(await run()).toEqual({ deny: 'no' });
    expect(made.disabled).toBe(false);
  });

  it('with many short runs at the same time does not block, and leaves out those whose time is over', async () => {
    const slow =
      "() => { const end = performance.now() + 60; while (performance.now() < end); return { deny: 'no' }; }";
    const patient = await active(onRequest(slow));
    const all = await Promise.all(Array.from({ length: 15 }, () => patient.run()));
    expect(all).toEqual(Array.from({ length: 15 }, () => ({ deny: 'no' })));
    const hasty = await active(onRequest(slow), { timeout: 200 });
    const ends = await Promise.allSettled(Array.from({ length: 100 }, () => hasty.run()));
    const late = ends.filter((end) => end.status === 'rejected');
    expect(late.length).toBeGreaterThan(0);
    for (const { reason } of late) expect(reason).toMatchObject({ data: { problem: 'timeout' } });
    for (const { made } of [patient, hasty]) expect(made.disabled).toBe(false);
  });

  it('that waits long does not block', async () => {
    const { run, made } = await active(onRequest('() => new Promise((resolve) => setTimeout(resolve, 600))'));
    await run();
    expect(made.disabled).toBe(false);
  });

  it('with a full heap ends, and its plugin is named and disabled', async () => {
    const fill =
      'async () => { const kept = []; for (;;) { kept.push(new Array(10_000).fill({})); await new Promise(setImmediate); } }';
    const { run, lines, made } = await active(onRequest(fill), { memory: 32 * 2 ** 20 });
    await expect(run()).rejects.toMatchObject({ data: { problem: 'ended' } });
    expect(made.disabled).toBe(true);
    expect(disabledIn(lines)).toMatchObject({ plugin: 'it', cause: 'memory' });
  });

  it('whose code ends it ends its plugin only', async () => {
    const { run, lines } = await active(onRequest('() => process.exit(0)'));
    await expect(run()).rejects.toMatchObject({ data: { problem: 'ended' } });
    expect(disabledIn(lines)).toMatchObject({ cause: 'ended' });
    await expect(run()).rejects.toMatchObject({ data: { problem: 'disabled' } });
  });

  it('goes on after errors outside of hooks, which are logged with their place', async () => {
    const thrown =
      "setTimeout(() => { throw new Error('a secret'); }, 1); void Promise.reject(new TypeError('a secret'));";
    const { run, lines } = await active(onRequest(`() => { ${thrown} }`));
    await run();
    await expect.poll(() => lines.length, { timeout: 60_000 }).toBeGreaterThan(0);
    expect(lines[0]).toMatchObject({
      event: 'plugin.failed',
      plugin: 'it',
      at: expect.stringContaining('.mjs:') as string,
    });
    expect(JSON.stringify(lines)).not.toContain('a secret');
    expect(await run()).toBeUndefined();
  });

  it('tells failures during the import', async () => {
    const { lines, run } = await active(
      `void Promise.reject(new TypeError('a secret'));
      await new Promise((resolve) => setTimeout(resolve, 50));
      ${onRequest("() => ({ deny: 'no' })")}`,
    );
    expect(lines).toMatchObject([{ event: 'plugin.failed', plugin: 'it', error: 'TypeError' }]);
    expect(await run()).toEqual({ deny: 'no' });
  });

  it('is bounded in its log lines, and passes those that it can', async () => {
    const { log, lines } = recorded();
    const setup =
      "({ options, log }) => { log.info(options.word, { n: 1 }); log.warn('f', { f() {} }); for (let n = 0; n < 5_000; n++) log.debug('many'); }";
    const thread = await loaded(`export default { apiVersion: 1, setup: ${setup}, onAudit() {} };`);
    const told: [string, object?][] = [];
    const write = (message: string, fields?: object): void => void told.push([message, fields]);
    await thread.plugin.setup?.({
      name: 'it',
      options: { word: 'hello' },
      log: { ...log, debug: write, info: write, warn: write, error: write },
    });
    expect(told.slice(0, 2)).toEqual([
      ['hello', { n: 1 }],
      ['f', {}],
    ]);
    expect(told).toHaveLength(1_000);
    expect(lines).toEqual([]);
  });

  it('has the state of one entry only', async () => {
    const source = 'let n = 0; export default { apiVersion: 1, onRequest: () => ({ deny: String(++n) }) };';
    const [one, other] = [await active(source), await active(source)];
    expect(await one.run()).toEqual({ deny: '1' });
    expect(await other.run()).toEqual({ deny: '1' });
    expect(await one.run()).toEqual({ deny: '2' });
  });

  it('tells why a setup failed', async () => {
    const thread = await loaded(
      "export default { apiVersion: 1, setup() { throw new Error('no option'); }, onAudit() {} };",
    );
    const { log } = recorded();
    await expect(thread.plugin.setup?.({ name: 'it', options: {}, log: log as never })).rejects.toThrow('no option');
  });
});

describe('a hook', () => {
  /** Tells as a refusal what the hook sees. */
  const seen = (code: string): string => onRequest(`async (call) => ({ deny: String(${code}) })`);

  it.each([
    ['call.params.arguments.path', '/a'],
    [
      '[call.protocol, call.method, call.server, call.kind, call.name, call.account].join()',
      'mcp,tools/call,files,tool,read,account',
    ],
    ['call.caller.key', LOCAL.key],
    ['call.tool.title', 'Read'],
    ["(await call.sees('files', 'shown')) + ',' + (await call.sees('files', 'hidden'))", 'true,false'],
    ['call.signal.aborted', 'false'],
    ['Math.abs(performance.now() - call.began) < 60_000', 'true'],
  ])('sees %s', async (code, text) => {
    const { run } = await active(seen(code));
    expect(await run()).toEqual({ deny: text });
  });

  it('gets large parts when it reads them', async () => {
    const { run } = await active(seen('call.params.arguments.text.length'));
    const text = 'ä'.repeat(300_000);
    expect(await run('onRequest', viewOf({ text }))).toEqual({ deny: '300000' });
    const { made } = await active(
      'export default { apiVersion: 1, onResponse: (call, { size, result }) => ({ result: { ...result, size } }) };',
    );
    const large = LazyResponse.of({ text });
    const decided = made.run('onResponse', viewOf(), (call) => made.plugin.onResponse?.(call, large), responseDecision);
    expect(await decided).toEqual({ result: { text, size: large.size } });
  });

  it('cannot read a large part after its time, and its signal is aborted', async () => {
    const { log, lines } = recorded();
    const waits = `
      let log;
      const onRequest = async (call) => {
        await new Promise((resolve) => call.signal.addEventListener('abort', resolve));
        try { call.params; } catch (error) { log.info('over', { problem: error.message }); }
      };
      export default { apiVersion: 1, onRequest, setup(context) { ({ log } = context); } };`;
    const { run, made } = await active(waits, { timeout: 50 });
    const told: object[] = [];
    await made.plugin.setup?.({
      name: 'it',
      options: {},
      log: { ...log, info: (_: string, fields: object = {}) => void told.push(fields) } as never,
    });
    const failed = run('onRequest', viewOf({ text: 'x'.repeat(100_000) }));
    await expect(failed).rejects.toMatchObject({ data: { problem: 'timeout' } });
    await expect
      .poll(() => told, { timeout: 60_000 })
      .toEqual([{ problem: expect.stringContaining('over') as string }]);
    expect(disabledIn(lines)).toBeUndefined();
  });

  it('hears that the client no longer waits', async () => {
    const { run } = await active(
      onRequest(
        "(call) => new Promise((resolve) => call.signal.addEventListener('abort', () => resolve({ deny: 'left' })))",
      ),
    );
    const cancellation = new Cancellation();
    const decided = run('onRequest', viewOf({}, cancellation));
    cancellation.cancel();
    expect(await decided).toEqual({ deny: 'left' });
  });

  it.each([
    ['() => 5', 'invalid'],
    ["() => 'deny'", 'invalid'],
    ['() => []', 'invalid'],
    ['() => ({ deny: undefined })', 'invalid'],
    ['() => ({ deny() {} })', 'invalid'],
    ['() => ({ reply: { n: 1n } })', 'invalid'],
    ['() => ({ reply: { toJSON: () => 5 } })', 'invalid'],
    ["() => ({ deny: 'a', reply: {} })", 'invalid'],
    ['() => ({ other: 1 })', 'invalid'],
    ["() => Object.defineProperty(() => {}, 'then', { value() {} })", 'invalid'],
    ["() => new Proxy({}, { get() { throw new Error('no'); } })", 'threw'],
    ['() => { throw Object.create(null); }', 'threw'],
    ["() => { throw new Proxy(new Error('a'), { get() { throw new Error('b'); } }); }", 'threw'],
    ['() => ({ then(_, fail) { fail(undefined); } })', 'threw'],
    ['() => ({ then() {} })', 'timeout'],
  ])('that is %s fails: %s', async (code, problem) => {
    const { run } = await active(onRequest(code), { timeout: 2_000 });
    await expect(run()).rejects.toMatchObject({ data: { problem } });
  });

  it('that returns an object with `then` decides by its first call back', async () => {
    const twice =
      "then(settle, fail) { settle({ deny: 'first' }); settle({ deny: 'second' }); fail(new Error('third')); }";
    const { run } = await active(onRequest(`() => ({ ${twice} })`));
    expect(await run()).toEqual({ deny: 'first' });
  });

  it('returns every decision', async () => {
    const { run } = await active(
      `export default {
        apiVersion: 1,
        onRequest: () => ({ params: { arguments: { path: '/b' } } }),
        onResponse: (call, { result }) => ({ result: { ...result, more: true } }),
        onError: (call, { code, message }) => ({ error: { code, message: message + '!' } }),
        onEvent: (call, { n }) => (n === 1 ? { drop: true } : undefined),
        onList: (call, items) => ({ items: items.map((each) => ({ ...each, item: { ...each.item, title: 'T' } })) }),
      };`,
    );
    expect(await run('onRequest')).toEqual({ params: { arguments: { path: '/b' } } });
    expect(await run('onResponse')).toEqual({ result: { ...RESULT, more: true } });
    expect(await run('onError')).toEqual({ error: { message: 'no!' } });
    expect(await run('onEvent')).toEqual({ drop: true });
    expect(await run('onList')).toEqual([{ server: 'files', name: 'read', item: { name: 'read', title: 'T' } }]);
  });
});

it.each(['await new Promise(() => {}); export default {};', 'export const then = () => {}; export default {};'])(
  'a module that never ends loading is refused: %s',
  async (source) => {
    await expect(loaded(source, { loadTime: 1_000 })).rejects.toThrow('takes too long');
  },
);

it.each([
  ["throw new Error('broken');", 'broken'],
  ['process.exit(3);', 'ended the thread'],
  ['export default { apiVersion: 1, onReqest() {} };', 'unknown hook onReqest'],
])('a module that cannot be loaded is refused: %s', async (source, problem) => {
  await expect(loaded(source)).rejects.toThrow(PluginLoadError);
  await expect(loaded(source)).rejects.toThrow(problem);
});

describe('a module that looks for the ports of its thread', () => {
  it('does not find them, and messages of its own change nothing', async () => {
    const source = `
      import { parentPort, workerData } from 'node:worker_threads';
      const found = Object.values(workerData ?? {}).length;
      export default { apiVersion: 1, async onResponse() {
        for (const junk of [null, 7, 'x', {}, [], { answered: 1 }]) parentPort?.postMessage(junk);
        return { result: { content: [{ type: 'text', text: String(found) }] } };
      } };`;
    const { run } = await active(source);
    for (let call = 0; call < 2; call += 1)
      expect(await run('onResponse')).toEqual({ result: { content: [{ type: 'text', text: '0' }] } });
  });
});
