/** Many clients with the same ids at the same time: no client receives a message of another (S6). */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Fixture, startFixture } from '../conformance/fixture.js';
import { BIN } from '../support/gateway.js';
import { type Message, textOf } from './support/message.js';
import { LEGACY, modernBody, modernCall, modernHeaders, Session, SseClient } from './support/speak.js';
import { EventStream, eventually } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

const CLIENTS = 200;
const ROUNDS = 5;

let world: World;
let fixture: Fixture;
beforeAll(async () => {
  fixture = await startFixture('legacy');
  world = await startWorld({ servers: { old: { url: fixture.url } } });
});
afterAll(async () => {
  await world.wellBehaved();
  await world.close();
  await fixture.close();
});

/** One client: calls with id 0 and its own marker, and returns everything it received. */
type Client = (marker: string) => Promise<{ answers: string[]; everything: string }>;

const modernClient: Client = async (marker) => {
  const answers: string[] = [];
  let everything = '';
  for (let round = 0; round < ROUNDS; round++) {
    const reply = await modernCall(world.mcp, 'echo__echo', { text: `${marker} ${round}` }, { id: 0 });
    everything += reply.body;
    answers.push(textOf(reply.json));
  }
  return { answers, everything };
};

const modernStreaming: Client = async (marker) => {
  const answers: string[] = [];
  let everything = '';
  for (let round = 0; round < ROUNDS; round++) {
    const name = 'echo__steps';
    const text = `${marker} ${round}`;
    const stream = await EventStream.open(world.mcp, {
      method: 'POST',
      headers: modernHeaders('tools/call', { name }),
      body: modernBody(
        'tools/call',
        { name, arguments: { text, count: 3, size: 1, pause: 1 } },
        { id: 0, meta: { progressToken: 0 } },
      ),
    });
    await stream.end(60_000);
    everything += stream.text;
    answers.push(textOf(stream.messages.at(-1)!));
  }
  return { answers, everything };
};

const sessionClient =
  (version: string): Client =>
  async (marker) => {
    const session = await Session.open(world.mcp, version);
    const answers: string[] = [];
    let everything = '';
    for (let round = 0; round < ROUNDS; round++) {
      const tool = round % 2 === 0 ? 'echo__echo' : 'echo__steps';
      const reply = await session.call(tool, { text: `${marker} ${round}`, count: 3, size: 1, pause: 1 }, 0, {
        progressToken: 0,
      });
      everything += reply.body;
      answers.push(textOf(reply.json));
    }
    await session.end();
    return { answers, everything };
  };

const sseClient: Client = async (marker) => {
  const client = await SseClient.connect(`${world.url}/sse`);
  await client.initialize('2024-11-05');
  const answers: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const answer = await client.request(
      'tools/call',
      { name: 'echo__echo', arguments: { text: `${marker} ${round}` } },
      0,
    );
    answers.push(textOf(answer));
  }
  client.close();
  return { answers, everything: client.stream.text };
};

const KINDS: readonly Client[] = [modernClient, modernStreaming, ...LEGACY.slice(1).map(sessionClient), sseClient];

describe('S6: the same id for all clients', () => {
  it(`S6 S0-13: ${CLIENTS} clients of all eras and transports with id 0: each receives its own marker and no other`, async () => {
    const markers = Array.from({ length: CLIENTS }, (_, n) => `<client-${n}>`);
    const heard = await Promise.all(markers.map((marker, n) => KINDS[n % KINDS.length]!(marker)));
    for (const [n, { answers, everything }] of heard.entries()) {
      expect(answers).toEqual(Array.from({ length: ROUNDS }, (_, round) => `${markers[n]} ${round}`));
      const others = [...everything.matchAll(/<client-\d+>/g)].filter(([found]) => found !== markers[n]);
      expect(others, `client ${n} heard somebody else`).toEqual([]);
    }
  });

  it('S6: the same over one session with a legacy server: progress and responses reach the right client', async () => {
    const replies = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const name = 'old__test_tool_with_progress';
        const token = `token-${n}`;
        const stream = await EventStream.open(world.mcp, {
          method: 'POST',
          headers: modernHeaders('tools/call', { name }),
          body: modernBody('tools/call', { name, arguments: {} }, { id: 0, meta: { progressToken: token } }),
        });
        await stream.end(60_000);
        return { token, messages: stream.messages };
      }),
    );
    for (const { token, messages } of replies) {
      expect(messages.at(-1)).toMatchObject({ id: 0, result: { content: [{ text: 'Progress reported' }] } });
      const progress = messages.slice(0, -1);
      expect(progress.map(({ params }) => params.progress)).toEqual([0, 50, 100]);
      expect(progress.every(({ params }) => params.progressToken === token)).toBe(true);
    }
  });

  it('S6 S2-24: ids of every type, in sequence over stdio', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'parley-pipe-'));
    const file = join(folder, 'parley.json');
    await writeFile(file, JSON.stringify({ data: join(folder, 'data'), servers: { echo: { url: world.echo.url } } }));
    const child: ChildProcessWithoutNullStreams = spawn(process.execPath, [BIN, 'stdio', '--config', file], {
      stdio: 'pipe',
    });
    const heard: Message[] = [];
    createInterface(child.stdout).on('line', (line) => heard.push(JSON.parse(line) as Message));
    const ids = Array.from({ length: 200 }, (_, n) => (n % 2 === 0 ? n : String(n)));
    for (const id of ids)
      child.stdin.write(
        `${JSON.stringify(modernBody('tools/call', { name: 'echo__echo', arguments: { text: `<${typeof id} ${id}>` } }, { id }))}\n`,
      );
    await eventually(
      () => heard.length,
      (count) => count === ids.length,
      30_000,
    );
    for (const message of heard) expect(textOf(message)).toBe(`<${typeof message.id} ${message.id}>`);
    expect(new Set(heard.map(({ id }) => `${typeof id} ${id}`)).size).toBe(ids.length);
    child.stdin.end();
    await once(child, 'exit');
    await rm(folder, { recursive: true, force: true });
  });
});
