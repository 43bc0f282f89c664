/**
 * Sealed values in requests: a value that was changed, belongs to another caller or has another purpose gets -32602
 * (BR-14).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accept, answersTo, FORM, LegacyClient, ModernClient, textOf, WITH_TASKS } from './support/clients.js';
import { eventually, type Message } from './support/wire.js';
import { runsOf, startWorld, tokenOf, tokensFor, type World } from './support/world.js';

let world: World;
let alice: ModernClient;
let bob: ModernClient;

beforeAll(async () => {
  world = await startWorld({
    http: { one: {}, two: { eventIds: true } },
    config: {
      auth: tokensFor(['alice', 'bob']),
      limits: { pageSize: 2 },
    },
  });
  alice = new ModernClient(world.mcp, undefined, tokenOf('alice'));
  bob = new ModernClient(world.mcp, undefined, tokenOf('bob'));
});
afterAll(() => world?.close());

/** The work of the servers so far. A refused request must add nothing. */
const done = () => world.entries().filter(({ kind }) => kind !== 'initialize' && kind !== 'told');

async function refusedUnseen(request: () => Promise<Message>): Promise<void> {
  const before = done().length;
  const { error, result } = await request();
  expect({ code: error?.code, result }).toEqual({ code: -32602, result: undefined });
  expect(done().slice(before)).toEqual([]);
}

/** Changes each character by one bit, and shortens, lengthens and re-encodes the text. */
function* tampered(text: string): Generator<string> {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  for (let at = 0; at < text.length; at++) {
    const value = alphabet.indexOf(text[at]!);
    const bit = 1 << (at % 6);
    yield `${text.slice(0, at)}${alphabet[value ^ bit]}${text.slice(at + 1)}`;
  }
  for (const end of '04') yield `${text.slice(0, -1)}${alphabet[alphabet.indexOf(text.at(-1)!) ^ (Number(end) + 1)]}`;
  yield text.slice(1);
  yield text.slice(0, -1);
  yield text.slice(0, text.length / 2);
  yield `${text}A`;
  yield `${text}=`;
  yield ` ${text}`;
  yield `${text}\n`;
  yield `${text.slice(0, 10)}!${text.slice(10)}`;
  yield text.replaceAll('-', '+').replaceAll('_', '/').concat('==');
  yield '';
  yield 'null';
}

