import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { callerNamed } from '../../test/support/callers.js';
import { admitting } from '../interceptors/admission.js';
import { ProtocolError } from '../protocol/errors.js';
import { type JsonObject, RawObject } from '../protocol/jsonrpc/raw.js';
import { SILENT } from '../telemetry/log.js';
import { type Admission, type AdmissionRequest, type ItemTarget, OpenAdmission } from './admission.js';
import { type Caller, GATEWAY } from './caller.js';
import { Catalog } from './catalog/catalog.js';
import { MISSING, Pages } from './catalog/pages.js';
import { ALONE } from './cluster.js';
import { HostedTasks } from './era-bridge/hosted-tasks.js';
import { ParkedCalls } from './era-bridge/parked-calls.js';
import { Forwarder } from './forward.js';
import { ALL_SERVERS, complete, failed, oneServer, type ParkedCall, plainCall, View } from './gateway.js';
import { McpDispatcher } from './mcp-dispatcher.js';
import { Pipeline } from './pipeline.js';
import { Seal } from './seal.js';
import type { Upstream } from './upstream.js';
import { Views } from './views.js';

const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
const ada = callerNamed('ada');
const withTasks: Caller = { ...ada, capabilities: TASKS };
const bridge = { roots: true, sampling: true, logging: true, parkTtl: 1_000 };
const BRIDGE = { ...bridge };

/** A tool whose argument the client repeats in a header. */
const MIRRORING = { type: 'object', properties: { token: { type: 'string', 'x-mcp-header': 'Token' } } };

interface Fake {
  readonly tools?: readonly string[];
  readonly prompts?: readonly string[];
  readonly resources?: readonly string[];
  readonly templates?: readonly string[];
  readonly instructions?: string;
  readonly down?: true;
  readonly groups?: readonly string[];
}

/** The most bytes of the requests of parked calls, and of tasks. */
const REQUESTS = { inAll: 10_000, perCaller: 10_000 };

const waiting: ParkedCall = {
  over: new Promise(() => {}),
  resume: () => new Promise(() => {}),
  abandon: () => {},
};

let catalog: Catalog | undefined;
afterEach(() => catalog?.close());

