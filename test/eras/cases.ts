/**
 * The cases tried in every cell of the matrix. A case declares for which pairs its feature crosses, where it must be
 * refused, and where it does not exist; the check itself is written once for all pairs.
 */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import type { Answer, EraClient, FixtureServer, Json, ServerTransport } from './peers.js';

export interface Cell {
  /** The positions of the client's and the server's revision in the list of revisions, from zero. */
  readonly c: number;
  readonly s: number;
  readonly server: FixtureServer;
  /** A client without capabilities, which cannot be asked anything. */
  readonly client: EraClient;
  /** A client with every capability of its revision. */
  readonly asked: EraClient;
  /** Sets the answers of `asked` for all later questions. */
  answer: Answer;
}

/** The feature crosses, is refused with a reason, or does not exist on one of the sides. */
export type Verdict = 'crosses' | 'refused' | 'absent';

export interface Case {
  readonly name: string;
  readonly verdict: (c: number, s: number, transport: ServerTransport) => Verdict;
  readonly run: (cell: Cell) => Promise<void>;
  /** The attempt where the feature must be refused; the result or the error must contain the reason. */
  readonly attempt?: (cell: Cell) => Promise<Json>;
  readonly reason?: RegExp;
  /**
   * Runs after all other cases of all clients. The gateway forwards a server message without a call id only while one
   * call is possible, and a cancelled call may continue for a while.
   */
  readonly last?: boolean;
}

export const PAGE_SIZE = 4;

/** The time limit for a refusal, in milliseconds. */
export const REFUSAL_TIME = 20_000;

const always = (): Verdict => 'crosses';
/** The feature exists for servers from this revision on; clients of every revision get it in some form. */
const fromServer =
  (first: number) =>
  (_c: number, s: number): Verdict =>
    s >= first ? 'crosses' : 'absent';
/** Questions need a client and a server whose revisions have them. */
const question =
  (server: number, client: number) =>
  (c: number, s: number): Verdict => {
    if (s < server) return 'absent';
    // A server that replies with plain JSON asks on the stream of its session: the question belongs to the one open
    // call of that session (NX-01).
    return c >= client ? 'crosses' : 'refused';
  };

let tags = 0;
export const newTag = (): string => `t${process.pid}-${++tags}`;

export type Content = Json & { readonly type: string };
export const contentOf = (result: Json): Content[] => result['content'] as Content[];
export const textOf = (result: Json): string =>
  contentOf(result)
    .map((block) => String(block['text'] ?? ''))
    .join('');

/** Waits for a condition. The timeout only ends a failed test; it is not part of the expectation. */
export async function eventually<T>(what: string, look: () => T | undefined | false, patience = 30_000): Promise<T> {
  for (const end = Date.now() + patience; ; ) {
    const seen = look();
    if (seen !== undefined && seen !== false) return seen;
    if (Date.now() > end) throw new Error(`did not happen: ${what}`);
    await delay(10);
  }
}

export interface RpcFailure extends Error {
  readonly code: number;
  readonly data?: unknown;
}

export async function failureOf(promise: Promise<unknown>): Promise<RpcFailure> {
  try {
    await promise;
  } catch (error) {
    return error as RpcFailure;
  }
  throw new Error('it succeeded');
}

/** Asserts the absence of members that only the modern envelope has (BR-10). */
function assertClean(result: Json, { c }: Cell): void {
  if (c === 4) return;
  for (const member of ['resultType', 'ttlMs', 'cacheScope']) assert.ok(!(member in result), `${member} in the result`);
  const meta = (result['_meta'] ?? {}) as Json;
  assert.deepEqual(
    Object.keys(meta).filter((key) => key.startsWith('io.modelcontextprotocol/')),
    [],
  );
}

/** Calls a tool that must run exactly once. */
async function callOnce(cell: Cell, name: string, client = cell.client): Promise<Json> {
  const tag = newTag();
  const result = await client.call(name, { tag });
  assertClean(result, cell);
  assert.equal(cell.server.happened('run', tag).length, 1, `runs of ${name}`);
  return result;
}

