/** Cases 12, 13, 18, 20 and 22 with the client, the call and the server at different replicas. */
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { progressOf, Session, upTo } from '../cluster/support/session.js';
import { Traffic } from '../cluster/support/traffic.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { ModernClient, textOf } from '../era-bridge/support/clients.js';
import { eventually, type Message, sleep } from '../era-bridge/support/wire.js';
import { descendants } from '../era-bridge/support/world.js';
import { escaped } from '../input/support/world.js';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js';
import { ROGUE_PROGRAM } from './rogue-program.js';

const MIB = 1024 * 1024;

describe.each(CLUSTERS)('three replicas over %s', (engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let proxy: FaultProxy;
  let folder: string;
  let replicas: Replica[];
  let traffic: Traffic | undefined;

  const notes = (name: string): string => join(folder, name);
  const noted = async (name: string): Promise<string[]> =>
    (await readFile(notes(name), 'utf8').catch(() => '')).split('\n').filter(Boolean);
  const startsOf = async (name: string): Promise<number> =>
    (await noted(name)).filter((line) => /^\d+$/.test(line)).length;

  beforeAll(async () => {
    [engines, counted, folder] = await Promise.all([
      startEngines(engine),
      new CountedServer().start(),
      mkdtemp(join(tmpdir(), 'parley-rogue-')),
    ]);
    proxy = await startFaultProxy({ port: Number(new URL(counted.url).port) });
    const file = join(folder, 'rogue.mjs');
    await writeFile(file, ROGUE_PROGRAM);
    const program = (name: string, how = ''): object => ({
      command: process.execPath,
      args: [file, notes(name), how],
      revision: 'legacy',
    });
    replicas = await engines.start(3, {
      timeouts: { drain: '1s', call: '20s' },
      servers: {
        counted: { url: counted.url },
        cut: { url: `http://127.0.0.1:${proxy.port}/mcp` },
        rogue: program('rogue'),
        die: program('die'),
        kill: program('kill'),
        'half-line': program('half-line'),
        dies: program('dies', 'dies'),
        stubborn: program('stubborn', 'stubborn'),
        missing: { command: join(folder, 'no-such-program'), revision: 'legacy' },
      },
    });
  });
  afterEach(async () => {
    await traffic?.stop();
    expect(traffic?.failures ?? []).toEqual([]);
    traffic = undefined;
    for (const replica of replicas) {
      expect(replica.dead).toBe(false);
      expect(escaped(replica.log())).toEqual([]);
    }
  });
  afterAll(async () => {
    await engines?.stop();
    await proxy?.close();
    await counted?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const call = (at: Replica, name: string, args: object = {}): Promise<Message> =>
    new ModernClient(at.mcp, {}, ALICE).call(name, args as Record<string, unknown>);
  const memoryOf = ({ pid }: Replica): number =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024;

  /** The replica that runs the process, and the replicas that reach it over the bus. */
  const ownerOf = async (name: string): Promise<{ owner: Replica; others: Replica[] }> => {
    for (const owner of replicas) {
      const under = (await descendants(owner.pid)).filter(({ command }) => !command.includes('guard'));
      if (under.some(({ command }) => command.split(' ').includes(notes(name))))
        return { owner, others: replicas.filter((other) => other !== owner) };
    }
    throw new Error(`no replica runs ${name}`);
  };
  const fine = async (at: Replica, server = 'rogue'): Promise<void> => {
    await eventually(
      () => call(at, `${server}__fine`, { text: 'fine' }).then(textOf),
      (text) => text === 'fine',
    );
  };
  /** Expects the typed error that a call gets at every replica. */
  const failed = ({ error }: Message): void => {
    expect(error).toMatchObject({ code: -32603, data: { outcome: expect.stringMatching(/^(unknown|not_executed)$/) } });
    expect(JSON.stringify(error)).not.toMatch(/\/srv\/|\/tmp\//);
  };

  test('12: a client closes the stream of a call that runs at another replica: the call is cancelled there', async () => {
    await fine(replicas[0]!);
    const { others } = await ownerOf('rogue');
    const count = async (what: string): Promise<number> =>
      (await noted('rogue')).filter((line) => line === what).length;
    for (const replica of others) {
      const [waiting, cancelled] = [await count('waiting'), await count('cancelled')];
      const exchange = new ModernClient(replica.mcp, {}, ALICE).startCall('rogue__wait', {});
      await eventually(
        () => count('waiting'),
        (now) => now === waiting + 1,
      );
      exchange.abort();
      await eventually(
        () => count('cancelled'),
        (now) => now === cancelled + 1,
      );
    }
    await fine(others[0]!);
  });

  test('13: a client at B that stops reading a stream of A costs B bounded memory, and can resume at another replica', async () => {
    const [a, b, c] = replicas as [Replica, Replica, Replica];
    traffic = new Traffic(replicas, 'counted__quick');
    // Far more than the limits on unread bytes and on kept events; each call stays below its own limit.
    const [readers, count, size] = [5, 300, 70_000];
    const stall = async (n: number): Promise<void> => {
      const session = await Session.open(a);
      const args = { key: `stalled ${n} ${engine}`, count, every: 30, size };
      const { exchange } = session.call(a, 'counted__ticks', args, true);
      await exchange.until(({ params }) => params?.progress === 1);
      const socket = connect(Number(new URL(b.url).port), '127.0.0.1');
      socket.on('error', () => {});
      const headers = { ...session.headers, accept: 'text/event-stream', 'last-event-id': exchange.lastEventId! };
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      socket.write(`GET /mcp HTTP/1.1\r\nHost: localhost\r\n${lines.join('')}\r\n`);
      await new Promise((resolve) => socket.once('readable', resolve));
      // From here on the client reads nothing.
      expect(progressOf(await exchange.ended)).toEqual(upTo(count));
      expect(await session.status(c, exchange.lastEventId!)).toBe(200);
      socket.destroy();
    };
    const stallAll = (from: number): Promise<unknown> =>
      Promise.all(Array.from({ length: readers }, (_, n) => stall(from + n)));
    // The first round lets the heap reach its usual size. The second round shows the memory that is kept for stalled
    // readers.
    await stallAll(0);
    const before = memoryOf(b);
    await stallAll(readers);
    const grown = (memoryOf(b) - before) / MIB;
    const total = Math.round((readers * count * size) / MIB);
    console.log(`${engine}: ${readers} stalled readers of ${total} MiB cost ${grown.toFixed(1)} MiB`);
    expect(grown).toBeLessThan(total / 2);
  });

  test.each(['fin', 'rst'] as const)(
    '18: a server dies by %s in the middle of a stream: the call gets one end, the same at every replica',
    async (cutBy) => {
      const [a, b, c] = replicas as [Replica, Replica, Replica];
      traffic = new Traffic(replicas, 'counted__quick');
      await eventually(
        () => call(a, 'cut__quick', { key: 'warm' }).then(textOf),
        (text) => text === 'warm done',
      );
      const key = `cut ${cutBy} ${engine}`;
      const session = await Session.open(a);
      const { id, exchange } = session.call(a, 'cut__ticks', { key, count: 100, every: 20 }, true);
      await exchange.until(({ params }) => params?.progress === 2);
      exchange.abort();
      await exchange.ended;
      const rest = session.listen(b, exchange.lastEventId!);
      await rest.until(({ params }) => params?.progress === 10);
      proxy.cutAll(cutBy);
      const messages = await rest.ended;
      const ends = messages.filter((message) => message.id === id);
      expect(ends).toHaveLength(1);
      expect(ends[0]!.error).toMatchObject({ code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } });
      const seen = [...progressOf(exchange.messages), ...progressOf(messages)];
      expect(seen).toEqual(upTo(seen.length));
      for (const replica of [a, b, c]) {
        const replay = await session.listen(replica, exchange.lastEventId!).ended;
        expect(replay.filter((message) => message.id === id)).toEqual(ends);
        expect(replay.at(-1)?.id).toBe(id);
      }
      expect(counted.runs.filter((run) => run === key)).toHaveLength(1);
      await eventually(
        () => call(b, 'cut__quick', { key: 'again' }).then(textOf),
        (text) => text === 'again done',
      );
    },
  );

  test('20: concurrent calls of all replicas in one process: each gets its own answer once', async () => {
    await fine(replicas[0]!);
    const texts = Array.from({ length: 90 }, (_, i) => `mine ${i}`);
    const said = await Promise.all(
      texts.map((text, i) => call(replicas[i % 3]!, 'rogue__fine', { text }).then(textOf)),
    );
    expect(said).toEqual(texts);
    // Answers with unknown ids, with future ids and duplicates, around the right one.
    for (const replica of replicas) {
      expect(textOf(await call(replica, 'rogue__wrong-id'))).toBe('yours');
      expect(textOf(await call(replica, 'rogue__fine', { text: 'next' }))).toBe('next');
    }
  });

  test.each(['die', 'kill', 'half-line'])(
    '22: a process ends during a call (%s) of another replica: the call ends once, and the process restarts',
    async (tool) => {
      await fine(replicas[0]!, tool);
      traffic = new Traffic(replicas, 'counted__quick');
      const { owner, others } = await ownerOf(tool);
      const before = await startsOf(tool);
      for (const replica of [others[0]!, others[1]!, owner]) {
        failed(await call(replica, `${tool}__${tool}`));
        for (const each of replicas) await fine(each, tool);
      }
      expect(await startsOf(tool)).toBeGreaterThanOrEqual(before + 3);
      expect((await ownerOf(tool)).owner.pid).toBe(owner.pid);
    },
  );

  test.each([
    ['noise', 'noisy'],
    ['chatter', 'chatty'],
    ['long-line', 'after the long line'],
  ])('22: a process writes %s: bounded at its replica, no effect at others', async (tool, text) => {
    await fine(replicas[0]!);
    traffic = new Traffic(replicas, 'counted__quick');
    const { owner, others } = await ownerOf('rogue');
    const before = memoryOf(owner);
    for (const replica of [owner, ...others]) expect(textOf(await call(replica, `rogue__${tool}`))).toBe(text);
    expect((memoryOf(owner) - before) / MIB).toBeLessThan(64);
  });

  test('22: a process that never starts and a missing program: the error names the cause at every replica, and other servers work', async () => {
    traffic = new Traffic(replicas, 'counted__quick');
    for (const name of ['dies', 'missing']) {
      const answers = await Promise.all(replicas.map((replica) => call(replica, `${name}__anything`)));
      for (const answer of answers) {
        expect(answer.error ?? answer.result.isError, JSON.stringify(answer)).toBeTruthy();
        expect(JSON.stringify(answer)).not.toMatch(/\/srv\/|no-such-program/);
      }
    }
    // A program that does not exist is reported at once, at every call.
    for (let i = 0; i < 5; i++) {
      const began = performance.now();
      await Promise.all(replicas.map((replica) => call(replica, 'missing__anything')));
      console.log(`${engine}: a missing program is reported after ${Math.round(performance.now() - began)} ms`);
    }
    // The pauses between restarts grow, and then there are no more restarts: not every call starts the process.
    await Promise.all(Array.from({ length: 60 }, (_, i) => call(replicas[i % 3]!, 'dies__anything')));
    expect(await startsOf('dies')).toBeLessThan(25);
    await sleep(100);
    for (const replica of replicas) await fine(replica);
  });

  test('22: a process that ignores the end of its input and SIGTERM is gone after its replica has stopped', async () => {
    expect(textOf(await call(replicas[0]!, 'stubborn__fine', { text: 'here' }))).toBe('here');
    const { owner, others } = await ownerOf('stubborn');
    const pids = (await descendants(owner.pid))
      .filter(({ command }) => command.includes(notes('stubborn')))
      .map(({ pid }) => pid);
    expect(pids).toHaveLength(1);
    expect(await owner.close()).toBe(0);
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow();
    // Another replica runs it now.
    for (const replica of others)
      await eventually(
        () => call(replica, 'stubborn__fine', { text: 'there' }).then(textOf),
        (text) => text === 'there',
      );
    replicas = others;
  });
});
