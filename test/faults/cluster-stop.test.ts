/** Case 26: a replica is stopped while a hundred streams are open at it and a load balancer sends calls to all. */
import { once } from 'node:events';
import { request } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { progressOf, Session, upTo } from '../cluster/support/session.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { ModernClient, textOf } from '../era-bridge/support/clients.js';
import { type Exchange, eventually, sleep } from '../era-bridge/support/wire.js';
import { EventStream } from '../input/support/wire.js';
import { escaped } from '../input/support/world.js';

const STREAMS = 50;
const LISTENS = 50;

const ready = (at: Replica): Promise<number> =>
  new Promise((resolve) => {
    const req = request(`${at.url}/_health/ready`, { agent: false }, (res) => {
      res.resume();
      resolve(res.statusCode ?? 0);
    });
    req.on('error', () => resolve(0));
    req.end();
  });

/** Sends calls to the replicas that report ready, as a load balancer does. */
class Balanced {
  readonly failures: string[] = [];
  readonly served = new Map<Replica, number>();
  private going = true;
  private readonly done: Promise<unknown>;
  private readonly well = new Set<Replica>();

  constructor(private readonly replicas: readonly Replica[]) {
    this.done = Promise.all([this.look(), ...Array.from({ length: 6 }, (_, i) => this.run(i))]);
  }

  private async look(): Promise<void> {
    while (this.going) {
      for (const replica of this.replicas) {
        if ((await ready(replica)) === 200) this.well.add(replica);
        else this.well.delete(replica);
      }
      await sleep(20);
    }
  }

  private async run(n: number): Promise<void> {
    for (let i = 0; this.going; i++) {
      const choice = [...this.well];
      const replica = choice[(i + n) % choice.length];
      if (replica) {
        const key = `balanced ${n} ${i}`;
        const exchange = new ModernClient(replica.mcp, {}, ALICE).startCall('counted__quick', { key });
        const [refused] = await Promise.all([
          exchange.opened.then(
            () => false,
            ({ code }: NodeJS.ErrnoException) => code === 'ECONNREFUSED',
          ),
          exchange.ended,
        ]);
        // A load balancer repeats a refused connection at another replica. Every other failure is a failed call.
        if (refused) this.well.delete(replica);
        else if (exchange.messages[0] && textOf(exchange.messages[0]) === `${key} done`)
          this.served.set(replica, (this.served.get(replica) ?? 0) + 1);
        else this.failures.push(`HTTP ${exchange.status}: ${JSON.stringify(exchange.messages)}`);
      }
      await sleep(5);
    }
  }

  async stop(): Promise<void> {
    this.going = false;
    await this.done;
  }
}

const CASES = CLUSTERS.flatMap((engine) => [2, 3].map((count) => [count, engine] as const));

describe.each(CASES)('%i replicas over %s', (count, engine) => {
  let engines: Replicas;
  let counted: CountedServer;

  beforeAll(async () => {
    [engines, counted] = await Promise.all([startEngines(engine), new CountedServer().start()]);
  });
  afterEach(() => engines.reset());
  afterAll(async () => {
    await engines?.stop();
    await counted?.close();
  });

  test('26: SIGTERM: readiness turns false at once, streams end properly, calls finish, exit 0, no call fails', async () => {
    const replicas = await engines.start(count, {
      servers: { counted: { url: counted.url } },
      timeouts: { drain: '20s' },
    });
    const [a, b] = replicas as [Replica, Replica];
    const sessions: { session: Session; stream: EventStream }[] = [];
    for (let i = 0; i < STREAMS; i++) {
      const session = await Session.open(a);
      const headers = { ...session.headers, accept: 'text/event-stream' };
      sessions.push({ session, stream: await EventStream.open(a.mcp, { headers }) });
    }
    const listens: Exchange[] = [];
    for (let i = 0; i < LISTENS; i++) {
      const params = { notifications: { toolsListChanged: true } };
      const exchange = new ModernClient(a.mcp, {}, ALICE).start('subscriptions/listen', params);
      await exchange.until(({ method }) => method === 'notifications/subscriptions/acknowledged');
      listens.push(exchange);
    }
    const long = sessions[0]!.session.call(a, 'counted__ticks', { key: 'long', count: 15, every: 200 }, true);
    await long.exchange.until(({ params }) => params?.progress === 1);
    const balanced = new Balanced(replicas);
    await eventually(
      () => balanced.served.get(a) ?? 0,
      (served) => served > 20,
    );

    const exit = once(a.process, 'exit');
    a.process.kill('SIGTERM');
    const told = performance.now();
    await eventually(
      () => ready(a),
      (status) => status !== 200,
      1_000,
    );
    const unready = performance.now() - told;
    for (const exchange of listens) {
      const messages = await exchange.ended;
      expect(messages.at(-1)?.result).toMatchObject({ resultType: 'complete' });
    }
    for (const { stream } of sessions) {
      await eventually(
        () => stream.ended,
        (ended) => ended,
      );
      expect(stream.retries.at(-1)).toBeGreaterThan(0);
    }
    const messages = await long.exchange.ended;
    expect(progressOf(messages)).toEqual(upTo(15));
    expect(messages.filter(({ id }) => id === long.id)).toHaveLength(1);
    const [code] = (await exit) as [number | null];
    const took = performance.now() - told;
    expect(code).toBe(0);
    expect(took).toBeLessThan(30_000);
    // The sessions continue at another replica.
    for (const { session } of sessions) expect((await session.request(b, 'ping')).result).toEqual({});
    const before = balanced.served.get(b) ?? 0;
    await eventually(
      () => balanced.served.get(b) ?? 0,
      (served) => served > before + 10,
    );
    await balanced.stop();
    console.log(
      `${engine}, ${count} replicas: not ready after ${Math.round(unready)} ms, ended after ${Math.round(took)} ms; ` +
        `${[...balanced.served.values()].reduce((sum, n) => sum + n, 0)} calls, ${balanced.failures.length} failed`,
    );
    expect(balanced.failures).toEqual([]);
    for (const replica of replicas) expect(escaped(replica.log())).toEqual([]);
  });
});
