/** Case 19 with a progress token, with the client, the call and the server at different replicas. */
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { progressOf, Session } from '../cluster/support/session.js';
import { Traffic } from '../cluster/support/traffic.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { ModernClient, textOf } from '../era-bridge/support/clients.js';
import { eventually, type Message } from '../era-bridge/support/wire.js';
import { type Rogue, startRogue } from '../input/support/rogue.js';
import { escaped } from '../input/support/world.js';
import { FLOOD_PROGRAM } from './flood-program.js';
import { FLOOD_SCRIPT } from './flood-script.js';

const CUT = { code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } };

describe.each(CLUSTERS)('floods of progress to clients of three replicas over %s', (engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let rogue: Rogue;
  let folder: string;
  let replicas: Replica[];
  let traffic: Traffic;

  beforeAll(async () => {
    [engines, counted, rogue, folder] = await Promise.all([
      startEngines(engine),
      new CountedServer().start(),
      startRogue(FLOOD_SCRIPT),
      mkdtemp(join(tmpdir(), 'parley-flood-')),
    ]);
    await writeFile(join(folder, 'flood.mjs'), FLOOD_PROGRAM);
    replicas = await engines.start(3, {
      timeouts: { drain: '1s', call: '30s' },
      servers: {
        counted: { url: counted.url },
        remote: { url: rogue.url, revision: 'legacy', transport: 'http' },
        piped: {
          command: process.execPath,
          args: [join(folder, 'flood.mjs'), join(folder, 'notes')],
          revision: 'legacy',
        },
      },
    });
    // The replica of the first call owns the process.
    await call(replicas[0]!, 'piped__fine');
    await call(replicas[1]!, 'piped__fine');
  });
  afterEach(async () => {
    await traffic.stop();
    expect(traffic.failures).toEqual([]);
    for (const replica of replicas) {
      expect(replica.dead).toBe(false);
      expect(escaped(replica.log())).toEqual([]);
    }
  });
  afterAll(async () => {
    await engines?.stop();
    await Promise.all([counted?.close(), rogue?.close()]);
    await rm(folder, { recursive: true, force: true });
  });

  const call = (at: Replica, name: string, args: object = {}): Promise<Message> =>
    new ModernClient(at.mcp, {}, ALICE).call(name, args as Record<string, unknown>);
  const memory = (): number[] =>
    replicas.map(({ pid }) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024);
  const given = async (server: string): Promise<number> =>
    server === 'piped'
      ? (await readFile(join(folder, 'notes'), 'utf8')).split('\n').filter((line) => line === 'cancelled').length
      : rogue.abandoned.length;

  const rises = (values: readonly number[]): boolean => values.every((value, i) => i === 0 || value > values[i - 1]!);

  test.each(['remote', 'piped'])(
    '19: %s: endless calls are ended, whether the client reads or not; each gets one end, which is the same at every replica',
    async (server) => {
      traffic = new Traffic(replicas, 'counted__quick');
      const [a, b, c] = replicas as [Replica, Replica, Replica];
      const before = memory();
      const gone = await given(server);
      const callers = await Promise.all(
        [b, b, c, c].map(async (at, n) => {
          const session = await Session.open(at);
          const { id, exchange } = session.call(at, `${server}__endless`, { key: String(n) }, true);
          // Every second client stops reading.
          if (n % 2 === 1) (await exchange.opened).pause();
          return { session, id, exchange, stalled: n % 2 === 1 };
        }),
      );
      await eventually(
        () => given(server),
        (count) => count === gone + callers.length,
        60_000,
      );
      // Other calls to the same server work through all replicas.
      for (const replica of replicas) expect(textOf(await call(replica, `${server}__fine`, { text: 'ok' }))).toBe('ok');
      for (const { session, id, exchange, stalled } of callers) {
        if (stalled) (await exchange.opened).resume();
        const heard = await exchange.ended;
        expect(heard.filter((message) => message.id === id)).toHaveLength(1);
        expect(heard.at(-1)?.error).toMatchObject(CUT);
        expect(rises(progressOf(heard))).toBe(true);
        expect(heard.length).toBeLessThan(6_000);
        // Another replica replays the same end.
        const near = exchange.lastEventId!.replace(/\d+$/, (seq) => String(Number(seq) - 5));
        const again = await session.listen(a, near).ended;
        expect(again.at(-1)?.error).toMatchObject(CUT);
        expect(again.slice(0, -1).map(({ method }) => method)).toEqual(Array(4).fill('notifications/progress'));
      }
      const grown = memory().map((now, n) => Math.round(now - before[n]!));
      console.log(`${engine}: four endless calls of ${server} cost the replicas ${grown.join(', ')} MiB`);
      expect(Math.max(...grown)).toBeLessThan(128);
    },
  );

  test('19: on the way to another replica, some progress of a finite flood is dropped; the answer and the last progress arrive', async () => {
    traffic = new Traffic(replicas, 'counted__quick');
    const count = 15_000;
    for (const at of replicas) {
      const session = await Session.open(at);
      const { id, exchange } = session.call(at, 'piped__many', { count, size: 200 }, true);
      const heard = await exchange.ended;
      expect(heard.filter((message) => message.id === id)).toHaveLength(1);
      expect(textOf(heard.at(-1)!)).toBe('all of it');
      const values = progressOf(heard);
      expect(rises(values)).toBe(true);
      expect(values.at(-1)).toBe(count);
      expect(values.length).toBeLessThan(6_000);
    }
  });
});