/** A gateway whose servers are lists of names; `reached` collects the requests that reach the servers for callers. */
function gatewayOf(
  fakes: Readonly<Record<string, Fake>>,
  admission: Admission = new OpenAdmission(() => true),
  prefix: 'always' | 'conflict' = 'always',
  separator: '__' | '-' = '__',
) {
  const reached: string[] = [];
  const upstream = (name: string, fake: Fake): Upstream => ({
    name,
    describe: async () => {
      if (fake.down) throw new ProtocolError('upstream_unavailable', `${name} is down`);
      const { tools, prompts, resources, instructions } = fake;
      return {
        capabilities: {
          ...(tools && { tools: {} }),
          ...(prompts && { prompts: {}, completions: {} }),
          ...(resources && { resources: {} }),
        },
        ...(instructions !== undefined && { instructions }),
      };
    },
    request: async (_, { method, params }) => {
      const fresh = { ttlMs: 60_000, cacheScope: 'public' };
      const items = (names: readonly string[] = [], key = 'name') =>
        names.map((each) => ({ name: each, [key]: each, inputSchema: MIRRORING }));
      switch (method) {
        case 'tools/list':
          return complete(RawObject.from({ ...fresh, tools: items(fake.tools) }));
        case 'prompts/list':
          return complete(RawObject.from({ ...fresh, prompts: items(fake.prompts) }));
        case 'resources/list':
          return complete(RawObject.from({ ...fresh, resources: items(fake.resources, 'uri') }));
        case 'resources/templates/list':
          return complete(RawObject.from({ ...fresh, resourceTemplates: items(fake.templates, 'uriTemplate') }));
        default:
          if (params.get('name') === 'question') return { kind: 'input_required', inputRequests: {}, parked: waiting };
          if (params.get('name') === 'sleep') return new Promise(() => {});
          reached.push(`${name} ${method} ${String(params.get('name') ?? params.get('taskId') ?? '')}`.trim());
          return params.get('name') === 'long'
            ? { kind: 'task', result: RawObject.from({ resultType: 'task', taskId: 'own', status: 'working' }) }
            : complete(RawObject.from({ from: name }));
      }
    },
    watch: async (filter) => ({ honoured: filter, close: () => {} }),
    keepWatching: async () => {},
    listNews: () => 'pushed',
    rootsChanged: () => {},
    release: () => {},
    health: () => ({ status: 'up', speaks: [] }),
    close: async () => {},
  });
  const key = randomBytes(32);
  const seal = new Seal({ active: { id: 'k', key }, find: () => key });
  const made = new Catalog({ naming: { separator, prefix }, admission, patience: 5_000, bridge, log: SILENT });
  catalog = made;
  for (const [name, fake] of Object.entries(fakes)) made.put(upstream(name, fake), undefined, fake.groups);
  const records = { create: async () => {}, update: async () => true, end: async (record: never) => record };
  const stored = { ...records, load: async () => undefined, list: async () => [] };
  const tasks = new HostedTasks(stored, {
    ttl: 1_000,
    pollInterval: 10,
    limits: { perCaller: 10, inAll: 10, bytes: 1_000_000, requests: REQUESTS },
  });
  const parking = new ParkedCalls({ ttl: 1_000, inAll: 10, perCaller: 10, perServer: 10, bytes: REQUESTS }, ALONE);
  const gateway = new McpDispatcher({
    catalog: made,
    pages: new Pages(made, seal, 100),
    admission,
    forwarder: new Forwarder({ catalog: made, parking, tasks, seal, bridge: BRIDGE, taskTtl: 1_000 }),
    tasks,
    bridge,
    pipeline: new Pipeline([admitting(admission)]),
  });
  const call = async (method: string, params: JsonObject = {}, view: View = ALL_SERVERS, caller = ada) => {
    const outcome = await gateway.call(caller, plainCall(method, RawObject.from(params), view));
    if (outcome.kind === 'error') throw outcome.error;
    if (outcome.kind === 'input_required') throw new Error('unexpected input_required');
    return outcome.result.value();
  };
  const names = async (method: string, member: string, view?: View, caller?: Caller): Promise<unknown[]> =>
    ((await call(method, {}, view, caller))[member] as JsonObject[]).map((item) => item['name']);
  return {
    catalog: made,
    tasks,
    gateway,
    call,
    reached,
    tools: (view?: View, caller?: Caller) => names('tools/list', 'tools', view, caller),
    names,
  };
}

/** Hides the targets that a test names as `kind name`, and all targets of a hidden server. */
const hiding = (...hidden: string[]): Admission => ({
  sees: (_, { server, kind, name }: ItemTarget) =>
    Promise.resolve(!hidden.includes(`${kind} ${name}`) && !hidden.includes(`server ${server}`)),
  admit: () => {},
});

const refusal = (reason: string, more: object = {}): object => ({ reason, ...more });

