/**
 * Malformed JSON-RPC over every endpoint: no crash, no 5xx, no hang, no answer to another caller.
 * `npm run test:fuzz` runs 100,000 cases; a failure names the seed, and `FUZZ_SEED` repeats it.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Message } from '../input/support/message.js';
import { BOTH, initializeBody, Session, SseClient } from '../input/support/speak.js';
import { type EventStream, readEvents } from '../input/support/wire.js';
import { escaped, startWorld, type World } from '../input/support/world.js';
import { BIN } from '../support/gateway.js';
import { body, type FuzzHeaders, headers, idsIn, mirrorsOf, settings } from './messages.js';

const HOUR = 3_600_000;
/** Longer than every timeout of the gateway in this test. */
const PATIENCE = 20_000;
/** A stream without data for this long counts as a stream that stays open, such as a subscription. */
const QUIET = 200;

let world: World;
let witness: EventStream;
let sseWitness: SseClient;
const agent = new Agent({ keepAlive: true, maxSockets: 32 });

beforeAll(async () => {
  world = await startWorld({ timeouts: { call: '5s' }, limits: { batch: 10 } });
  // These clients send nothing, so every message that they receive belongs to another caller.
  witness = await (await Session.open(world.mcp, '2025-06-18')).listen();
  sseWitness = await SseClient.connect(`${world.url}/sse`);
  await sseWitness.initialize('2024-11-05');
});
afterAll(async () => {
  try {
    expect(witness.ended).toBe(false);
    const meant = ({ method }: Message): boolean => !/^notifications\/\w+\/list_changed$/.test(method);
    expect(witness.messages.filter(meant)).toEqual([]);
    expect(sseWitness.stream.ended).toBe(false);
    expect(sseWitness.stream.messages.filter(meant).map(({ id }) => id)).toEqual(['init']);
    await world.wellBehaved();
  } finally {
    witness.close();
    sseWitness.close();
    agent.destroy();
    await world.close();
  }
});

interface Heard {
  readonly status: number;
  readonly type: string | undefined;
  readonly text: string;
}

/** One exchange on a keep-alive connection. Rejects if no answer starts in time. */
function send(url: string, bytes: Buffer, given: Readonly<Record<string, string>>): Promise<Heard> {
  const { hostname, port, pathname, search } = new URL(url);
  return new Promise((resolve, reject) => {
    const req = request(
      {
        host: hostname,
        port,
        path: `${pathname}${search}`,
        method: 'POST',
        agent,
        headers: { 'content-type': 'application/json', 'content-length': bytes.length, ...given },
      },
      (res: IncomingMessage) => {
        clearTimeout(hang);
        const chunks: Buffer[] = [];
        const done = (): void => {
          clearTimeout(quiet);
          resolve({
            status: res.statusCode!,
            type: res.headers['content-type'],
            text: Buffer.concat(chunks).toString(),
          });
        };
        let quiet: NodeJS.Timeout | undefined;
        const wait = (): void => {
          clearTimeout(quiet);
          if (!res.headers['content-type']?.startsWith('text/event-stream')) return;
          quiet = setTimeout(() => {
            done();
            res.destroy();
          }, QUIET);
        };
        res.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          wait();
        });
        res.on('end', done);
        res.on('error', done);
        wait();
      },
    );
    const hang = setTimeout(() => {
      req.destroy();
      reject(new Error('no answer began in time'));
    }, PATIENCE);
    req.on('error', (error) => {
      clearTimeout(hang);
      reject(error);
    });
    req.end(bytes);
  });
}