async function listAll(cell: Cell, method: string, member: string): Promise<Json[]> {
  const items: Json[] = [];
  let cursor: unknown;
  do {
    const page = await cell.client.request(method, cursor === undefined ? {} : { cursor });
    assertClean(page, cell);
    const part = page[member] as Json[];
    assert.ok(part.length <= PAGE_SIZE, `${part.length} entries on a page`);
    items.push(...part);
    cursor = page['nextCursor'];
  } while (cursor !== undefined);
  return items;
}

async function toolNamed(cell: Cell, name: string): Promise<Json> {
  const tool = (await listAll(cell, 'tools/list', 'tools')).find((one) => one['name'] === name);
  assert.ok(tool, `no tool ${name}`);
  return tool;
}

const GATEWAY_CASES: readonly Case[] = [
  {
    name: 'negotiation',
    verdict: always,
    run: async ({ client }) => {
      assert.equal(client.negotiated, client.revision);
      assert.equal(client.instructions, 'A server to test with');
    },
  },
  {
    name: 'tools: list, pages, order',
    verdict: always,
    run: async (cell) => {
      const names = (await listAll(cell, 'tools/list', 'tools')).map(({ name }) => name);
      assert.ok(names.length > PAGE_SIZE && new Set(names).size === names.length);
      assert.ok(names.includes('text') && names.includes('update'));
      assert.deepEqual(
        (await listAll(cell, 'tools/list', 'tools')).map(({ name }) => name),
        names,
      );
    },
  },
  {
    name: 'tools: members by revision',
    verdict: always,
    run: async (cell) => {
      const tool = await toolNamed(cell, 'described');
      const both = Math.min(cell.c, cell.s);
      assert.equal('annotations' in tool, both >= 1, 'annotations');
      assert.equal('title' in tool, both >= 2, 'title');
      assert.equal((tool['_meta'] as Json | undefined)?.['example.com/kept'], both >= 2 ? 'yes' : undefined);
      assert.equal('icons' in tool, both >= 3, 'icons');
    },
  },
  {
    name: 'tools: text',
    verdict: always,
    run: async (cell) => {
      const result = await callOnce(cell, 'text');
      assert.match(textOf(result), /^text t/);
    },
  },
  {
    name: 'tools: image',
    verdict: always,
    run: async (cell) => {
      const [block] = contentOf(await callOnce(cell, 'image'));
      assert.equal(block?.type, 'image');
      assert.match(String(block?.['data']), /^iVBORw0KGgo/);
    },
  },
  {
    name: 'tools: audio',
    verdict: fromServer(1),
    run: async (cell) => {
      const [block] = contentOf(await callOnce(cell, 'audio'));
      if (cell.c >= 1) assert.equal(block?.type, 'audio');
      else assert.ok(block?.type === 'resource' || block?.type === 'text', `${block?.type} for audio`);
    },
  },
  {
    name: 'tools: embedded resource',
    verdict: always,
    run: async (cell) => {
      const [block] = contentOf(await callOnce(cell, 'embedded'));
      assert.equal(block?.type, 'resource');
      assert.equal((block?.['resource'] as Json | undefined)?.['text'], 'plain words');
    },
  },
  {
    name: 'tools: resource link',
    verdict: fromServer(2),
    run: async (cell) => {
      const [block] = contentOf(await callOnce(cell, 'link'));
      if (cell.c >= 2) assert.equal(block?.type, 'resource_link');
      else assert.ok(block?.type === 'resource' || block?.type === 'text', `${block?.type} for a link`);
      assert.match(JSON.stringify(block), /era:\/\/text/);
    },
  },
  {
    name: 'tools: structured result',
    verdict: fromServer(2),
    run: async (cell) => {
      const result = await callOnce(cell, 'structured');
      assert.deepEqual(result['structuredContent'], cell.c >= 2 ? { answer: 42 } : undefined);
      assert.match(textOf(result), /42/);
      assert.equal('outputSchema' in (await toolNamed(cell, 'structured')), cell.c >= 2, 'outputSchema');
    },
  },
  {
    name: 'tools: structured result, no object',
    verdict: fromServer(4),
    run: async (cell) => {
      const result = await callOnce(cell, 'anything');
      assert.deepEqual(result['structuredContent'], cell.c >= 4 ? [1, 2, 3] : undefined);
      if (cell.c < 4) assert.deepEqual(JSON.parse(textOf(result)), [1, 2, 3]);
      assert.equal('outputSchema' in (await toolNamed(cell, 'anything')), cell.c >= 4, 'outputSchema');
    },
  },
  {
    name: 'errors: isError',
    verdict: always,
    run: async (cell) => {
      const result = await callOnce(cell, 'fails');
      assert.equal(result['isError'], true);
      assert.equal(textOf(result), 'it failed');
    },
  },
  {
    name: 'errors: JSON-RPC error',
    verdict: always,
    run: async ({ client }) => {
      const error = await failureOf(client.call('throws'));
      assert.equal(error.code, 4711);
      assert.match(error.message, /it threw/);
    },
  },
  {
    name: 'errors: unknown tool',
    verdict: always,
    run: async ({ client }) => assert.equal((await failureOf(client.call('no_such_tool'))).code, -32602),
  },
  {
    name: 'progress',
    // An SDK server that replies with plain JSON cannot send it.
    verdict: (_c, _s, transport) => (transport === 'json' ? 'absent' : 'crosses'),
    run: async ({ c, s, client }) => {
      const before = client.received.length;
      const result = await client.call('progress', {}, { onprogress: () => {} });
      assert.equal(textOf(result), 'done');
      const seen = client.received
        .slice(before)
        .filter(({ method }) => method === 'notifications/progress')
        .map(({ params = {} }) => params);
      assert.deepEqual(
        seen.map(({ progress, total }) => [progress, total]),
        [
          [1, 3],
          [2, 3],
          [3, 3],
        ],
      );
      if (c === 0) assert.ok(seen.every((params) => !('message' in params)));
      else if (s >= 1) assert.equal(seen[0]?.['message'], 'step 1');
      assert.equal(textOf(await client.call('progress')), 'no token');
    },
  },
  {
    name: 'cancellation',
    last: true,
    verdict: always,
    run: async ({ server, client }) => {
      const tag = newTag();
      const abort = new AbortController();
      const call = client.call('slow', { tag }, { signal: abort.signal });
      const failure = failureOf(call);
      await eventually('the call starts', () => server.happened('started', tag).length === 1);
      abort.abort('changed my mind');
      await failure;
      await eventually('the server hears of it', () => server.happened('cancelled', tag).length === 1);
    },
  },
  {
    name: 'logging',
    // A log message on the stream of the session belongs to no request, and a modern client accepts only messages of a
    // request.
    verdict: (c, _s, transport) => (transport === 'json' && c === 4 ? 'absent' : 'crosses'),
    run: async ({ client }) => {
      const logged = async (level: string): Promise<string[]> => {
        const tag = newTag();
        await client.setLevel(level);
        const before = client.received.length;
        await client.call('logs', { tag });
        const seen = (): string[] =>
          client.received
            .slice(before)
            .filter(({ method }) => method === 'notifications/message')
            .map(({ params }) => String(params?.['data']))
            .filter((data) => data.endsWith(tag))
            .map((data) => data.split(' ')[0]!);
        await eventually(`a log at ${level}`, () => seen().includes('error'));
        return seen();
      };
      assert.deepEqual(await logged('info'), ['info', 'error']);
      assert.deepEqual(await logged('error'), ['error']);
      assert.deepEqual(await logged('debug'), ['debug', 'info', 'error']);
    },
  },
  {
    name: '_meta',
    verdict: always,
    run: async ({ c, s, client }) => {
      const result = await client.call('meta', {}, { meta: { 'example.com/custom': { deep: [1] } } });
      const { meta, envelope } = JSON.parse(textOf(result)) as { meta: Json; envelope: Json | null };
      assert.deepEqual(meta, { 'example.com/custom': { deep: [1] } });
      if (s === 4) {
        assert.equal(envelope?.['io.modelcontextprotocol/protocolVersion'], '2026-07-28');
        assert.notEqual((envelope?.['io.modelcontextprotocol/clientInfo'] as Json | undefined)?.['name'], 'era-client');
      }
      assert.equal((result['_meta'] as Json)['example.com/back'], 'from the server');
      if (c < 4) assert.deepEqual(Object.keys(result['_meta'] as Json), ['example.com/back']);
    },
  },
  {
    name: 'ping',
    verdict: (c) => (c < 4 ? 'crosses' : 'absent'),
    run: async ({ client }) => assert.deepEqual(await client.request('ping'), {}),
  },
  ...(['tools', 'prompts', 'resources'] as const).map(
    (list): Case => ({
      name: `${list}: list_changed`,
      verdict: always,
      run: async (cell) => {
        const { client } = cell;
        const stop = await client.watchLists();
        const key = list === 'resources' ? 'uri' : 'name';
        const name = list === 'resources' ? 'era://added' : 'added';
        const has = async (): Promise<boolean> =>
          (await listAll(cell, `${list}/list`, list)).some((item) => item[key] === name);
        const had = await has();
        for (const expected of [!had, had]) {
          const before = client.received.length;
          await client.call('change', { list });
          // The notification of the change and the response to the call may arrive on two connections, in either order.
          // A client that lists again after each notification, and at no other time, must end with the current list.
          const words = (): number =>
            client.received.slice(before).filter(({ method }) => method === `notifications/${list}/list_changed`)
              .length;
          let heard = 0;
          do {
            await eventually(`${list}/list_changed (heard ${heard} so far)`, () => words() > heard);
            heard = words();
          } while ((await has()) !== expected);
        }
        await stop();
      },
    }),
  ),
  {
    name: 'resources: list, pages',
    verdict: always,
    run: async (cell) => {
      const uris = (await listAll(cell, 'resources/list', 'resources')).map(({ uri }) => uri);
      assert.ok(uris.includes('era://text') && uris.includes('era://page/5'));
      assert.equal(new Set(uris).size, 8);
    },
  },
  {
    name: 'resources: text and binary',
    verdict: always,
    run: async (cell) => {
      const text = await cell.client.request('resources/read', { uri: 'era://text' });
      assertClean(text, cell);
      assert.equal((text['contents'] as Json[])[0]?.['text'], 'plain words');
      const binary = await cell.client.request('resources/read', { uri: 'era://binary' });
      assert.match(String((binary['contents'] as Json[])[0]?.['blob']), /^iVBORw0KGgo/);
    },
  },
  {
    name: 'resources: templates',
    verdict: always,
    run: async (cell) => {
      const templates = await listAll(cell, 'resources/templates/list', 'resourceTemplates');
      assert.deepEqual(
        templates.map(({ uriTemplate }) => uriTemplate),
        ['era://item/{id}'],
      );
      const read = await cell.client.request('resources/read', { uri: 'era://item/seven' });
      assert.equal((read['contents'] as Json[])[0]?.['text'], 'item seven');
    },
  },
  {
    name: 'resources: missing',
    verdict: always,
    run: async ({ c, client }) => {
      const error = await failureOf(client.request('resources/read', { uri: 'era://missing' }));
      const raw = client.received.findLast((message) => message.error)?.error;
      assert.equal(raw?.['code'], c === 4 ? -32602 : -32002);
      if (c === 4) assert.equal((raw?.['data'] as Json | undefined)?.['uri'], 'era://missing');
      assert.match(error.message, /era:\/\/missing|not found/i);
    },
  },
  {
    name: 'resources: subscribe, updated',
    verdict: always,
    run: async ({ client }) => {
      const uri = 'era://watched';
      const stop = await client.subscribe(uri);
      const updates = (from: number): number =>
        client.received
          .slice(from)
          .filter(({ method, params }) => method === 'notifications/resources/updated' && params?.['uri'] === uri)
          .length;
      const start = client.received.length;
      await client.call('update', { uri });
      await eventually('an update', () => updates(start) === 1);
      await stop();
      const after = client.received.length;
      await client.call('update', { uri });
      await delay(50);
      assert.equal(updates(after), 0, 'updates after the end of the subscription');
    },
  },
  {
    name: 'prompts: list, get, unknown',
    verdict: always,
    run: async (cell) => {
      const { client } = cell;
      const names = (await listAll(cell, 'prompts/list', 'prompts')).map(({ name }) => name);
      assert.deepEqual(names.slice(0, 2), ['greet', 'pictured']);
      const greet = await client.request('prompts/get', { name: 'greet', arguments: { name: 'Ada' } });
      assertClean(greet, cell);
      assert.match(JSON.stringify(greet['messages']), /Hello, Ada!/);
      const pictured = await client.request('prompts/get', { name: 'pictured' });
      assert.match(JSON.stringify(pictured['messages']), /"image".*iVBORw0KGgo|iVBORw0KGgo.*"image"/);
      assert.equal((await failureOf(client.request('prompts/get', { name: 'no_such_prompt' }))).code, -32602);
    },
  },
  {
    name: 'completion',
    verdict: always,
    run: async (cell) => {
      const values = async (ref: Json, argument: Json, context?: Json): Promise<unknown> => {
        const result = await cell.client.request('completion/complete', {
          ref,
          argument,
          ...(context && { context }),
        });
        assertClean(result, cell);
        return (result['completion'] as Json)['values'];
      };
      const prompt = { type: 'ref/prompt', name: 'greet' };
      assert.deepEqual(await values(prompt, { name: 'name', value: 'A' }), ['Ada', 'Alan']);
      const template = { type: 'ref/resource', uri: 'era://item/{id}' };
      assert.deepEqual(await values(template, { name: 'id', value: '' }), ['1', '2']);
      const context = { arguments: { language: 'de' } };
      assert.deepEqual(
        await values(prompt, { name: 'name', value: 'A' }, cell.c >= 2 ? context : undefined),
        cell.c >= 2 && cell.s >= 2 ? ['Anna', 'Anton'] : ['Ada', 'Alan'],
      );
    },
  },
];

