/**
 * Cases 27 and 28: the database or the bus is killed, frozen, slow, locked, read-only or full. Stateless calls are
 * always served, requests that need the engine are refused with Retry-After, and all functions recover without a
 * restart.
 */
import { Redis } from 'ioredis';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { progressOf, REVISION, Session, upTo } from '../cluster/support/session.js';
import { Traffic } from '../cluster/support/traffic.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { FORM, ModernClient, textOf } from '../era-bridge/support/clients.js';
import { Exchange, eventually, type Message } from '../era-bridge/support/wire.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { sleep } from './rounds.js';

/** Limit for a stateless call during an outage on a busy machine, in milliseconds. */
const PROMPT = 1_000;
const RECOVERED = 5_000;
const OUTAGE = 6_000;

const CASES = CLUSTERS.flatMap((engine) => [2, 3].map((count) => [count, engine] as const));

describe.each(CASES)('%i replicas over %s', (count, engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let asking: HttpFixture;
  let a: Replica;
  let b: Replica;
  let replicas: Replica[];

  beforeAll(async () => {
    [engines, counted, asking] = await Promise.all([
      startEngines(engine),
      new CountedServer().start(),
      new HttpFixture({ revision: '2025-11-25' }).start(),
    ]);
    const servers = { counted: { url: counted.url }, asking: { url: asking.url, revision: '2025-11-25' } };
    replicas = await engines.start(count, { servers });
    [a, b] = replicas as [Replica, Replica];
    for (const replica of replicas)
      await eventually(
        () => new ModernClient(replica.mcp, {}, ALICE).call('counted__quick', { key: 'warm' }).then(textOf),
        (text) => text === 'warm done',
      );
  });
  afterAll(async () => {
    await engines?.stop();
    await Promise.all([counted?.close(), asking?.close()]);
  });

  const initialize = async (at: Replica): Promise<Exchange> => {
    const exchange = new Exchange(
      at.mcp,
      'POST',
      { authorization: `Bearer ${ALICE}` },
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'initialize',
        params: { protocolVersion: REVISION, capabilities: {}, clientInfo: { name: 'late', version: '1' } },
      },
    );
    await exchange.ended;
    return exchange;
  };

  const refused = async (exchange: Exchange): Promise<void> => {
    expect(exchange.status).toBe(503);
    expect((await exchange.opened).headers['retry-after']).toBe('1');
    expect(exchange.messages[0]?.error?.data).toMatchObject({ reason: 'overloaded' });
  };

  /** A session started at A works at B: its row, its stream and its notifications. */
  const recovered = async (): Promise<void> => {
    const key = `whole ${Math.random()}`;
    const session = await Session.open(a, FORM);
    const { exchange, id } = session.call(a, 'asking__ask', { key });
    const question = await exchange.until(({ method }) => method === 'elicitation/create', 2_000);
    exchange.abort();
    await exchange.ended;
    const rest = session.listen(b, exchange.lastEventId!);
    await rest.opened;
    if (rest.status !== 200) throw new Error(`resumed with HTTP ${rest.status}`);
    await session.respond(b, question.id!, { action: 'accept', content: { answer: 'yes' } });
    const answer = await rest.until((message) => message.id === id, 2_000);
    if (textOf(answer) !== `${key}: yes`) throw new Error(JSON.stringify(answer));
  };

  const recovers = async (): Promise<number> => {
    const began = performance.now();
    await eventually(
      () =>
        recovered().then(
          () => true,
          () => false,
        ),
      (well) => well,
    );
    return performance.now() - began;
  };

  /** Checks the guarantees during an outage and afterwards. */
  const outage = async (
    name: string,
    break_: () => unknown,
    mend: () => unknown,
    during: (session: Session, lastEventId: string) => Promise<void>,
  ): Promise<void> => {
    await recovered();
    const session = await Session.open(a);
    const streaming = session.call(a, 'counted__ticks', { key: name, count: 60, every: 200 }, true);
    await streaming.exchange.until(({ params }) => params?.progress === 3);
    const traffic = new Traffic(replicas, 'counted__quick');
    await break_();
    try {
      await during(session, streaming.exchange.lastEventId!);
      await sleep(OUTAGE);
    } finally {
      await mend();
    }
    const took = await recovers();
    const worst = await traffic.stop();
    console.log(
      `${engine}, ${count} replicas, ${name}: ${traffic.calls} stateless calls, worst ${Math.round(worst)} ms; recovered after ${Math.round(took)} ms`,
    );
    expect(traffic.failures).toEqual([]);
    expect(worst).toBeLessThan(PROMPT);
    expect(took).toBeLessThan(RECOVERED);
    // A client that stayed connected missed no event.
    const messages: Message[] = await streaming.exchange.ended;
    expect(progressOf(messages)).toEqual(upTo(60));
    expect(messages.filter(({ id }) => id === streaming.id)).toHaveLength(1);
    expect(counted.runs.filter((key) => key === name)).toHaveLength(1);
    for (const replica of replicas) expect(replica.dead).toBe(false);
  };

  /** The session works at the replica that knows it; other replicas, and requests for streams, are refused. */
  const streamsRefused = async (session: Session, lastEventId: string): Promise<void> => {
    expect((await session.request(a, 'ping')).result).toEqual({});
    const resumed = session.listen(b, lastEventId);
    await resumed.ended;
    await refused(resumed);
  };

  const databaseRefused = async (session: Session, lastEventId: string): Promise<void> => {
    await streamsRefused(session, lastEventId);
    await refused(await initialize(a));
  };

  test('28: PostgreSQL is killed', () =>
    outage(
      'postgres killed',
      () => engines.postgres.kill(),
      () => engines.postgres.restart(),
      databaseRefused,
    ));

  test('28: PostgreSQL is frozen', () =>
    outage(
      'postgres frozen',
      () => engines.postgres.freeze(),
      () => engines.postgres.thaw(),
      databaseRefused,
    ));

  /** Opens a separate connection to the gateway's database, with the same rights. */
  const asAdmin = async (use: (client: pg.Client) => Promise<unknown>): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: engines.db });
    client.on('error', () => {});
    await client.connect();
    await use(client);
    return client;
  };

  test('28: a lock is held on the sessions for 10 s', async () => {
    let admin: pg.Client | undefined;
    const locked = async (session: Session): Promise<void> => {
      expect((await session.request(a, 'ping')).result).toEqual({});
      const began = performance.now();
      await refused(await initialize(a));
      expect(performance.now() - began).toBeLessThan(8_000);
      await sleep(Math.max(0, 4_000 - (performance.now() - began)));
    };
    await outage(
      'postgres locked',
      async () => {
        admin = await asAdmin(async (client) => {
          await client.query('BEGIN');
          await client.query('LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE');
        });
      },
      async () => {
        await admin?.query('COMMIT');
        await admin?.end();
      },
      locked,
    );
  });

  test('28: PostgreSQL is read-only', async () => {
    const set = async (value: 'on' | 'off'): Promise<void> => {
      const admin = await asAdmin(async (client) => {
        await client.query('SET SESSION default_transaction_read_only = off');
        await client.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
        await client.query('SELECT pg_reload_conf()');
      });
      await admin.end();
    };
    await outage(
      'postgres read-only',
      () => set('on'),
      () => set('off'),
      async (session) => {
        await sleep(500);
        expect((await session.request(a, 'ping')).result).toEqual({});
        await refused(await initialize(a));
        // Reads work: a replica that did not know the session finds it.
        expect((await session.request(b, 'ping')).result).toEqual({});
      },
    );
  });

  if (engine === 'postgres+redis') {
    /** Sessions are stored in PostgreSQL, so B knows the session; its stream is in Redis. */
    const redis = () => engines.redis!;

    test('27: Redis is killed', () =>
      outage(
        'redis killed',
        () => redis().kill(),
        () => redis().restart(),
        streamsRefused,
      ));

    test('27: Redis is frozen', () =>
      outage(
        'redis frozen',
        () => redis().freeze(),
        () => redis().thaw(),
        streamsRefused,
      ));

    test('27: Redis is full', async () => {
      const admin = new Redis(redis().url);
      try {
        // Reads work; writes fail.
        await outage(
          'redis full',
          () => admin.config('SET', 'maxmemory', '1'),
          () => admin.config('SET', 'maxmemory', '0'),
          async (session) => {
            expect((await session.request(a, 'ping')).result).toEqual({});
            const exchange = new Exchange(b.mcp, 'POST', session.headers, {
              jsonrpc: '2.0',
              id: 'elsewhere',
              result: {},
            });
            await exchange.ended;
            await refused(exchange);
          },
        );
      } finally {
        admin.disconnect();
      }
    });

    test('27: Redis is slow: every command takes half a second', async () => {
      const admin = new Redis(redis().url);
      let pausing: NodeJS.Timeout | undefined;
      try {
        await outage(
          'redis slow',
          () => {
            pausing = setInterval(() => void admin.client('PAUSE', 500, 'ALL').catch(() => {}), 520);
          },
          () => clearInterval(pausing),
          async (session) => {
            expect((await session.request(a, 'ping')).result).toEqual({});
          },
        );
      } finally {
        clearInterval(pausing);
        admin.disconnect();
      }
    });

    test('27, 28: both engines are down, and stateless calls still work', async () => {
      const traffic = new Traffic(replicas, 'counted__quick');
      await Promise.all([engines.postgres.kill(), redis().kill()]);
      await sleep(3_000);
      const during = traffic.calls;
      await Promise.all([engines.postgres.restart(), redis().restart()]);
      const took = await recovers();
      const worst = await traffic.stop();
      expect(during).toBeGreaterThan(20);
      expect(traffic.failures).toEqual([]);
      expect(worst).toBeLessThan(PROMPT);
      expect(took).toBeLessThan(RECOVERED);
    });
  }
});