describe('admission', () => {
  const denying = (asked: AdmissionRequest[]): Admission => ({
    admit: async (request) => {
      asked.push(request);
      throw new ProtocolError('forbidden', 'No');
    },
  });

  test.each([
    ['tools/call', { name: 'a__x', arguments: { n: 1 } }, { kind: 'tool', server: 'a', name: 'x' }, { n: 1 }],
    ['prompts/get', { name: 'a__p' }, { kind: 'prompt', server: 'a', name: 'p' }, undefined],
    ['resources/read', { uri: 'a:r' }, { kind: 'resource', server: 'a', name: 'a:r' }, { uri: 'a:r' }],
    ['tools/list', {}, { kind: 'catalog', server: undefined, name: 'tools/list' }, {}],
  ])('of %s gets caller, method, target and arguments', async (method, params, target, args) => {
    const asked: AdmissionRequest[] = [];
    const { call, reached } = gatewayOf({ a: { tools: ['x'], prompts: ['p'], resources: ['a:r'] } }, denying(asked));
    await expect(call(method, params)).rejects.toMatchObject(refusal('forbidden'));
    expect(asked).toEqual([expect.objectContaining({ caller: ada, protocol: 'mcp', method, target })]);
    expect(asked[0]!.arguments).toEqual(args);
    expect(reached).toEqual([]);
  });

  test('covers methods that only a server knows, and tasks of servers', async () => {
    let denies = false;
    const asked: AdmissionRequest[] = [];
    const deny = denying(asked);
    const admission: Admission = { admit: (request) => (denies ? deny.admit(request) : undefined) };
    const { call, reached } = gatewayOf({ a: { tools: ['long'] } }, admission);
    const { taskId } = await call('tools/call', { name: 'a__long' }, ALL_SERVERS, withTasks);
    expect(await call('tasks/get', { taskId: taskId! }, ALL_SERVERS, withTasks)).toEqual({ from: 'a' });
    const before = [...reached];
    denies = true;
    await expect(call('vendor/do', {}, oneServer('a'))).rejects.toMatchObject(refusal('forbidden'));
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel'])
      await expect(call(method, { taskId: taskId! }, ALL_SERVERS, withTasks)).rejects.toMatchObject(
        refusal('forbidden'),
      );
    expect(asked.map(({ target }) => `${target.kind} ${target.server} ${target.name}`)).toEqual([
      'method a vendor/do',
      ...Array(3).fill('task a own'),
    ]);
    expect(reached).toEqual(before);
  });

  test('never refuses the gateway itself', async () => {
    const { tools } = gatewayOf(
      { a: { tools: ['x'] } },
      { sees: () => false, admit: () => Promise.reject(new Error()) },
    );
    expect(await tools(ALL_SERVERS, GATEWAY)).toEqual(['a__x']);
  });
});