/** Accepts every form with valid content, answers sampling with a fixed text, and has one root. */
export const ACCEPT: Answer = (method, params) => {
  if (method === 'roots/list') return { roots: [{ uri: 'file:///work', name: 'work' }] };
  if (method === 'sampling/createMessage') {
    const content = { type: 'text', text: 'Paris' };
    const use = { type: 'tool_use', id: 'use-1', name: 'weather', input: { city: 'Paris' } };
    const tools = params['tools'] !== undefined;
    return {
      role: 'assistant',
      model: 'model',
      content: tools ? [use] : content,
      stopReason: tools ? 'toolUse' : 'endTurn',
    };
  }
  if (params['mode'] === 'url') return { action: 'accept' };
  const { properties } = params['requestedSchema'] as { properties: Record<string, Json> };
  const fitting = ([name, schema]: [string, Json]): [string, unknown] => {
    const [first] = (schema['oneOf'] as Json[] | undefined)?.map((one) => one['const']) ??
      (schema['enum'] as unknown[] | undefined) ?? [`the ${name}`];
    return [name, schema['type'] === 'array' ? ['r', 'b'] : first];
  };
  return { action: 'accept', content: Object.fromEntries(Object.entries(properties).map(fitting)) };
};

/** Asks through a tool that runs once, and returns the answer that the tool received. */
async function ask(cell: Cell, name: string, answer: Answer = ACCEPT): Promise<Json> {
  cell.answer = answer;
  const result = await callOnce(cell, name, cell.asked);
  assert.ok(!result['isError'], `the tool failed: ${textOf(result)}`);
  return JSON.parse(textOf(result)) as Json;
}