describe('requestState of a parked call', () => {
  let parked: Message;
  const args = { key: 'target', list: [1, { a: 1 }] };
  const retry = (
    client: ModernClient,
    requestState: string,
    other: { name?: string; args?: object; answer?: string } = {},
  ) =>
    client.call(other.name ?? 'one__ask', (other.args ?? args) as typeof args, {
      inputResponses: answersTo(parked, accept({ answer: other.answer ?? 'yes' })),
      requestState,
    });
  const state = (): string => parked.result.requestState;

  test('S20: changed at any position', async () => {
    parked = await alice.call('one__ask', args);
    const before = done().length;
    const answers: Message[] = [];
    for (const changed of tampered(state())) {
      if (changed === state()) continue;
      answers.push(await retry(alice, changed));
    }
    expect(answers.filter(({ error }) => error?.code !== -32602)).toEqual([]);
    expect(answers.length).toBeGreaterThan(200);
    expect(done().slice(before)).toEqual([]);
  });

  test('S20: of another caller', async () => {
    parked = await alice.call('one__ask', args);
    await refusedUnseen(() => retry(bob, state()));
  });

  test.each([
    ['another value', { key: 'other', list: [1, { a: 1 }] }],
    ['one more', { ...args, more: true }],
    ['an object that became a list', { key: 'target', list: [1, [['a', 1]]] }],
    ['none', {}],
  ])('with other arguments: %s', async (_, other) => {
    parked = await alice.call('one__ask', args);
    await refusedUnseen(() => retry(alice, state(), { args: other }));
  });

  test('S20: with another tool, the same tool of another server, another method', async () => {
    parked = await alice.call('one__ask', args);
    await refusedUnseen(() => retry(alice, state(), { name: 'one__ask_two' }));
    await refusedUnseen(() => retry(alice, state(), { name: 'two__ask' }));
    await refusedUnseen(() =>
      alice.request('prompts/get', { name: 'one__ask', arguments: args, requestState: state(), inputResponses: {} }),
    );
  });

  test('the same arguments in another order count as the same', async () => {
    parked = await alice.call('one__ask', args);
    const ended = await retry(alice, state(), { args: { list: [1, { a: 1 }], key: 'target' } });
    expect(textOf(ended)).toBe('target: yes');
  });

  test('used again after its round, and after its call has ended', async () => {
    parked = await alice.call('one__ask', { ...args, rounds: 2 });
    const first = state();
    const second = await retry(alice, first, { args: { ...args, rounds: 2 } });
    expect(second.result.resultType).toBe('input_required');
    const firstRound = parked;
    parked = second;
    const ended = await retry(alice, state(), { args: { ...args, rounds: 2 } });
    expect(textOf(ended)).toBe('target: yes, yes');
    // A repeated answer counts as a repeated request: it gets the same reply, and nothing reaches the server.
    const before = done().length;
    expect(textOf(await retry(alice, state(), { args: { ...args, rounds: 2 } }))).toBe('target: yes, yes');
    expect(done().slice(before)).toEqual([]);
    await refusedUnseen(() => retry(alice, state(), { args: { ...args, rounds: 2 }, answer: 'no' }));
    parked = firstRound;
    await refusedUnseen(() => retry(alice, first, { args: { ...args, rounds: 2 } }));
  });

  test('S20: expired: the server gets a cancel, and a late answer reaches no server', async () => {
    const brief = await startWorld({ http: { one: {} }, config: { bridge: { parkTtl: '1s' } } });
    const client = new ModernClient(brief.mcp);
    const late = { key: 'late' };
    const asked = await client.call('one__ask', late);
    const answers = () => brief.entries().filter(({ kind }) => kind === 'answered');
    const told = () =>
      brief.entries().filter(({ kind, method }) => kind === 'told' && method === 'notifications/cancelled');
    await eventually(answers, ({ length }) => length > 0);
    await eventually(told, ({ length }) => length > 0);
    expect(answers()).toMatchObject([{ result: { action: 'cancel' } }]);
    await eventually(
      () => brief.entries(),
      (entries) => entries.some(({ kind }) => kind === 'ended'),
    );
    const before = brief.entries().length;
    const refused = await client.call('one__ask', late, {
      inputResponses: answersTo(asked, accept({ answer: 'yes' })),
      requestState: asked.result.requestState,
    });
    expect(refused.error?.code).toBe(-32602);
    expect(brief.entries().slice(before)).toEqual([]);
    expect(runsOf(brief.entries(), 'late')).toBe(1);
    await brief.close();
  });

  test('malformed answers are an error, and the call stays parked', async () => {
    parked = await alice.call('one__ask', args);
    for (const inputResponses of [[], 'yes', { a: 'b' }]) {
      await refusedUnseen(() =>
        alice.request('tools/call', { name: 'one__ask', arguments: args, requestState: state(), inputResponses }),
      );
    }
    await refusedUnseen(() => alice.request('tools/call', { name: 'one__ask', arguments: args, requestState: 17 }));
    expect(textOf(await retry(alice, state()))).toBe('target: yes');
  });
});

describe('requestState at the endpoint of one server', () => {
  test('is refused at the endpoint for all servers', async () => {
    const alone = new ModernClient(world.at('one'), undefined, tokenOf('alice'));
    const args = { key: 'alone' };
    const parked = await alone.call('ask', args);
    const options = {
      inputResponses: answersTo(parked, accept({ answer: 'yes' })),
      requestState: parked.result.requestState as string,
    };
    await refusedUnseen(() => alice.call('one__ask', args, options));
    await refusedUnseen(() =>
      new ModernClient(world.at('two'), undefined, tokenOf('alice')).call('ask', args, options),
    );
    expect(textOf(await alone.call('ask', args, options))).toBe('alone: yes');
  });
});