function checkMessages(found: unknown, allowed: ReadonlySet<unknown>): void {
  for (const message of [found].flat() as Message[]) {
    expect(message).toMatchObject({ jsonrpc: '2.0' });
    if (message.method !== undefined) continue;
    expect([...allowed]).toContainEqual(message.id);
    expect('result' in message).not.toBe('error' in message);
    if (message.error) {
      expect(Number.isInteger(message.error.code)).toBe(true);
      expect(message.error.message).not.toMatch(/\bat \S+ \(|node:internal|\.js:\d+/);
    }
  }
}

/**
 * The answers whose ids nobody sent. Looks the texts up in a set. A comparison of each answer with each id would block
 * this process for minutes, and the other cases would take this for a gateway that does not answer.
 */
function answersToOthers(messages: readonly Message[], sent: ReadonlySet<unknown>): Message[] {
  const ids = new Set([...sent].map((id) => JSON.stringify(id)));
  return messages.filter(({ method, id }) => method === undefined && !ids.has(JSON.stringify(id)));
}

function check({ status, type, text }: Heard, bytes: Buffer): void {
  expect(status).toBeGreaterThanOrEqual(200);
  expect(status).toBeLessThan(500);
  const allowed = idsIn(bytes);
  if (type?.startsWith('text/event-stream')) {
    for (const { data } of readEvents(text)) if (data !== '') checkMessages(JSON.parse(data), allowed);
  } else if (type === 'application/json') checkMessages(JSON.parse(text), allowed);
  else expect(['', 'Accepted']).toContain(text);
  expect(escaped(world.gateway.log())).toEqual([]);
}

const headersOf = ({ session, mirror, others }: FuzzHeaders, own: string, bytes: Buffer): Record<string, string> => ({
  ...others,
  ...(mirror && mirrorsOf(bytes)),
  ...(session !== 'none' && { 'mcp-session-id': session === 'own' ? own : session }),
});

describe.concurrent('fuzz', () => {
  it.each([
    ['/mcp', 0.35],
    ['/mcp/echo', 0.25],
  ] as const)(
    'POST %s',
    async (path, share) => {
      const url = `${world.url}${path}`;
      const sessions = await Promise.all(
        ['2025-03-26', '2025-06-18', '2025-11-25'].map((version) => Session.open(url, version)),
      );
      const taken = fc.record({ bytes: body, given: headers, which: fc.nat({ max: sessions.length - 1 }) });
      await fc.assert(
        fc.asyncProperty(taken, async ({ bytes, given, which }) => {
          check(await send(url, bytes, headersOf(given, sessions[which]!.id, bytes)), bytes);
        }),
        settings(share) as fc.Parameters<[{ bytes: Buffer; given: FuzzHeaders; which: number }]>,
      );
      for (const session of sessions) expect((await session.request('ping')).status).toBe(200);
    },
    HOUR,
  );

  it(
    'POST /messages',
    async () => {
      const clients = [await SseClient.connect(`${world.url}/sse`), await SseClient.connect(`${world.url}/sse`)];
      await clients[0]!.initialize('2025-03-26');
      // The second client has not sent initialize.
      const sent: Set<unknown>[] = [new Set([null, undefined, 'init', 'end']), new Set([null, undefined, 'end'])];
      await fc.assert(
        fc.asyncProperty(body, fc.nat({ max: 1 }), async (bytes, which) => {
          for (const id of idsIn(bytes)) sent[which]!.add(id);
          check(await send(clients[which]!.endpoint, bytes, {}), bytes);
          expect(clients[which]!.stream.ended).toBe(false);
        }),
        settings(0.2) as fc.Parameters<[Buffer, number]>,
      );
      for (const [which, client] of clients.entries()) {
        expect((await client.request('ping', {}, 'end')).id).toBe('end');
        expect(answersToOthers(client.stream.messages.flat(), sent[which]!)).toEqual([]);
        client.close();
      }
    },
    HOUR,
  );

  it(
    'a line to parley stdio',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'parley-fuzz-'));
      const file = join(folder, 'parley.json');
      await writeFile(
        file,
        JSON.stringify({ data: join(folder, 'data'), servers: { echo: { url: world.echo.url, revision: 'modern' } } }),
      );
      const child: ChildProcessWithoutNullStreams = spawn(process.execPath, [BIN, 'stdio', '--config', file], {
        stdio: 'pipe',
      });
      let errors = '';
      child.stderr.on('data', (chunk: Buffer) => {
        errors = (errors + chunk.toString()).slice(-100_000);
      });
      const sent = new Set<unknown>([null, undefined]);
      const heard: Message[] = [];
      const bad: string[] = [];
      const waiting = new Map<unknown, () => void>();
      createInterface(child.stdout).on('line', (line) => {
        try {
          for (const message of [JSON.parse(line) as Message].flat()) {
            waiting.get(message.id)?.();
            heard.push(message);
          }
        } catch {
          bad.push(line);
        }
      });
      let n = 0;
      const ping = (): Promise<void> => {
        const id = `sentinel-${n++}`;
        sent.add(id);
        return new Promise((resolve, reject) => {
          const timer = setTimeout(() => reject(new Error(`no answer in time: ${errors}`)), PATIENCE);
          waiting.set(id, () => {
            clearTimeout(timer);
            waiting.delete(id);
            resolve();
          });
          child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' })}\n`);
        });
      };
      try {
        await fc.assert(
          fc.asyncProperty(body, async (bytes) => {
            const line = Buffer.from(bytes.filter((byte) => byte !== 0x0a));
            for (const id of idsIn(line)) sent.add(id);
            child.stdin.write(Buffer.concat([line, Buffer.from('\n')]));
            await ping();
            expect(child.exitCode).toBeNull();
            expect(bad).toEqual([]);
          }),
          settings(0.2) as fc.Parameters<[Buffer]>,
        );
        expect(heard.filter(({ jsonrpc }) => jsonrpc !== '2.0')).toEqual([]);
        expect(answersToOthers(heard, sent)).toEqual([]);
        expect(escaped(errors)).toEqual([]);
        child.stdin.write(`${JSON.stringify(initializeBody('2025-11-25', 'last'))}\n`);
        await ping();
      } finally {
        child.stdin.end();
        if (child.exitCode === null) await once(child, 'exit');
        await rm(folder, { recursive: true, force: true });
      }
      expect(child.exitCode).toBe(0);
    },
    HOUR,
  );
});

it('the endpoint still serves after a flood of broken requests on many connections', async () => {
  const bodies = fc.sample(fc.tuple(body, headers), { numRuns: 200, seed: 42 });
  const replies = await Promise.all(
    bodies.map(([bytes, given]) => send(world.mcp, bytes, { accept: BOTH, ...headersOf(given, 'x', bytes) })),
  );
  for (const [index, reply] of replies.entries()) check(reply, bodies[index]![0]);
});