describe('a caller from which targets are hidden', () => {
  const FAKES = {
    a: { tools: ['x', 'y'], prompts: ['p'], resources: ['a:r'], instructions: 'Use a.' },
    b: { tools: ['x'], prompts: ['p'], resources: ['a:s'], instructions: 'Use b.' },
    c: { down: true },
  } as const;

  test('gets lists without the hidden items, and these lists have the cache scope "private"', async () => {
    const { tools, call } = gatewayOf(FAKES, hiding('tool y', 'server b'));
    expect(await tools()).toEqual(['a__x']);
    expect(await call('tools/list')).toMatchObject({ cacheScope: 'private' });
    expect(JSON.stringify(await call('prompts/list'))).not.toContain('b__');
  });

  test('finds hidden servers neither in the instructions nor in the list of missing servers', async () => {
    const { call } = gatewayOf(FAKES, hiding('server b', 'server c'));
    const discovered = await call('server/discover');
    expect(discovered['instructions']).toBe('[a] Use a.');
    expect(discovered).not.toHaveProperty('_meta');
    expect(await call('tools/list')).not.toHaveProperty('_meta');
    const open = gatewayOf(FAKES);
    expect((await open.call('tools/list'))['_meta']).toMatchObject({ [MISSING]: [{ server: 'c' }] });
  });

  test('gets the same errors for hidden tools, prompts and resources as for absent ones', async () => {
    const { call, gateway, reached } = gatewayOf(FAKES, hiding('tool y', 'prompt p', 'resource a:r', 'server b'));
    const answers = async (method: string, hidden: JsonObject, none: JsonObject): Promise<void> => {
      const told = (params: JsonObject) => call(method, params).then(String, (error: ProtocolError) => error);
      const [first, second] = [await told(hidden), await told(none)];
      const told2 = JSON.stringify([second, (second as ProtocolError).message]);
      const name = String(Object.values(none)[0]);
      expect(JSON.stringify([first, (first as ProtocolError).message])).toBe(
        told2.replaceAll(name, String(Object.values(hidden)[0])),
      );
    };
    await answers('tools/call', { name: 'b__x' }, { name: 'z__x' });
    await answers('resources/read', { uri: 'a:r' }, { uri: 'z:r' });
    await expect(call('tools/call', { name: 'a__y' })).rejects.toMatchObject(
      refusal('tool_not_found', { message: 'Unknown tool: y' }),
    );
    await expect(call('tools/call', { name: 'a__none' })).rejects.toMatchObject(
      refusal('tool_not_found', { message: 'Unknown tool: none' }),
    );
    const mirrored = plainCall('tools/call', RawObject.from({ name: 'a__y', arguments: { token: 'x' } }), ALL_SERVERS, {
      header: () => undefined,
    });
    expect(await gateway.call(ada, mirrored)).toMatchObject({ error: { reason: 'tool_not_found' } });
    await expect(call('prompts/get', { name: 'a__p' })).rejects.toMatchObject(refusal('prompt_not_found'));
    await expect(call('vendor/do', {}, oneServer('b'))).rejects.toMatchObject(refusal('method_not_found'));
    expect(reached).toEqual([]);
  });

  describe.each([
    ['all servers', ALL_SERVERS, 'a__'],
    ['one server', oneServer('a'), ''],
  ])('at the endpoint of %s', (_, view, prefix) => {
    const OFFERS = { a: { prompts: ['plan', 'quiz'], resources: ['a:r', 'a:s'], templates: ['a:t/{id}', 'a:u/{id}'] } };
    const prompt = (name: string): JsonObject => ({ ref: { type: 'ref/prompt', name: `${prefix}${name}` } });
    const template = (uri: string): JsonObject => ({ ref: { type: 'ref/resource', uri } });

    test.each<[string, (name: string) => JsonObject, shown: string, hidden: string, absent: string]>([
      ['prompts/get', (name) => ({ name: `${prefix}${name}` }), 'plan', 'quiz', 'zilch'],
      ['completion/complete', prompt, 'plan', 'quiz', 'zilch'],
      ['resources/read', (uri) => ({ uri }), 'a:s', 'a:r', 'a:n'],
      ['resources/read', (uri) => ({ uri }), 'a:u/1', 'a:t/1', 'a:n/1'],
      ['completion/complete', template, 'a:u/{id}', 'a:t/{id}', 'a:n/{id}'],
    ])(
      '%s of a hidden item and of an absent one have the same error',
      async (method, params, shown, hidden, absent) => {
        const { call, reached } = gatewayOf(OFFERS, hiding('prompt quiz', 'resource a:r', 'resource a:t/{id}'));
        const told = async (name: string): Promise<string> => {
          const error = await call(method, params(name), view).then(
            () => new Error('answered'),
            (reason: Error) => reason,
          );
          return JSON.stringify([error.message, error]).replaceAll(name, 'NAME');
        };
        expect(await told(hidden)).toContain('_not_found');
        expect(await told(hidden)).toBe(await told(absent));
        expect(reached).toEqual([]);
        expect(await call(method, params(shown), view)).toEqual({ from: 'a' });
      },
    );

    test('the server answers for items that no list has, if nothing is hidden', async () => {
      const { call } = gatewayOf(OFFERS);
      expect(await call('prompts/get', { name: `${prefix}n` }, view)).toEqual({ from: 'a' });
      expect(await call('resources/read', { uri: 'a:n' }, view)).toEqual({ from: 'a' });
    });
  });

  test('calls a listed tool whose name begins with the name of a hidden server', async () => {
    const fakes = { a: { tools: ['b-c-x'] }, 'a-b': { tools: ['y'] }, 'a-b-c': { tools: ['x'] } };
    const hidden = hiding('server a-b', 'server a-b-c');
    const { tools, call, reached } = gatewayOf(fakes, hidden, 'always', '-');
    expect(await tools()).toEqual(['a-b-c-x']);
    await call('tools/call', { name: 'a-b-c-x' });
    expect(reached).toEqual(['a tools/call b-c-x']);
    await expect(call('tools/call', { name: 'a-b-y' })).rejects.toMatchObject(refusal('tool_not_found'));
  });

  test('gets "upstream_unavailable" for every prompt of a server that is down, hidden or not', async () => {
    const { call } = gatewayOf({ a: { down: true } }, hiding('prompt p'));
    for (const name of ['a__p', 'a__n'])
      await expect(call('prompts/get', { name })).rejects.toMatchObject(refusal('upstream_unavailable'));
  });

  test('can use a short name if all other servers with that name are hidden', async () => {
    const open = gatewayOf(FAKES);
    await expect(open.call('tools/call', { name: 'x' })).rejects.toMatchObject({
      reason: 'ambiguous_name',
      detail: { data: { candidates: ['a__x', 'b__x'] } },
    });
    const { call, reached } = gatewayOf(FAKES, hiding('server b'));
    await call('tools/call', { name: 'x' });
    expect(reached).toEqual(['a tools/call x']);
    expect(await gatewayOf(FAKES, hiding('server b'), 'conflict').tools()).toEqual(['x', 'y']);
    expect(await gatewayOf(FAKES, undefined, 'conflict').tools()).toEqual(['a__x', 'y', 'b__x']);
  });

  test('does not reach a hidden server at its own endpoint', async () => {
    const { call, gateway, reached } = gatewayOf(FAKES, hiding('server b'));
    const view = oneServer('b');
    for (const method of ['server/discover', 'tools/list', 'tools/call'])
      await expect(call(method, { name: 'x' }, view)).rejects.toMatchObject(refusal('not_found'));
    const listening = plainCall('subscriptions/listen', RawObject.from({}), view);
    await expect(gateway.listen(ada, listening, { toolsListChanged: true }, () => {})).rejects.toMatchObject(
      refusal('not_found'),
    );
    expect(reached).toEqual([]);
  });

  test('is not subscribed to hidden resources', async () => {
    const { gateway } = gatewayOf(FAKES, hiding('resource a:r'));
    const call = plainCall('subscriptions/listen', RawObject.from({}), ALL_SERVERS);
    const { honoured, close } = await gateway.listen(ada, call, { resourceSubscriptions: ['a:r', 'a:s'] }, () => {});
    close();
    expect(honoured.resourceSubscriptions).toEqual(['a:s']);
  });

  test('gets notifications of changed lists from visible servers only', async () => {
    const { gateway, catalog: changing } = gatewayOf(FAKES, hiding('server b'));
    const listen = async (caller: Caller): Promise<(string | undefined)[]> => {
      const heard: (string | undefined)[] = [];
      const listening = plainCall('subscriptions/listen', RawObject.from({}), ALL_SERVERS);
      await gateway.listen(caller, listening, { toolsListChanged: true }, (_, server) => void heard.push(server));
      return heard;
    };
    const [some, all] = [await listen(ada), await listen(GATEWAY)];
    changing.remove('b');
    await vi.waitFor(() => expect(all).toContain('b'));
    changing.remove('a');
    await vi.waitFor(() => expect([some.includes('a'), all.includes('a')]).toEqual([true, true]));
    expect(some).not.toContain('b');
  });

  const hides: Admission = { sees: () => false, admit: () => {} };
  const forbids: Admission = {
    sees: () => true,
    admit: ({ target }) => {
      if (target.kind === 'task') throw new ProtocolError('forbidden', 'No');
    },
  };
  test.each([
    ['may not see', hides, 'task_not_found'],
    ['may not read', forbids, 'forbidden'],
  ])(
    'is not subscribed to a task that the caller %s, and gets no further changes of an earlier subscription',
    async (_, denying, reason) => {
      let rule: Admission = { sees: () => true, admit: () => {} };
      const admission: Admission = {
        sees: (caller, target) => rule.sees!(caller, target),
        admit: (request) => rule.admit(request),
      };
      const { gateway, call, tasks } = gatewayOf({ a: { tools: ['x'] } }, admission);
      const listen = (taskId: string) => {
        const heard: unknown[] = [];
        const listening = plainCall('subscriptions/listen', RawObject.from({}), ALL_SERVERS);
        const deliver = (notification: unknown): void => void heard.push(notification);
        return gateway.listen(withTasks, listening, { taskIds: [taskId] }, deliver).then(({ honoured }) => ({
          honoured,
          heard,
        }));
      };
      const start = async () => {
        let end: () => void = () => {};
        const ending = new Promise<void>((resolve) => {
          end = resolve;
        });
        const { taskId } = await tasks.start(ada.principal.key, 'a', { bytes: 1, notify: () => {} }, () =>
          ending.then(() => complete(RawObject.from({ content: [] }))),
        );
        return { taskId, end };
      };
      const [first, second] = [await start(), await start()];
      const early = await listen(first.taskId);
      first.end();
      await vi.waitFor(() => expect(early.heard).not.toEqual([]));
      const { taskId } = second;
      const before = await listen(taskId);
      rule = denying;
      await expect(call('tasks/get', { taskId }, ALL_SERVERS, withTasks)).rejects.toMatchObject(refusal(reason));
      const after = await listen(taskId);
      expect([before.honoured.taskIds, after.honoured.taskIds]).toEqual([[taskId], undefined]);
      const changes: string[] = [];
      tasks.onChange([taskId], ({ status }) => changes.push(status));
      second.end();
      await vi.waitFor(() => expect(changes).toContain('completed'));
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect([before.heard, after.heard]).toEqual([[], []]);
    },
  );
});

