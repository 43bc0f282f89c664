/**
 * A person is asked before chosen tools run, in every revision of the client. A client that cannot be asked is refused.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accept, asked, FORM, LegacyClient, ModernClient, textOf } from './support/clients.js';
import { Exchange, type Message } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

const KEY = 'parley/approval';
const yes = { [KEY]: accept({ approve: true }) };
let byName: World;
let byHint: World;
let dotted: World;

beforeAll(async () => {
  [byName, byHint, dotted] = await Promise.all([
    startWorld({ http: { files: {}, other: {} }, config: { policy: { approve: { tools: ['files__w*'] } } } }),
    startWorld({ http: { files: {} }, config: { policy: { approve: { destructive: true } } } }),
    startWorld({
      http: { files: {} },
      config: { naming: { separator: '.' }, policy: { approve: { tools: ['files.wipe'] } } },
    }),
  ]);
});
afterAll(() => Promise.all([byName, byHint, dotted].map((world) => world?.close())));

const wiped = (world: World): unknown[] =>
  world.entries().flatMap(({ kind, tool, args }) => (kind === 'run' && tool === 'wipe' ? [args] : []));

async function notRun(world: World, request: () => Promise<Message>): Promise<Message> {
  const before = wiped(world).length;
  const answer = await request();
  expect(wiped(world).length).toBe(before);
  return answer;
}

describe.each([
  ['by name', () => byName],
  ['by destructiveHint', () => byHint],
])('%s', (_, worldOf) => {
  const args = { path: '/srv/data', force: true };

  test('a modern client is asked with input_required, sees the tool and its arguments, and the call runs once', async () => {
    const world = worldOf();
    const client = new ModernClient(world.mcp, FORM);
    const question = await notRun(world, () => client.call('files__wipe', args));
    const shown = asked(question)[KEY]!;
    expect(shown.method).toBe('elicitation/create');
    expect(shown.params['message']).toContain('"wipe"');
    expect(shown.params['message']).toContain('"files"');
    expect(shown.params['message']).toContain('{"path":"/srv/data","force":true}');
    const { requestState } = question.result;
    const before = wiped(world).length;
    const ended = await client.call('files__wipe', args, { requestState, inputResponses: yes });
    expect(textOf(ended)).toBe(`wiped ${JSON.stringify(args)}`);
    expect(wiped(world).slice(before)).toEqual([args]);
    const again = await notRun(world, () => client.call('files__wipe', args, { requestState, inputResponses: yes }));
    expect(again.error?.code).toBe(-32602);
  });

  test.each([
    ['declined', { action: 'decline' }],
    ['cancelled', { action: 'cancel' }],
    ['answered with no', accept({ approve: false })],
    ['accepted, but without the answer to the question', { action: 'accept' }],
    ['accepted with a text instead of true', accept({ approve: 'false' })],
  ])('%s: the call is refused with the reason', async (__, answer) => {
    const world = worldOf();
    const client = new ModernClient(world.mcp, FORM);
    const { requestState } = (await client.call('files__wipe', args)).result;
    const ended = await notRun(world, () =>
      client.call('files__wipe', args, { requestState, inputResponses: { [KEY]: answer } }),
    );
    expect(ended.result).toMatchObject({ isError: true });
    expect(textOf(ended)).toContain('not approved');
  });

  test('a retry without an answer is asked again', async () => {
    const world = worldOf();
    const client = new ModernClient(world.mcp, FORM);
    const { requestState } = (await client.call('files__wipe', args)).result;
    const repeated = await notRun(world, () => client.call('files__wipe', args, { requestState, inputResponses: {} }));
    expect(Object.keys(asked(repeated))).toEqual([KEY]);
  });

  test('arguments or a tool other than those shown to the person are refused', async () => {
    const world = worldOf();
    const client = new ModernClient(world.mcp, FORM);
    const { requestState } = (await client.call('files__wipe', args)).result;
    const options = { requestState, inputResponses: yes };
    const swapped = await notRun(world, () => client.call('files__wipe', { path: '/', force: true }, options));
    expect(swapped.error?.code).toBe(-32602);
    const alone = new ModernClient(world.at('files'), FORM);
    expect((await notRun(world, () => alone.call('wipe', { path: '/' }, options))).error?.code).toBe(-32602);
  });

  test.each([
    ['a number too long for a double', '{"n":9007199254740993}', '{"n":9007199254740992}'],
    ['a member that occurs twice', '{"path":"/tmp"}', '{"path":"/","path":"/tmp"}'],
  ])('arguments that only look the same after parsing are refused: %s', async (__, shown, sent) => {
    const world = worldOf();
    const { requestState } = (await raw(world, shown)).result;
    const swapped = await notRun(world, () => raw(world, sent, { requestState, inputResponses: yes }));
    expect(swapped.error?.code).toBe(-32602);
    const same = await raw(world, shown, { requestState, inputResponses: yes });
    expect(textOf(same)).toContain('wiped');
  });

  test.each([
    ['2025-11-25', FORM],
    ['2025-06-18', { elicitation: {} }],
  ])('a client of %s is asked on the stream of its call', async (revision, capabilities) => {
    const world = worldOf();
    const client = await LegacyClient.open(world.mcp, revision, capabilities);
    client.answer = () => accept({ approve: true });
    const before = wiped(world).length;
    expect(textOf(await client.call('files__wipe', args))).toBe(`wiped ${JSON.stringify(args)}`);
    expect(wiped(world).slice(before)).toEqual([args]);
    const [question] = client.heard.filter(({ method }) => method === 'elicitation/create');
    expect(question).toMatchObject({ on: 'request 1' });
    expect(question!.params.message).toContain('{"path":"/srv/data","force":true}');
    client.answer = () => ({ action: 'decline' });
    const declined = await notRun(world, () => client.call('files__wipe', args));
    expect(declined.result).toMatchObject({ isError: true });
    client.answer = () => ({ error: { code: -32603, message: 'the window was closed' } });
    const failed = await notRun(world, () => client.call('files__wipe', args));
    expect(failed.result).toMatchObject({ isError: true });
    await client.end();
  });

  test.each(['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'])(
    'a client of %s that cannot be asked is refused with the reason',
    async (revision) => {
      const world = worldOf();
      const client = await LegacyClient.open(world.mcp, revision, { sampling: {} });
      const refused = await notRun(world, () => client.call('files__wipe', args));
      expect(refused.result).toMatchObject({ isError: true });
      expect(textOf(refused)).toMatch(/approval.*does not declare elicitation/);
      await client.end();
    },
  );

  test('a modern client that cannot be asked is refused with the reason', async () => {
    const world = worldOf();
    const refused = await notRun(world, () => new ModernClient(world.mcp, {}).call('files__wipe', args));
    expect(refused.result).toMatchObject({ isError: true });
    expect(textOf(refused)).toMatch(/approval.*does not declare elicitation/);
  });

  test('every way to call the tool needs approval: at the endpoint of its server, by the dotted name, as a task', async () => {
    const world = worldOf();
    const alone = new ModernClient(world.at('files'), FORM);
    expect(Object.keys(asked(await notRun(world, () => alone.call('wipe', args))))).toEqual([KEY]);
    const all = new ModernClient(world.mcp, FORM);
    expect(Object.keys(asked(await notRun(world, () => all.call('files.wipe', args))))).toEqual([KEY]);
    expect(Object.keys(asked(await notRun(world, () => all.call('FILES__wipe', args))))).toEqual([KEY]);
    const tasked = await LegacyClient.open(world.mcp, '2025-11-25', {});
    const refused = await notRun(world, () => tasked.call('files__wipe', args, { task: {} }));
    expect(refused.result).toMatchObject({ isError: true });
    await tasked.end();
  });

  test('other tools run without a question', async () => {
    const client = new ModernClient(worldOf().mcp, {});
    expect(textOf(await client.call('files__echo', { text: 'hello' }))).toBe('hello');
  });
});

test('by name: the tool of the same name at another server needs no approval', async () => {
  const client = new ModernClient(byName.mcp, {});
  expect(textOf(await client.call('other__wipe', {}))).toBe('wiped {}');
});

test('by the name that the gateway lists with another separator: the endpoint of the server needs approval too', async () => {
  const all = new ModernClient(dotted.mcp, FORM);
  expect((await all.request('tools/list')).result.tools.map(({ name }: { name: string }) => name)).toContain(
    'files.wipe',
  );
  expect(Object.keys(asked(await notRun(dotted, () => all.call('files.wipe', {}))))).toEqual([KEY]);
  const alone = new ModernClient(dotted.at('files'), FORM);
  expect(Object.keys(asked(await notRun(dotted, () => alone.call('wipe', {}))))).toEqual([KEY]);
});

test('an approved call may ask further questions, and then runs to its end', async () => {
  const world = await startWorld({ http: { files: {} }, config: { policy: { approve: { tools: ['*ask'] } } } });
  const client = new ModernClient(world.mcp, FORM);
  const args = { key: 'approved' };
  const first = await client.call('files__ask', args);
  const second = await client.call('files__ask', args, {
    requestState: first.result.requestState,
    inputResponses: yes,
  });
  const [key] = Object.keys(asked(second));
  const ended = await client.call('files__ask', args, {
    requestState: second.result.requestState,
    inputResponses: { [key!]: accept({ answer: 'fine' }) },
  });
  expect(textOf(ended)).toBe('approved: fine');
  await world.close();
});

/** A call whose arguments are sent exactly as given, byte for byte. */
async function raw(
  world: World,
  args: string,
  more: { requestState?: string; inputResponses?: object } = {},
): Promise<Message> {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'by-hand', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': FORM,
  };
  const params = JSON.stringify({ name: 'files__wipe', ...more, _meta: meta });
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":${args},${params.slice(1)}}`;
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'files__wipe' };
  const [answer] = await new Exchange(world.mcp, 'POST', headers, body).ended;
  return answer!;
}
