/** Expired rows are removed as fast as they come, by one replica, while everybody else goes on. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../test/support/engines.js';
import type { Db, Row, Statement, Value } from './db.js';
import { newId, type State } from './index.js';
import { SqlBus } from './sql-bus.js';
import { AgentTasks } from './stores/agent-tasks.js';
import { Audit } from './stores/audit.js';
import { Outbox } from './stores/outbox.js';
import { ParkedCalls } from './stores/parked.js';
import { Sessions } from './stores/sessions.js';
import { Tasks } from './stores/tasks.js';
import { Verdicts } from './stores/verdicts.js';
import { Sweeper } from './sweeper.js';

const SOON = { timeout: 60_000 };
const HOUR = 3_600_000;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.each(ENGINES)('expiry on %s', (engine) => {
  let cluster: Cluster;
  let a: State;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
  }, 120_000);
  beforeEach(async () => {
    await cluster.reset();
    a = await cluster.open();
  });
  afterAll(() => cluster.stop());

  /** Sessions that ended in the last hour, made by the database itself. */
  const fill = async (count: number): Promise<void> => {
    const numbers =
      a.db.dialect === 'postgres'
        ? 'SELECT generate_series AS i FROM generate_series(1, CAST($1 AS INTEGER))'
        : 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT i FROM n';
    await a.db.q(
      `INSERT INTO sessions (id, principal, owner, json, rev, mark, created_at, updated_at, expires_at)
       SELECT 'expired-' || i, 'p' || (i % 100), '', '{}', 1, '', 0, 0, CAST($2 AS BIGINT) - i FROM (${numbers}) AS n`,
      [count, Date.now()],
    );
  };
  const left = async (): Promise<number> =>
    Number((await a.db.q(`SELECT COUNT(*) AS n FROM sessions WHERE id LIKE 'expired-%'`))[0]!['n']);

  test('one round removes however many there are, in batches, and nothing else; calls go on meanwhile', async () => {
    const count = 30_000;
    await fill(count);
    const live = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const id = newId();
        await a.sessions.create({ id, principal: 'p', value: {}, expiresAt: Date.now() + HOUR });
        return id;
      }),
    );
    let going = true;
    let calls = 0;
    const calling = (async () => {
      for (; going; calls++) {
        expect(await a.sessions.touch(live[calls % live.length]!, Date.now() + HOUR)).toBe(true);
        await sleep(2);
      }
    })();
    const sweeping = await cluster.open({ sweepMs: 50 });
    await expect.poll(left, SOON).toBe(0);
    going = false;
    await calling;
    // More than one call for each batch.
    expect(calls).toBeGreaterThan(count / a.sessions.batch);
    for (const id of live) expect(await sweeping.sessions.get(id)).toBeDefined();
  }, 120_000);

  test('of several replicas one does it, and the next one when that is gone', async () => {
    const b = await cluster.open();
    const made = { a: 0, b: 0 };
    const sweeper = ({ bus }: State, name: 'a' | 'b'): Sweeper => {
      const sweep = async (): Promise<number> => {
        made[name]++;
        return 0;
      };
      return new Sweeper({ bus, stores: [{ batch: 10, sweep }], everyMs: 50 });
    };
    const [first, second] = [sweeper(a, 'a'), sweeper(b, 'b')];
    await expect.poll(() => made.a + made.b, SOON).toBeGreaterThan(5);
    expect(Math.min(made.a, made.b)).toBe(0);
    const [worked, waits] = made.a > 0 ? [first, second] : [second, first];
    const other = made.a > 0 ? 'b' : 'a';
    await worked.close();
    await expect.poll(() => made[other], SOON).toBeGreaterThan(0);
    await waits.close();
  }, 120_000);

  test('a store with much to remove keeps none of the others waiting, and one that fails does not end the rounds', async () => {
    const order: string[] = [];
    let much = 5;
    let fails = true;
    const sweeper = new Sweeper({
      bus: a.bus,
      everyMs: 50,
      stores: [
        {
          batch: 1,
          sweep: async () => {
            order.push('much');
            return much-- > 0 ? 1 : 0;
          },
        },
        {
          batch: 1,
          sweep: async () => {
            order.push('little');
            if (!fails) return 0;
            fails = false;
            throw new Error('injected');
          },
        },
      ],
    });
    await expect.poll(() => order.length, SOON).toBeGreaterThan(9);
    expect(order.slice(0, 5)).toEqual(['much', 'little', 'much', 'little', 'much']);
    await sweeper.close();
  });

  test('expired tasks of agents go with all that belongs to them', async () => {
    const tasks = Array.from({ length: 120 }, (_, i) => ({ agent: 'planner', owner: `o${i % 7}`, id: `t${i}` }));
    for (const key of tasks) {
      const over = Number(key.id.slice(1)) % 4 !== 0;
      const task = { ...key, upstreamId: `u${key.id}`, contextId: 'c', state: 'W', statusAt: 1, value: {}, seq: 2 };
      await a.agentTasks.write({
        task: { ...task, dialect: '1.0', createdAt: 1 },
        after: 0,
        events: [1, 2].map((seq) => ({ seq, value: seq })),
        messages: [],
        expiresAt: Date.now() + (over ? -1 : HOUR),
      });
      await a.agentPushes.put({ key, id: 'push', value: {}, dialect: '1.0', failures: 0, disabled: false });
    }
    await cluster.open({ sweepMs: 50 });
    const count = async (table: string): Promise<number> =>
      Number((await a.db.q(`SELECT COUNT(*) AS n FROM ${table}`))[0]!['n']);
    await expect.poll(() => count('agent_tasks'), SOON).toBe(30);
    expect([await count('agent_events'), await count('agent_pushes')]).toEqual([60, 30]);
  });

  test('deliveries that were given up are kept for their time; those that wait, for as long as they wait', async () => {
    for (const id of ['dead', 'fresh', 'waits']) await a.outbox.put({ id, lane: id, target: 'r', value: 1 });
    await a.outbox.bury('dead', 'gone');
    await a.outbox.bury('fresh', 'gone');
    await a.db.q(`UPDATE outbox SET due_at = due_at - ${HOUR} WHERE id <> 'fresh'`);
    await cluster.open({ sweepMs: 50, retention: { deadDeliveriesMs: HOUR / 2 } });
    const ids = async (): Promise<unknown> => (await a.db.q('SELECT id FROM outbox ORDER BY id')).map(({ id }) => id);
    await expect.poll(ids, SOON).toEqual(['fresh', 'waits']);
  });

  test('audit records are kept for their time, and what is left can be verified', async () => {
    const write = async (state: State, from: number, to: number): Promise<void> => {
      for (let n = from; n <= to; n++) await state.audit.write({ n });
    };
    // Chains that begin with records of each other, the oldest of which are removed.
    await write(a, 1, 20);
    await write(await cluster.open(), 21, 30);
    await write(await cluster.open(), 31, 35);
    const records = await a.audit.list({ limit: 100 });
    expect(records).toHaveLength(35);
    const cutoff = records[24]!.at;
    // Later, when the first 25 are older than they are kept.
    const later = new Audit(a.db, { keepMs: HOUR });
    while ((await later.sweep(cutoff + HOUR)) > 0);
    expect((await a.audit.list({ limit: 100 })).every(({ at }) => at > cutoff)).toBe(true);
    expect(await a.audit.verify()).toMatchObject({ ok: true });
    await write(a, 36, 40);
    expect(await a.audit.verify()).toMatchObject({ ok: true });
    // Whoever removes a record before its time is still found out.
    const [next] = await a.audit.list({ limit: 1 });
    await a.db.q('DELETE FROM audit WHERE chain = $1 AND seq = $2', [next!.chain, next!.seq]);
    expect(await a.audit.verify()).toMatchObject({ ok: false });
  });

  if (engine === 'postgres')
    test('every statement that removes rows finds them by an index', async () => {
      const made: Statement[] = [];
      const noted: Db = {
        dialect: 'postgres',
        q: async <R extends Row>(sql: string, params: readonly Value[] = []): Promise<R[]> => {
          made.push([sql, params]);
          return a.db.q<R>(sql, params);
        },
        tx: async (list) => {
          made.push(...list);
          return a.db.tx(list);
        },
        close: async () => {},
      };
      await a.audit.write({});
      await a.agentTasks.write({
        task: {
          ...{ agent: 'a', owner: 'o', id: 't', upstreamId: 'u', contextId: 'c', state: 'W', statusAt: 1, value: {} },
          ...{ seq: 1, dialect: '1.0', createdAt: 1 },
        },
        ...{ after: 0, events: [], messages: [], expiresAt: 1 },
      });
      const stores = [
        ...[new Sessions(noted), new ParkedCalls(noted), new Tasks(noted), new AgentTasks(noted), new Verdicts(noted)],
        ...[new Outbox(noted, { keepDeadMs: 0 }), new Audit(noted, { keepMs: 0 }), ...new SqlBus(noted).expiring],
      ];
      for (const store of stores) await store.sweep();
      expect(made.length).toBeGreaterThan(stores.length);
      for (const [sql, params] of made) {
        // Where the planner is told to avoid it, it reads a whole table only if there is no other way.
        const [, plan] = await a.db.tx([
          ['SET LOCAL enable_seqscan = off', []],
          [`EXPLAIN ${sql}`, params],
        ]);
        const lines = plan!.map((row) => String(row['QUERY PLAN']));
        // Anchors are as few as processes that were started.
        const whole = lines.filter((line) => line.includes('Seq Scan') && !line.includes('audit_anchors'));
        expect(whole, sql).toEqual([]);
      }
    });

  test('a hint reaches every replica, and writes no row', async () => {
    const b = await cluster.open();
    let heard = 0;
    const off = b.bus.onHint('topic', () => heard++);
    await expect
      .poll(() => {
        a.bus.hint('topic');
        // An embedded gateway is one process, which hears itself.
        if (engine === 'sqlite') b.bus.hint('topic');
        return heard;
      }, SOON)
      .toBeGreaterThan(0);
    off();
    await a.registry.put('server', 'x', {});
    expect(await a.db.q('SELECT stream FROM streams')).toEqual([]);
  });
});