test.each([
  ['a call that waits for an answer', 'question', {}, 'Your calls that wait for answers hold too much data'],
  ['a task', 'sleep', { task: { ttl: undefined } }, 'The requests of your running tasks hold too much data'],
])('the arguments of %s count against the memory limit of its caller', async (_, tool, more, message) => {
  const { gateway } = gatewayOf({ a: { tools: ['question', 'sleep'] } });
  const run = (bytes: number) => {
    const params = RawObject.from({ name: `a__${tool}`, arguments: { text: 'x'.repeat(bytes) } });
    return gateway.call(ada, { ...plainCall('tools/call', params, ALL_SERVERS), ...more });
  };
  expect((await run(6_000)).kind).not.toBe('error');
  expect(await run(6_000)).toMatchObject({
    kind: 'error',
    error: { reason: 'overloaded', message: expect.stringContaining(message) },
  });
  expect((await run(1_000)).kind).not.toBe('error');
});

describe('a view', () => {
  const FAKES = {
    files: { tools: ['read', 'write'], prompts: ['ask'], groups: ['docs'] },
    wiki: { tools: ['read', 'search'], groups: ['docs', 'web'] },
    mail: { tools: ['send'] },
  };

  test.each([
    [{}, ['files__read', 'files__write', 'wiki__read', 'wiki__search', 'mail__send']],
    [{ servers: ['files', 'mail'] }, ['files__read', 'files__write', 'mail__send']],
    [{ groups: ['web'] }, ['wiki__read', 'wiki__search']],
    [{ groups: ['web'], servers: ['mail'] }, ['wiki__read', 'wiki__search', 'mail__send']],
    [{ names: ['*read', 'mail__*'] }, ['files__read', 'wiki__read', 'mail__send']],
    [
      { groups: ['docs'], naming: { separator: '.', prefix: 'conflict' as const } },
      ['files.read', 'write', 'wiki.read', 'search'],
    ],
    [{ servers: ['files'], naming: 'own' as const, names: ['w*'] }, ['write']],
    [{ servers: [] }, []],
  ])('of %j shows %j', async (selection, expected) => {
    const { tools } = gatewayOf(FAKES);
    expect(await tools(new View(selection))).toEqual(expected);
  });

  test('resolves a tool whose name begins with the name of a server outside the view', async () => {
    const { call, reached } = gatewayOf({ a: { tools: ['b-x'] }, 'a-b': {} }, undefined, 'always', '-');
    await call('tools/call', { name: 'a-b-x' }, new View({ servers: ['a'] }));
    expect(reached).toEqual(['a tools/call b-x']);
  });

  test('resolves only the names that it shows', async () => {
    const { call, reached } = gatewayOf(FAKES);
    const view = new View({ groups: ['docs'], names: ['*read'] });
    await call('tools/call', { name: 'wiki__read' }, view);
    expect(reached).toEqual(['wiki tools/call read']);
    for (const name of ['mail__send', 'wiki__search', 'send', 'files__write'])
      await expect(call('tools/call', { name }, view), name).rejects.toMatchObject(refusal('tool_not_found'));
    await expect(
      call('tools/call', { name: 'write' }, new View({ servers: ['files'], naming: 'own', names: ['read'] })),
    ).rejects.toMatchObject(refusal('tool_not_found'));
    await expect(call('vendor/do', {}, view)).rejects.toMatchObject(refusal('method_not_found'));
    expect(reached).toHaveLength(1);
  });

  test('has a key that no other view has, and keeps the key when it is serialized and parsed', () => {
    const selections = [
      {},
      { servers: ['a'] },
      { servers: ['a'], naming: 'own' as const },
      { groups: ['a'] },
      { names: ['a'] },
    ];
    const keys = selections.map((selection) => new View(selection).key);
    expect(new Set(keys).size).toBe(selections.length);
    for (const [index, selection] of selections.entries())
      expect(new View(JSON.parse(JSON.stringify(selection)) as object).key).toBe(keys[index]);
    expect(oneServer('a')).toMatchObject({ only: 'a' });
    expect(new View({ servers: ['a'] }).only).toBeUndefined();
  });
});

