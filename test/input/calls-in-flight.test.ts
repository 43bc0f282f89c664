/** The concurrent calls of one session, caller or server are limited; further calls are refused and do not run. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { textOf } from './support/message.js';
import { modernCall, Session, SseClient } from './support/speak.js';
import { ADA, AUTH, as, BOB } from './support/tokens.js';
import { eventually } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

const LONG = 600_000;

let world: World;
beforeAll(async () => {
  world = await startWorld(
    {
      auth: AUTH,
      limits: { callsPerSession: 3, callsPerCaller: 6, callsPerServer: 20 },
      timeouts: { call: '1h', callMax: '1h' },
    },
    { bystander: as(BOB) },
  );
});
afterAll(() => world?.close());
afterEach(() => world.wellBehaved());

/** The number of calls with this text that have reached the server. */
const arrived = (text: string): number =>
  world.echo.calls.filter(({ name, args }) => name === 'wait' && args['text'] === text).length;

const wait = (text: string): { name: string; arguments: object } => ({
  name: 'echo__wait',
  arguments: { text, ms: LONG },
});

async function filled(text: string, count: number): Promise<void> {
  await eventually(
    () => arrived(text),
    (there) => there === count,
    60_000,
  );
}

describe('concurrent calls', () => {
  it('of one session: a call beyond the limit is refused, and another session continues', async () => {
    const session = await Session.open(world.mcp, '2025-11-25', as(ADA));
    const streams = await Promise.all([1, 2, 3].map((n) => session.stream('tools/call', wait('session'), n)));
    await filled('session', 3);
    const refused = await session.call('echo__wait', { text: 'session', ms: LONG }, 4);
    expect(refused.body).toContain('Too many calls of this session are under way (at most 3)');
    const other = await Session.open(world.mcp, '2025-11-25', as(ADA));
    expect(textOf((await other.call('echo__echo', { text: 'mine' })).json)).toBe('mine');
    expect(arrived('session')).toBe(3);
    // A finished call makes room for the next.
    await session.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } });
    await streams[0]!.end();
    expect((await session.call('echo__echo', { text: 'room' }, 5)).body).toContain('room');
    await session.end();
    await other.end();
  });

  it('of one session over HTTP+SSE: its posts count as well', async () => {
    const client = await SseClient.connect(`${world.url}/sse`, as(ADA));
    await client.post({
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: { name: 'by-hand', version: '1' } },
    });
    await client.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
    for (let id = 1; id <= 4; id++)
      await client.post({ jsonrpc: '2.0', id, method: 'tools/call', params: wait('sse') });
    const refused = await client.stream.until(({ messages }) => messages.find(({ id }) => id === 4));
    expect(JSON.stringify(refused)).toContain('at most 3');
    expect(arrived('sse')).toBe(3);
    client.stream.close();
    await eventually(
      () => world.echo.cancelled.filter((text) => text === 'sse').length,
      (count) => count === 3,
      60_000,
    );
  });

  it('of one caller, over all its sessions and modern requests: other callers are not affected', async () => {
    const sessions = await Promise.all([1, 2].map(() => Session.open(world.mcp, '2025-11-25', as(ADA))));
    for (const session of sessions)
      await Promise.all([1, 2, 3].map((n) => session.stream('tools/call', wait('caller'), n)));
    await filled('caller', 6);
    const { json } = await modernCall(world.mcp, 'echo__echo', { text: 'seventh' }, { headers: as(ADA) });
    expect(json.result).toMatchObject({ isError: true });
    expect(textOf(json)).toContain('Too many of your calls are under way (at most 6)');
    const bob = await modernCall(world.mcp, 'echo__echo', { text: 'bob' }, { headers: as(BOB) });
    expect(textOf(bob.json)).toBe('bob');
    await Promise.all(sessions.map((session) => session.end()));
  });
});

it('calls to one server are limited over all callers', async () => {
  const narrow = await startWorld({ limits: { callsPerServer: 2 }, timeouts: { call: '1h', callMax: '1h' } });
  try {
    const session = await Session.open(narrow.mcp, '2025-11-25');
    // The bystander sometimes uses a slot, so that a call is refused.
    await eventually(
      async () => {
        const count = narrow.echo.calls.filter(({ name }) => name === 'wait').length;
        if (count < 2) await session.stream('tools/call', wait('server'), `call-${performance.now()}`);
        return count;
      },
      (count) => count === 2,
      60_000,
    );
    await eventually(
      async () => textOf((await modernCall(narrow.mcp, 'echo__echo', { text: 'third' })).json),
      (text) => text.startsWith('Too many calls to "echo" are under way (at most 2)'),
      60_000,
    );
    await session.end();
  } finally {
    await narrow.close();
  }
});

it('the requests of concurrent calls of one caller hold a limited number of bytes', async () => {
  const narrow = await startWorld(
    {
      auth: AUTH,
      limits: { callBytesPerCaller: '100KiB' },
      timeouts: { call: '1h', callMax: '1h' },
    },
    { bystander: as(BOB) },
  );
  try {
    const session = await Session.open(narrow.mcp, '2025-11-25', as(ADA));
    const large = 'x'.repeat(60 * 1024);
    await session.stream('tools/call', wait(large), 1);
    await eventually(
      () => narrow.echo.calls.some(({ name }) => name === 'wait'),
      (there) => there,
      60_000,
    );
    const ask = async (caller: string): Promise<string> =>
      textOf((await modernCall(narrow.mcp, 'echo__echo', { text: large }, { headers: as(caller) })).json);
    expect(await ask(ADA)).toContain('The requests of your calls under way hold too much data');
    expect(await ask(BOB)).toBe(large);
    await session.end();
  } finally {
    await narrow.close();
  }
});
