/** Case 19 with a progress token: servers that report more progress than the caller can read. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Message, textOf } from '../input/support/message.js';
import { type Rogue, startRogue } from '../input/support/rogue.js';
import { modernBody, modernCall, modernHeaders, Session } from '../input/support/speak.js';
import { type Ask, EventStream, eventually, readEvents, sleep, Wire } from '../input/support/wire.js';
import { startWorld, type World } from '../input/support/world.js';
import { FLOOD_PROGRAM } from './flood-program.js';
import { FLOOD_SCRIPT } from './flood-script.js';

let folder: string;
let rogue: Rogue;
let world: World;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-flood-'));
  await writeFile(join(folder, 'flood.mjs'), FLOOD_PROGRAM);
  rogue = await startRogue(FLOOD_SCRIPT);
  world = await startWorld({
    timeouts: { call: '20s' },
    servers: {
      modern: { url: rogue.url, revision: 'modern' },
      legacy: { url: rogue.url, revision: 'legacy', transport: 'http' },
      piped: {
        command: process.execPath,
        args: [join(folder, 'flood.mjs'), join(folder, 'notes')],
        revision: 'legacy',
      },
    },
  });
});
afterAll(async () => {
  await world?.close();
  await rogue?.close();
  await rm(folder, { recursive: true, force: true });
});
afterEach(() => world.wellBehaved());

/** The number of cancellations of `endless` that a server received. */
const given = async (server: string): Promise<number> =>
  server === 'piped'
    ? (await readFile(join(folder, 'notes'), 'utf8')).split('\n').filter((line) => line === 'cancelled').length
    : rogue.abandoned.filter((name) => name === `${server} endless`).length;

/** The headers and body of a call with a progress token. */
async function asked(era: string, server: string, tool: string, args: object): Promise<Ask> {
  const params = { name: `${server}__${tool}`, arguments: args };
  if (era === 'modern') {
    const body = modernBody('tools/call', params, { id: 'one', meta: { progressToken: 'p' } });
    return { method: 'POST', headers: modernHeaders('tools/call', params), body };
  }
  const { headers } = await Session.open(world.mcp, '2025-11-25');
  const body = {
    jsonrpc: '2.0',
    id: 'one',
    method: 'tools/call',
    params: { ...params, _meta: { progressToken: 'p' } },
  };
  return { method: 'POST', headers, body };
}

/** Sends the request on its own connection and reads nothing until the connection is resumed. */
async function unread({ headers, body }: Ask): Promise<Wire> {
  const wire = await Wire.open(world.url);
  wire.socket.pause();
  const text = JSON.stringify(body);
  const lines = Object.entries({ ...headers, 'content-type': 'application/json', connection: 'close' });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  wire.send(`POST /mcp HTTP/1.1\r\nHost: localhost\r\n${head}Content-Length: ${text.length}\r\n\r\n${text}`);
  return wire;
}

const valuesOf = (messages: readonly Message[]): number[] =>
  messages.filter(({ method }) => method === 'notifications/progress').map(({ params }) => params.progress);

/** Expects increasing progress with gaps, followed by one answer. Returns the answer. */
function oneAnswer(messages: readonly Message[]): Message {
  const values = valuesOf(messages);
  expect(values.every((value, i) => i === 0 || value > values[i - 1]!)).toBe(true);
  expect(values.length).toBeLessThan(4_000);
  expect(messages.filter(({ id }) => id === 'one')).toHaveLength(1);
  expect(messages.at(-1)?.id).toBe('one');
  return messages.at(-1)!;
}

const CUT = { code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } };

describe.each(['modern', 'legacy', 'piped'])('case 19: a %s server that reports progress without end', (server) => {
  it.each(['modern', 'legacy'])(
    'to a %s client that reads: the call ends, and the error names the reason',
    async (era) => {
      const before = world.memory();
      const gone = await given(server);
      const stream = await EventStream.open(world.mcp, await asked(era, server, 'endless', {}));
      await stream.end(30_000);
      expect(valuesOf(stream.messages).length).toBeGreaterThan(100);
      expect(oneAnswer(stream.messages).error).toMatchObject(CUT);
      await eventually(
        () => given(server),
        (count) => count === gone + 1,
      );
      expect(world.memory() - before).toBeLessThan(96);
      expect(textOf((await modernCall(world.mcp, `${server}__fine`, { text: 'still here' })).json)).toBe('still here');
    },
  );

  it.each(['modern', 'legacy'])(
    'to a %s client that does not read: the call ends, and the client finds the error when it reads',
    async (era) => {
      const before = world.memory();
      const gone = await given(server);
      const wire = await unread(await asked(era, server, 'endless', {}));
      await eventually(
        () => given(server),
        (count) => count === gone + 1,
        30_000,
      );
      expect(world.memory() - before).toBeLessThan(96);
      wire.socket.resume();
      await wire.until(() => wire.closed, 30_000);
      expect(wire.received.length).toBeLessThan(2 * 1024 * 1024);
      expect(wire.text.match(/"outcome":"unknown"/g)).toHaveLength(1);
    },
  );

  it.each(['modern', 'legacy'])(
    'with an end, to a %s client that reads slowly: the client gets a part of the progress, and the answer',
    async (era) => {
      const count = 15_000;
      const stream = await EventStream.open(world.mcp, await asked(era, server, 'many', { count, size: 500 }));
      while (!stream.ended) {
        stream.res.pause();
        await sleep(20);
        stream.res.resume();
        await sleep(1);
      }
      expect(textOf(oneAnswer(stream.messages))).toBe('all of it');
      // The last progress is the newest.
      expect(valuesOf(stream.messages).at(-1)).toBe(count);
      expect(readEvents(stream.text).length).toBeLessThan(4_000);
    },
  );
});
