/** Case 15: clients of two and three replicas that vanish without closing; their connections look open. */
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { progressOf, Session, upTo } from '../cluster/support/session.js';
import { Traffic } from '../cluster/support/traffic.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { ModernClient } from '../era-bridge/support/clients.js';
import { type Exchange, eventually, type Message } from '../era-bridge/support/wire.js';
import { EventStream } from '../input/support/wire.js';
import { escaped } from '../input/support/world.js';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js';
import { rounds } from './rounds.js';

const CLIENTS = rounds(20, 6);
const TICKS = 40;
const AGE = 8_000;
const HURRIED = {
  NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import ${fileURLToPath(new URL('./hurry.mjs', import.meta.url))}`,
  FAULT_PING_MS: '250',
  FAULT_AGE_MS: String(AGE),
};
const CHANGED = 'notifications/tools/list_changed';

const CASES = CLUSTERS.flatMap((engine) => [2, 3].map((count) => [count, engine] as const));

describe.each(CASES)('half-open clients of %i replicas over %s', (count, engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let replicas: Replica[];
  let a: Replica;
  let others: Replica[];
  /** The proxy to A that drops all packets. */
  let proxy: FaultProxy;
  let through: Replica;
  let traffic: Traffic;

  beforeAll(async () => {
    [engines, counted] = await Promise.all([startEngines(engine), new CountedServer().start()]);
  });
  beforeEach(async () => {
    replicas = await engines.start(
      count,
      { servers: { counted: { url: counted.url } } },
      Array.from({ length: count }, () => ({ env: HURRIED })),
    );
    [a, ...others] = replicas as [Replica, ...Replica[]];
    proxy = await startFaultProxy({ port: Number(new URL(a.url).port) });
    through = { ...a, mcp: `http://127.0.0.1:${proxy.port}/mcp` };
    traffic = new Traffic(replicas, 'counted__quick');
  });
  afterEach(async () => {
    await traffic.stop();
    await proxy.close();
    expect(traffic.failures).toEqual([]);
    for (const replica of replicas) {
      expect(replica.dead).toBe(false);
      expect(escaped(replica.log())).toEqual([]);
    }
    await engines.reset();
  });
  afterAll(async () => {
    await engines?.stop();
    await counted?.close();
  });

  const open = (at: Replica, { headers }: Session, lastEventId?: string): Promise<EventStream> =>
    EventStream.open(at.mcp, {
      headers: {
        ...headers,
        accept: 'text/event-stream',
        ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
      },
    });

  test('15: a call whose client vanished continues, and the client gets every event once at any replica', async () => {
    const key = (n: number): string => `vanished ${engine} ${count} ${n}`;
    const vanish = async (n: number): Promise<{ session: Session; id: number; exchange: Exchange }> => {
      const session = await Session.open(a);
      const args = { key: key(n), count: TICKS, every: 100 };
      const { id, exchange } = session.call(through, 'counted__ticks', args, true);
      await exchange.until(({ params }) => params?.progress === 3);
      return { session, id, exchange };
    };
    const vanished = await Promise.all(Array.from({ length: CLIENTS }, (_, n) => vanish(n)));
    proxy.set({ blackHole: true });
    await Promise.all(
      vanished.map(async ({ session, id, exchange }, n) => {
        const heard: Message[] = [...exchange.messages];
        const last = exchange.lastEventId!;
        // Some clients return at once, others after the end of the call; some return to the same replica, others to
        // another one.
        if (n % 2 === 1) await eventually(() => counted.over.includes(key(n)), Boolean);
        const at = replicas[(n >> 1) % count]!;
        const again = await open(at, session, last);
        expect(again.status).toBe(200);
        await again.end(30_000);
        heard.push(...(again.messages as Message[]));
        if (n % 2 === 0) expect(again.comments.some((comment) => /^\s*ping \d+/.test(comment))).toBe(true);
        expect(progressOf(heard)).toEqual(upTo(TICKS));
        expect(heard.filter((message) => message.id === id)).toHaveLength(1);
        expect(heard.at(-1)?.result.content[0].text).toBe(`${key(n)} done`);
        expect(counted.runs.filter((run) => run === key(n))).toHaveLength(1);
        // The dead connection received nothing more and was not closed.
        expect(exchange.messages.length).toBeLessThan(heard.length);
      }),
    );
  });

  test('15: a stream whose client vanished ends at its age limit; meanwhile other replicas serve the session', async () => {
    const session = await Session.open(a);
    const lost = await open(through, session);
    const { id: last } = await lost.until(({ events }) => events[0]);
    const listening = new ModernClient(through.mcp, {}, ALICE).start('subscriptions/listen', {
      notifications: { toolsListChanged: true },
    });
    await listening.until(({ method }) => method === 'notifications/subscriptions/acknowledged');
    proxy.set({ blackHole: true });

    // Without an event id, A refuses a second stream. The other replicas do not know about the open stream.
    expect((await open(a, session)).status).toBe(409);
    const elsewhere = await Promise.all(others.map((replica) => open(replica, session)));
    const changed = ({ messages }: EventStream): boolean => messages.some(({ method }) => method === CHANGED);
    await eventually(
      async () => counted.announce(CHANGED),
      () => elsewhere.every(changed),
    );
    for (const stream of elsewhere) {
      expect(stream.status).toBe(200);
      await stream.until(({ comments }) => comments.some((comment) => /^\s*ping \d+/.test(comment)));
    }
    // A has no sign that its client is gone: it ends the stream by age. Streams with a live client end properly.
    const freed = await eventually(
      () => open(a, session),
      ({ status }) => status === 200,
      AGE + 10_000,
    );
    freed.close();
    for (const stream of elsewhere) {
      await stream.end(AGE + 10_000);
      expect(stream.retries.at(-1)).toBe(1_000);
    }
    expect(last).toBeDefined();
    lost.close();
    listening.abort();
  });

  test('15: a subscription ends with its result at its age limit at every replica, and can be opened again', async () => {
    await Promise.all(
      replicas.map(async (replica) => {
        const client = new ModernClient(replica.mcp, {}, ALICE);
        const filter = { notifications: { toolsListChanged: true } };
        const messages = await client.start('subscriptions/listen', filter).ended;
        expect(messages[0]?.method).toBe('notifications/subscriptions/acknowledged');
        expect(messages.at(-1)?.result).toMatchObject({ resultType: 'complete' });
        const again = client.start('subscriptions/listen', filter);
        await again.until(({ method }) => method === 'notifications/subscriptions/acknowledged');
        again.abort();
      }),
    );
  });
});