describe('task ids', () => {
  const tasked = (name: string) => new ModernClient(world.mcp, { ...FORM, ...WITH_TASKS }, tokenOf(name));

  test('of another caller, changed or invented: refused in every method, without any effect', async () => {
    const created = await tasked('alice').call('one__ask', { key: 'task' });
    expect(created.result.resultType).toBe('task');
    const { taskId } = created.result as { taskId: string };
    for (const [client, id] of [
      [tasked('bob'), taskId],
      [tasked('alice'), `${taskId.slice(0, -1)}${taskId.endsWith('0') ? '1' : '0'}`],
      [tasked('alice'), ''],
      [tasked('alice'), 'task-00000000-0000-0000-0000-000000000000'],
    ] as const) {
      await refusedUnseen(() => client.request('tasks/get', { taskId: id }));
      await refusedUnseen(() => client.request('tasks/cancel', { taskId: id }));
      await refusedUnseen(() => client.request('tasks/update', { taskId: id, inputResponses: {} }));
    }
    const seen = await tasked('alice').request('tasks/get', { taskId });
    expect(seen.result.status).toBe('input_required');
    await tasked('alice').request('tasks/cancel', { taskId });
  });

  test('contain at least 128 random bits', async () => {
    const created = await tasked('alice').call('one__ask', { key: 'chance' });
    const { taskId } = created.result as { taskId: string };
    expect(taskId.replaceAll(/[^0-9A-Za-z]/g, '').length).toBeGreaterThanOrEqual(32);
    await tasked('alice').request('tasks/cancel', { taskId });
  });

  test('of a 2025-11-25 client: unknown to another caller in every method', async () => {
    const mine = await LegacyClient.open(world.mcp, '2025-11-25', FORM, { token: tokenOf('alice') });
    const theirs = await LegacyClient.open(world.mcp, '2025-11-25', FORM, { token: tokenOf('bob') });
    const created = await mine.call('one__slow', { key: 'mine', milliseconds: 1_500 }, { task: { ttl: 60_000 } });
    const { taskId } = created.result.task as { taskId: string };
    await eventually(
      () => runsOf(world.entries(), 'mine'),
      (runs) => runs === 1,
    );
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel']) {
      await refusedUnseen(() => theirs.request(method, { taskId }));
      await refusedUnseen(() => theirs.request(method, { taskId: 17 }));
    }
    expect((await theirs.request('tasks/list')).result.tasks).toEqual([]);
    const listed = (await mine.request('tasks/list')).result.tasks as { taskId: string }[];
    expect(listed.map((task) => task.taskId)).toContain(taskId);
    await mine.request('tasks/cancel', { taskId });
    await mine.end();
    await theirs.end();
  });
});

describe('cursors', () => {
  test('of tools/list: refused if changed, of another caller or of another list', async () => {
    const { nextCursor } = (await alice.request('tools/list')).result as { nextCursor: string };
    expect(typeof nextCursor).toBe('string');
    const answers: Message[] = [];
    for (const cursor of tampered(nextCursor)) {
      if (cursor !== nextCursor) answers.push(await alice.request('tools/list', { cursor }));
    }
    expect(answers.filter(({ error }) => error?.code !== -32602)).toEqual([]);
    await refusedUnseen(() => bob.request('tools/list', { cursor: nextCursor }));
    await refusedUnseen(() => alice.request('prompts/list', { cursor: nextCursor }));
    const alone = new ModernClient(world.at('one'), undefined, tokenOf('alice'));
    await refusedUnseen(() => alone.request('tools/list', { cursor: nextCursor }));
    expect((await alice.request('tools/list', { cursor: nextCursor })).result.tools).toHaveLength(2);
  });

  test('of tasks/list: refused if invented or of another list', async () => {
    const client = await LegacyClient.open(world.mcp, '2025-11-25', FORM, { token: tokenOf('alice') });
    const { nextCursor } = (await client.request('tools/list')).result as { nextCursor: string };
    for (const cursor of ['made-up', nextCursor, ''])
      await refusedUnseen(() => client.request('tasks/list', { cursor }));
    await client.end();
  });

  test('of tasks/list: the pages contain every task once, and are refused to other callers', async () => {
    const client = await LegacyClient.open(world.mcp, '2025-11-25', FORM, { token: tokenOf('bob') });
    const made = new Set<string>();
    for (let n = 0; n < 120; n++)
      made.add((await client.call('one__echo', { text: `${n}` }, { task: {} })).result.task.taskId);
    const first = (await client.request('tasks/list')).result as { tasks: { taskId: string }[]; nextCursor: string };
    expect(typeof first.nextCursor).toBe('string');
    const rest = (await client.request('tasks/list', { cursor: first.nextCursor })).result;
    const listed = [...first.tasks, ...rest.tasks].map(({ taskId }: { taskId: string }) => taskId);
    expect([...made].filter((taskId) => !listed.includes(taskId))).toEqual([]);
    expect(new Set(listed).size).toBe(listed.length);
    const other = await LegacyClient.open(world.mcp, '2025-11-25', FORM, { token: tokenOf('alice') });
    await refusedUnseen(() => other.request('tasks/list', { cursor: first.nextCursor }));
    await client.end();
    await other.end();
  });
});