const attempt =
  (name: string) =>
  (cell: Cell): Promise<Json> => {
    cell.answer = ACCEPT;
    return cell.asked.call(name, { tag: newTag() });
  };

const ELICITATION = /elicitation/i;
const SAMPLING = /sampling/i;
const NO_ONE = /elicitation|sampling|roots|belongs to no request|no client can be asked/i;

const BRIDGE_CASES: readonly Case[] = [
  {
    name: 'form: accepted',
    verdict: question(2, 2),
    run: async (cell) => {
      assert.deepEqual(await ask(cell, 'ask_form'), { action: 'accept', content: { name: 'the name' } });
      const { params } = cell.asked.questions.at(-1)!;
      assert.match(String(params['message']), /Please fill in/);
      if (cell.c === 2)
        assert.ok(!('mode' in params), "the question has a mode, which this client's revision does not have");
    },
    attempt: attempt('ask_form'),
    reason: NO_ONE,
  },
  {
    name: 'form: declined, cancelled',
    verdict: question(2, 2),
    run: async (cell) => {
      assert.deepEqual(await ask(cell, 'ask_form', () => ({ action: 'decline' })), { action: 'decline' });
      assert.deepEqual(await ask(cell, 'ask_form', () => ({ action: 'cancel' })), { action: 'cancel' });
    },
    attempt: attempt('ask_form'),
    reason: NO_ONE,
  },
  {
    name: 'form: titled choice',
    verdict: question(3, 2),
    run: async (cell) => {
      assert.deepEqual(await ask(cell, 'ask_choice'), { action: 'accept', content: { colour: 'r' } });
      const schema = cell.asked.questions.at(-1)!.params['requestedSchema'] as { properties: { colour: Json } };
      const { colour } = schema.properties;
      if (cell.c === 2)
        assert.deepEqual(
          [colour['enum'], colour['enumNames']],
          [
            ['r', 'g'],
            ['Red', 'Green'],
          ],
        );
      else assert.ok(colour['oneOf']);
    },
    attempt: attempt('ask_choice'),
    reason: NO_ONE,
  },
  {
    name: 'form: several choices',
    verdict: question(3, 3),
    run: async (cell) =>
      assert.deepEqual(await ask(cell, 'ask_choices'), { action: 'accept', content: { colours: ['r', 'b'] } }),
    attempt: attempt('ask_choices'),
    reason: NO_ONE,
  },
  {
    name: 'form: twice',
    verdict: question(2, 2),
    run: async (cell) =>
      assert.deepEqual(await ask(cell, 'ask_twice'), [
        { action: 'accept', content: { first: 'the first' } },
        { action: 'accept', content: { second: 'the second' } },
      ]),
    attempt: attempt('ask_twice'),
    reason: NO_ONE,
  },
  {
    name: 'form: progress around it',
    verdict: (c, s, transport) => (transport === 'json' ? 'absent' : question(2, 2)(c, s)),
    run: async (cell) => {
      cell.answer = ACCEPT;
      const before = cell.asked.received.length;
      const tag = newTag();
      await cell.asked.call('ask_slowly', { tag }, { onprogress: () => {} });
      const seen = cell.asked.received
        .slice(before)
        .filter(({ method }) => method === 'notifications/progress')
        .map(({ params }) => Number(params?.['progress']));
      // A modern server runs the tool from the start in each round, so it may report the first step again.
      assert.deepEqual([...new Set(seen)], [1, 2]);
      assert.equal(cell.server.happened('run', tag).length, 1);
    },
    attempt: attempt('ask_slowly'),
    reason: NO_ONE,
  },
  {
    name: 'form: from a prompt',
    verdict: question(2, 2),
    run: async (cell) => {
      cell.answer = ACCEPT;
      const prompt = await cell.asked.request('prompts/get', { name: 'asking' });
      assertClean(prompt, cell);
      assert.match(JSON.stringify(prompt['messages']), /the name/);
    },
    attempt: (cell) => {
      cell.answer = ACCEPT;
      return cell.asked.request('prompts/get', { name: 'asking' });
    },
    reason: NO_ONE,
  },
  {
    name: 'URL: accepted, declined',
    verdict: question(3, 3),
    run: async (cell) => {
      assert.deepEqual(await ask(cell, 'ask_url'), { action: 'accept' });
      const { params } = cell.asked.questions.at(-1)!;
      assert.match(String(params['url']), /^https:\/\/example\.com\/sign-in\?tag=t/);
      assert.equal(typeof params['elicitationId'] === 'string', cell.c === 3, 'elicitationId');
      assert.deepEqual(await ask(cell, 'ask_url', () => ({ action: 'decline' })), { action: 'decline' });
    },
    attempt: attempt('ask_url'),
    reason: NO_ONE,
  },
  {
    name: 'URL: required first (-32042)',
    verdict: (c, s) => (s !== 3 ? 'absent' : c >= 3 ? 'crosses' : 'refused'),
    run: async (cell) => {
      const { c, asked } = cell;
      cell.answer = ACCEPT;
      const tag = newTag();
      if (c === 3) {
        const error = await failureOf(asked.call('needs_url', { tag }));
        assert.equal(error.code, -32042);
        const { elicitations } = error.data as { elicitations: Json[] };
        assert.match(String(elicitations[0]?.['url']), /consent\?tag=/);
      }
      assert.equal(textOf(await asked.call('needs_url', { tag })), 'consented');
      if (c === 4) assert.match(String(asked.questions.at(-1)?.params['url']), /consent\?tag=/);
    },
    attempt: attempt('needs_url'),
    reason: /https:\/\/example\.com\/consent/,
  },
  {
    name: 'sampling',
    verdict: question(0, 0),
    run: async (cell) => {
      const { role, model, content } = await ask(cell, 'ask_model');
      assert.deepEqual([role, model, content], ['assistant', 'model', { type: 'text', text: 'Paris' }]);
      assert.match(JSON.stringify(cell.asked.questions.at(-1)!.params), /capital of France/);
    },
    attempt: attempt('ask_model'),
    reason: NO_ONE,
  },
  {
    name: 'sampling: refused by the client',
    // A modern client does not retry, and its call waits at the server. Meanwhile a server that asks on the stream of
    // its session is told that no client can be asked (NX-01).
    last: true,
    verdict: question(0, 0),
    run: async (cell) => {
      cell.answer = () => {
        throw Object.assign(new Error('User rejected sampling request'), { code: -1 });
      };
      const tag = newTag();
      const said = await cell.asked.call('ask_model', { tag }).then(
        (result) => ({ isError: result['isError'], text: textOf(result) }),
        (error: Error) => ({ isError: true, text: error.message }),
      );
      assert.equal(said.isError, true);
      assert.ok(cell.server.happened('run', tag).length <= 1);
    },
    attempt: attempt('ask_model'),
    reason: NO_ONE,
  },
  {
    name: 'sampling with tools',
    verdict: question(3, 3),
    run: async (cell) => {
      const { content, stopReason } = await ask(cell, 'ask_model_tools');
      assert.equal(stopReason, 'toolUse');
      assert.deepEqual(([content].flat() as Json[])[0]?.['name'], 'weather');
    },
    attempt: attempt('ask_model_tools'),
    reason: NO_ONE,
  },
  {
    name: 'roots',
    verdict: question(0, 0),
    run: async (cell) => assert.deepEqual(await ask(cell, 'ask_roots'), ACCEPT('roots/list', {})),
    attempt: attempt('ask_roots'),
    reason: NO_ONE,
  },
  {
    name: 'form, model and roots at once',
    verdict: question(2, 2),
    run: async (cell) => {
      const { name, model, roots } = (await ask(cell, 'ask_all')) as Record<string, Json>;
      assert.deepEqual(name, { action: 'accept', content: { name: 'the name' } });
      assert.deepEqual(model?.['content'], { type: 'text', text: 'Paris' });
      assert.deepEqual(roots, ACCEPT('roots/list', {}));
    },
    attempt: attempt('ask_all'),
    reason: NO_ONE,
  },
  {
    name: 'rounds with nothing but a state',
    verdict: fromServer(4),
    run: async (cell) => assert.equal(textOf(await callOnce(cell, 'wait_state', cell.asked)), 'after 2 rounds'),
  },
  {
    name: 'client without elicitation',
    verdict: (_c, s) => (s >= 2 ? 'refused' : 'absent'),
    run: async () => {},
    attempt: (cell) => cell.client.call('ask_form', { tag: newTag() }),
    reason: ELICITATION,
  },
  {
    name: 'client without sampling',
    verdict: () => 'refused',
    run: async () => {},
    attempt: (cell) => cell.client.call('ask_model', { tag: newTag() }),
    reason: SAMPLING,
  },
  {
    name: 'client without roots',
    verdict: () => 'refused',
    run: async () => {},
    attempt: (cell) => cell.client.call('ask_roots', { tag: newTag() }),
    reason: /roots/i,
  },
];

export const CASES = { gateway: GATEWAY_CASES, bridge: BRIDGE_CASES } as const;

/**
 * Tries a feature that cannot cross: it must be refused in time, with a result or an error that contains the reason.
 */
export async function checkRefused(one: Case, cell: Cell): Promise<void> {
  const started = Date.now();
  const said = await one.attempt!(cell).then(
    (result) => {
      assert.equal(result['isError'], true, `not refused: ${JSON.stringify(result).slice(0, 200)}`);
      return textOf(result);
    },
    (error: RpcFailure) => `${error.message} ${JSON.stringify(error.data ?? '')}`,
  );
  assert.ok(Date.now() - started < REFUSAL_TIME, `the refusal took ${Date.now() - started} ms: ${said}`);
  assert.match(said, one.reason ?? /./);
}