describe('a configured view', () => {
  const FAKES = {
    files: {
      tools: ['read', 'write'],
      prompts: ['ask', 'tell'],
      resources: ['files://a', 'files://secret/b'],
      groups: ['docs'],
      instructions: 'Use files.',
    },
    wiki: { tools: ['read', 'search', 'long'], groups: ['docs'], instructions: 'Use wiki.' },
    mail: { tools: ['send', 'long'], resources: ['mail://x'], instructions: 'Use mail.' },
  };
  const all = { allow: [], deny: [] };
  const named = (selection: object): View => new View({ name: 'research', ...selection });

  test('shows allowed tools, hides denied tools and renames tools', async () => {
    const { tools, call, reached } = gatewayOf(FAKES);
    const view = named({
      groups: ['docs'],
      tools: { allow: ['*read', 'wiki__*'], deny: ['wiki__long'], rename: { wiki__search: 'find' } },
    });
    expect(await tools(view)).toEqual(['files__read', 'wiki__read', 'find']);
    await call('tools/call', { name: 'find' }, view);
    await call('tools/call', { name: 'wiki.read' }, view);
    expect(reached).toEqual(['wiki tools/call search', 'wiki tools/call read']);
    for (const name of ['wiki__search', 'search', 'wiki__long', 'files__write', 'write', 'mail__send', 'send'])
      await expect(call('tools/call', { name }, view), name).rejects.toMatchObject(refusal('tool_not_found'));
    expect(reached).toHaveLength(2);
  });

  test('a new name stands for one tool only, even if a server has a tool of that name', async () => {
    const { tools, call, reached } = gatewayOf(FAKES);
    const naming = { separator: '__', prefix: 'never' as const };
    const view = named({ servers: ['files', 'wiki'], naming, tools: { ...all, rename: { wiki__search: 'write' } } });
    expect(await tools(view)).toEqual(['read', 'write', 'long']);
    await call('tools/call', { name: 'write' }, view);
    const single = named({ servers: ['mail'], naming, tools: { ...all, rename: { send: 'mail_out' } } });
    expect(await tools(single)).toEqual(['mail_out', 'long']);
    await call('tools/call', { name: 'mail_out' }, single);
    expect(reached).toEqual(['wiki tools/call search', 'mail tools/call send']);
    const conflict = { separator: '__', prefix: 'conflict' as const };
    const freed = named({ groups: ['docs'], naming: conflict, tools: { ...all, rename: { wiki__read: 'look' } } });
    expect(await tools(freed)).toEqual(['read', 'write', 'look', 'search', 'long']);
  });

  test('BASE-20: refuses completions with "method_not_found" if none of its servers declares them', async () => {
    const { call } = gatewayOf({ plain: { tools: ['say'] } });
    const ref = { type: 'ref/prompt', name: 'ask' };
    await expect(call('completion/complete', { ref }, named({ servers: ['plain'] }))).rejects.toMatchObject(
      refusal('method_not_found'),
    );
  });

  test('limits prompts, resources, completions and instructions', async () => {
    const { call, names, reached } = gatewayOf(FAKES);
    const view = named({
      servers: ['files'],
      prompts: { allow: ['ask'], deny: [] },
      resources: { allow: [], deny: ['files://secret/*'] },
    });
    expect(await names('prompts/list', 'prompts', view)).toEqual(['files__ask']);
    expect(await names('resources/list', 'resources', view)).toEqual(['files://a']);
    await call('prompts/get', { name: 'files__ask' }, view);
    await call('resources/read', { uri: 'files://a' }, view);
    expect(reached).toEqual(['files prompts/get ask', 'files resources/read']);
    for (const name of ['files__tell', 'tell']) {
      await expect(call('prompts/get', { name }, view)).rejects.toMatchObject(refusal('prompt_not_found'));
      const ref = { type: 'ref/prompt', name };
      await expect(call('completion/complete', { ref }, view)).rejects.toMatchObject(refusal('prompt_not_found'));
    }
    for (const uri of ['files://secret/b', 'files://secret/c', 'mail://x']) {
      await expect(call('resources/read', { uri }, view), uri).rejects.toMatchObject(refusal('resource_not_found'));
      const ref = { type: 'ref/resource', uri };
      await expect(call('completion/complete', { ref }, view)).rejects.toMatchObject(refusal('resource_not_found'));
    }
    expect(reached).toHaveLength(2);
    expect(await call('server/discover', {}, view)).toMatchObject({ instructions: '[files] Use files.' });
  });

  test('does not forward a method that only a server knows, even if the view has one server', async () => {
    const { call, reached } = gatewayOf(FAKES);
    const view = named({ servers: ['mail'], naming: 'own' });
    await expect(call('vendor/do', {}, view)).rejects.toMatchObject(refusal('method_not_found'));
    expect(reached).toEqual([]);
  });

  test('shows only the tasks of its own servers', async () => {
    const { call, reached } = gatewayOf(FAKES);
    const able = { ...ada, capabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } };
    const { taskId } = (await call('tools/call', { name: 'wiki__long' }, undefined, able)) as { taskId: string };
    const inside = named({ servers: ['wiki'] });
    const outside = named({ servers: ['mail'] });
    await call('tasks/get', { taskId }, inside, able);
    await expect(call('tasks/get', { taskId }, outside, able)).rejects.toMatchObject(refusal('task_not_found'));
    expect(reached).toEqual(['wiki tools/call long', 'wiki tasks/get own']);
  });

  test('applies a change of the configuration at once, and shows nothing after its removal', async () => {
    const { tools } = gatewayOf(FAKES);
    const views = new Views({ research: { servers: ['mail'] } });
    const view = views.get('research')!;
    const { key } = view;
    expect(await tools(view)).toEqual(['mail__send', 'mail__long']);
    views.configure({ research: { servers: ['wiki'], tools: { ...all, rename: { read: 'look' } } }, other: {} });
    expect(views.get('research')).toBe(view);
    expect(await tools(view)).toEqual(['look', 'wiki__search', 'wiki__long']);
    expect([view.key, views.names]).toEqual([key, ['research', 'other']]);
    views.configure({});
    expect([await tools(view), views.get('research')]).toEqual([[], undefined]);
  });
});

test('a failed resolution is an outcome, not an exception', async () => {
  const { gateway } = gatewayOf({ a: { tools: ['x'] } });
  const outcome = await gateway.call(ada, plainCall('tools/call', RawObject.from({ name: 'none' }), ALL_SERVERS));
  expect(outcome).toEqual(failed(expect.objectContaining({ reason: 'tool_not_found' }) as never));
});
