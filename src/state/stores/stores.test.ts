import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { FaultyDb, seeded } from '../../../test/support/faulty-state.js';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { wallMs } from '../clock.js';
import { type Db, isStateError, newId, Outbox, type State, Tasks } from '../index.js';
import { Audit } from './audit.js';
import { SpentApprovals } from './spent-approvals.js';
import { GIVE_UP_MS, RETRY_DELAYS_MS, retryDelay } from './webhook-outbox.js';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const soon = (ms = 60_000): number => wallMs() + ms;

test('retries come after 5 s, 30 s, 2 min … 12 h, with full jitter', () => {
  expect(RETRY_DELAYS_MS.map((ms) => ms / 1_000)).toEqual([5, 30, 120, 600, 1_800, 7_200, 21_600, 43_200]);
  for (const [i, longest] of RETRY_DELAYS_MS.entries()) {
    expect(retryDelay(i + 1, () => 0)).toBe(0);
    expect(retryDelay(i + 1, () => 0.999_999_999)).toBe(longest);
  }
  expect(retryDelay(50, () => 1)).toBe(43_200_000);
});

describe.each(ENGINES)('the stores on %s', (engine) => {
  let cluster: Cluster;
  let a: State;
  let b: State;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    [a, b] = await Promise.all([cluster.open(), cluster.open()]);
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  test('a transaction executes all of its statements or none', async () => {
    const insert = (key: string): [string, (string | number)[]] => [
      'INSERT INTO meta (key, value) VALUES ($1, $2)',
      [key, 1],
    ];
    await a.db.tx([insert('x'), insert('y')]);
    await expect(a.db.tx([insert('z'), insert('x')])).rejects.toMatchObject({ code: 'constraint' });
    await expect(a.db.tx([insert('z'), ['SELEKT', []]])).rejects.toMatchObject({ code: 'internal' });
    const many = await Promise.allSettled(
      Array.from({ length: 40 }, (_, i) => a.db.tx([insert(`n${i}`), insert(i % 2 ? 'x' : `m${i}`)])),
    );
    expect(many.map(({ status }) => status === 'fulfilled')).toEqual(Array.from({ length: 40 }, (_, i) => i % 2 === 0));
    const keys = (await b.db.q<{ key: string }>('SELECT key FROM meta')).map(({ key }) => key).sort();
    const even = Array.from({ length: 20 }, (_, i) => [`n${2 * i}`, `m${2 * i}`]).flat();
    expect(keys).toEqual([...even, 'x', 'y'].sort());
  });

  test('values are read as they were written', async () => {
    const text = 'ä € \u{1f600} "\'\\ \n\t $1 ? :x @y';
    const rows = await a.db.tx([
      ['INSERT INTO meta (key, value) VALUES ($2, $1) RETURNING key, value', [Number.MAX_SAFE_INTEGER, text]],
      ['SELECT value, CAST(NULL AS TEXT) AS missing FROM meta WHERE key = $1 AND $1 = key', [text]],
    ]);
    expect(rows).toEqual([
      [{ key: text, value: Number.MAX_SAFE_INTEGER }],
      [{ value: Number.MAX_SAFE_INTEGER, missing: null }],
    ]);
  });

  test('a document is created once, readable at every replica, and updated only from its current revision', async () => {
    const doc = { id: newId(), principal: 'alice', value: { step: 1 }, expiresAt: soon() };
    expect(await a.sessions.create(doc)).toBe(true);
    expect(await b.sessions.create({ ...doc, principal: 'mallory' })).toBe(false);
    const seen = await b.sessions.get(doc.id);
    expect(seen).toMatchObject({ principal: 'alice', owner: '', value: { step: 1 }, rev: 1, expiresAt: doc.expiresAt });
    const both = await Promise.all([
      a.sessions.update({ id: doc.id, rev: 1, value: { step: 2 } }),
      b.sessions.update({ id: doc.id, rev: 1, value: { step: 3 } }),
    ]);
    expect(both.filter((rev) => rev === 2)).toHaveLength(1);
    expect(both.filter((rev) => rev === undefined)).toHaveLength(1);
    const changed = { id: doc.id, rev: 2, value: { step: 4 }, owner: 'r1', expiresAt: null };
    expect(await a.sessions.update(changed)).toBe(3);
    expect(await b.sessions.get(doc.id)).toMatchObject({ value: { step: 4 }, owner: 'r1', expiresAt: null });
    expect(await a.sessions.remove(doc.id)).toBe(true);
    expect(await b.sessions.remove(doc.id)).toBe(false);
    expect(await b.sessions.update({ ...changed, rev: 3 })).toBeUndefined();
  });

  test('an expired document is not found, is swept, and its id is free again', async () => {
    const doc = { id: newId(), principal: 'alice', value: 1, expiresAt: soon() };
    await a.sessions.create(doc);
    expect(await a.sessions.touch(doc.id, soon(80))).toBe(true);
    await expect.poll(() => b.sessions.get(doc.id), { timeout: 10_000 }).toBeUndefined();
    expect(await b.sessions.touch(doc.id, soon())).toBe(false);
    expect(await b.sessions.update({ id: doc.id, rev: 1, value: 2 })).toBeUndefined();
    expect(await b.sessions.create({ ...doc, principal: 'bob', expiresAt: soon(50) })).toBe(true);
    await sleep(80);
    expect(await a.sessions.sweep()).toBe(1);
    expect(await a.db.q('SELECT id FROM sessions')).toEqual([]);
  });

  test('documents are listed by principal, page by page', async () => {
    const ids = Array.from({ length: 5 }, () => newId());
    for (const id of ids) await a.tasks.create({ id, principal: 'alice', owner: 'r1', value: id });
    await a.tasks.create({ id: newId(), principal: 'bob', owner: 'r2', value: '' });
    const page = await b.tasks.listByPrincipal('alice', { limit: 3 });
    expect(page.map(({ id }) => id)).toEqual(ids.slice(0, 3));
    const rest = await b.tasks.listByPrincipal('alice', { after: page.at(-1)!.id, limit: 3 });
    expect(rest.map(({ id }) => id)).toEqual(ids.slice(3));
  });

  test('exactly one replica takes a parked call', async () => {
    const id = newId();
    await a.parked.create({ id, principal: 'alice', owner: 'r1', value: { tool: 't' }, expiresAt: soon() });
    const takes = await Promise.all(Array.from({ length: 10 }, (_, i) => (i % 2 ? a : b).parked.take(id)));
    expect(takes.filter(Boolean)).toEqual([{ principal: 'alice', owner: 'r1', value: { tool: 't' } }]);
  });

  test('exactly one replica spends an approval, and its row is removed after the expiry', async () => {
    const id = newId();
    const uses = await Promise.all(
      Array.from({ length: 10 }, (_, i) => (i % 2 ? a : b).spentApprovals.spend(id, 'ada', 60_000)),
    );
    expect(uses.sort()).toEqual(['first', ...Array.from({ length: 9 }, () => 'used')]);
    // The row is kept for a day after its approval expires.
    expect(await b.spentApprovals.spend(newId(), 'ada', -60_000)).toBe('first');
    expect(await a.spentApprovals.sweep()).toBe(0);
    expect(await b.spentApprovals.spend(newId(), 'ada', -25 * 3_600_000)).toBe('first');
    expect(await a.spentApprovals.sweep()).toBe(1);
    expect(await b.spentApprovals.spend(id, 'ada', 60_000)).toBe('used');
  });

  test('a caller whose program approves in a loop stores a bounded number of approvals, and none is valid again', async () => {
    const approvals = new SpentApprovals(a.db, 20);
    const ids = Array.from({ length: 50 }, () => newId());
    const uses: string[] = [];
    for (const id of ids) uses.push(await approvals.spend(id, 'eve', 60_000));
    expect(uses).toEqual(ids.map((_, i) => (i < 20 ? 'first' : 'full')));
    expect(await approvals.spend(ids[0]!, 'eve', 60_000)).toBe('used');
    expect(await approvals.spend(newId(), 'bob', 60_000)).toBe('first');
    const [kept] = await a.db.q<{ n: number }>(`SELECT COUNT(*) AS n FROM spent_approvals WHERE owner = 'eve'`);
    expect(kept).toEqual({ n: 20 });
  });

  test('the newer verdict wins, until it expires', async () => {
    const at = wallMs();
    await a.verdicts.put('http://x', { value: 'new', datedAt: at, expiresAt: soon() });
    await b.verdicts.put('http://x', { value: 'old', datedAt: at - 1, expiresAt: soon() });
    expect(await b.verdicts.get('http://x')).toMatchObject({ value: 'new', datedAt: at });
    await b.verdicts.put('http://y', { value: 'brief', datedAt: at, expiresAt: at - 1 });
    expect(await a.verdicts.get('http://y')).toBeUndefined();
    await a.verdicts.remove('http://x');
    expect(await b.verdicts.get('http://x')).toBeUndefined();
    await a.verdicts.sweep();
    expect(await a.db.q('SELECT target FROM era_verdicts')).toEqual([]);
  });

  test('the registry refuses to overwrite an unseen revision', async () => {
    const one = await a.registry.put('server', 'files', { url: 'u1' }, 0);
    expect(one).toBeTypeOf('number');
    expect(await b.registry.put('server', 'files', { url: 'u2' }, 0)).toBeUndefined();
    expect(await b.registry.put('server', 'other', {}, 7)).toBeUndefined();
    const two = await b.registry.put('server', 'files', { url: 'u2' }, one);
    expect(two).toBeGreaterThan(one!);
    expect(await a.registry.put('server', 'files', { url: 'u3' }, one)).toBeUndefined();
    const three = await a.registry.put('server', 'files', { url: 'u3' });
    await a.registry.put('agent', 'Zed', {});
    await a.registry.put('agent', 'alpha', {});
    expect((await b.registry.list()).map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      'agent Zed',
      'agent alpha',
      'server files',
    ]);
    expect(await b.registry.list('server')).toMatchObject([{ name: 'files', value: { url: 'u3' }, rev: three }]);
    expect(await b.registry.remove('server', 'files', two)).toBe(false);
    expect(await b.registry.remove('server', 'files', three)).toBe(true);
    expect(await a.registry.get('server', 'files')).toBeUndefined();
  });

  test('a change of the registry reaches every replica', async () => {
    const seen: string[][] = [];
    const off = a.registry.watch(await a.registry.version(), () => {
      void a.registry.list().then((list) => seen.push(list.map(({ name }) => name)));
    });
    await b.registry.put('server', 'one', {});
    await expect.poll(() => seen.at(-1), { timeout: 5_000 }).toEqual(['one']);
    await b.registry.remove('server', 'one');
    await expect.poll(() => seen.at(-1), { timeout: 5_000 }).toEqual([]);
    off();
  });

  test('one worker delivers a message; it is due again after a failure and after the death of the worker', async () => {
    const id = newId();
    await a.outbox.put({ id, lane: 't1', target: 'http://r', value: { n: 1 } });
    await a.outbox.put({ id, lane: 't1', target: 'http://r', value: { n: 1 } });
    const now = wallMs();
    const [mine, theirs] = await Promise.all([a.outbox.claim(10, now), b.outbox.claim(10, now)]);
    const [first] = [...mine, ...theirs];
    expect(mine.length + theirs.length).toBe(1);
    expect(first).toMatchObject({ id, lane: 't1', target: 'http://r', value: { n: 1 }, attempt: 1 });
    expect(await b.outbox.claim(10, now + 29_000)).toEqual([]);

    // The worker died, so the message is due at the end of its lease.
    const [second] = await b.outbox.claim(10, now + 31_000);
    expect(second).toMatchObject({ id, attempt: 2 });
    expect(await a.outbox.fail(first!, { error: 'late', now: now + 32_000 })).toBe('lost');
    expect(await b.outbox.fail(second!, { error: '500', now: now + 32_000, retryAfterMs: 60_000 })).toBe('retry');
    expect(await a.outbox.claim(10, now + 91_000)).toEqual([]);
    const [third] = await a.outbox.claim(10, now + 92_000);
    expect(third).toMatchObject({ id, attempt: 3 });
    expect(await a.outbox.ack(id)).toBe(true);
    expect(await a.outbox.depth()).toEqual({ waiting: 0, dead: 0, oldestAt: null });
  });

  test('a message is dead after 72 hours, is listed, and can be replayed', async () => {
    const id = newId();
    await a.outbox.put({ id, lane: 't', target: 'r', value: 1 });
    const end = wallMs() + GIVE_UP_MS + 1_000;
    const [late] = await a.outbox.claim(1, end);
    expect(await a.outbox.fail(late!, { error: 'still 500', now: end })).toBe('dead');
    expect(await b.outbox.claim(1, end + GIVE_UP_MS)).toEqual([]);
    expect(await b.outbox.dead()).toMatchObject([{ id, attempts: 1, error: 'still 500' }]);
    expect(await b.outbox.replay(id, end)).toBe(true);
    const [again] = await a.outbox.claim(1, end);
    expect(again).toMatchObject({ id, attempt: 1 });
    expect(await a.outbox.giveUp(id, '410')).toBe(true);
    expect(await a.outbox.depth()).toMatchObject({ waiting: 0, dead: 1 });
  });

  test('one lane is delivered in order, one message at a time, and does not delay other lanes', async () => {
    const ids = Array.from({ length: 4 }, () => newId());
    for (const [i, id] of ids.entries())
      await a.outbox.put({ id, lane: i < 3 ? 'slow' : 'quick', target: 'r', value: i });
    const now = wallMs();
    const first = await a.outbox.claim(10, now);
    expect(first.map(({ id }) => id)).toEqual([ids[0], ids[3]]);
    expect(await b.outbox.claim(10, now)).toEqual([]);
    await a.outbox.fail(first[0]!, { error: '500', now });
    expect((await b.outbox.claim(10, now + 6_000)).map(({ id }) => id)).toEqual([ids[0]]);
    await b.outbox.ack(ids[0]!);
    expect((await b.outbox.claim(10, now + 6_000)).map(({ id }) => id)).toEqual([ids[1]]);
  });

  test('many workers share a queue without claiming a message twice', async () => {
    const db = a.db;
    await Promise.all(Array.from({ length: 100 }, (_, i) => a.outbox.put({ lane: `l${i}`, target: 'r', value: i })));
    const taken: number[] = [];
    const worker = async (state: State): Promise<void> => {
      const outbox = new Outbox<number>(state.db);
      for (;;) {
        const claimed = await outbox.claim(7);
        // A worker that finds all due messages locked by other workers has not finished yet.
        if (claimed.length === 0 && (await outbox.depth()).waiting === 0) return;
        for (const { id, value } of claimed) {
          taken.push(value);
          await outbox.ack(id);
        }
      }
    };
    await Promise.all([worker(a), worker(b), worker(a), worker(b)]);
    expect(taken.sort((x, y) => x - y)).toEqual(Array.from({ length: 100 }, (_, i) => i));
    expect(db.dialect).toBe(engine === 'sqlite' ? 'sqlite' : 'postgres');
  });

  test('a task and its messages are written together or not at all', async () => {
    const id = newId();
    const send = (value: string) => [{ lane: id, target: 'r', value }];
    expect(await a.tasks.create({ id, principal: 'alice', value: 'working' }, send('working'))).toBe(true);
    expect(await b.tasks.create({ id, principal: 'alice', value: 'again' }, send('again'))).toBe(false);
    const both = await Promise.all([
      a.tasks.update({ id, rev: 1, value: 'done' }, send('done')),
      b.tasks.update({ id, rev: 1, value: 'failed' }, send('failed')),
    ]);
    expect(both.filter(Boolean)).toEqual([2]);
    const winner = (await a.tasks.get(id))?.value;
    const queued = await a.db.q<{ json: string }>('SELECT json FROM outbox ORDER BY id');
    expect(queued.map(({ json }) => JSON.parse(json))).toEqual(['working', winner]);
  });

  test('verify finds every change of the audit trail', async () => {
    const [one, two] = [new Audit(a.db, a.keyring), new Audit(b.db, b.keyring)];
    await Promise.all(Array.from({ length: 30 }, (_, i) => one.write({ i })));
    await Promise.all(Array.from({ length: 5 }, (_, i) => two.write({ i })));
    expect(await b.audit.verify()).toMatchObject({ ok: true, records: 35, chains: 2 });
    expect(await b.audit.list({ limit: 100 })).toHaveLength(35);
    const [victim] = await a.db.q<{ chain: string; json: string }>('SELECT chain, json FROM audit WHERE seq = 3');
    const edit = (json: string) =>
      a.db.q('UPDATE audit SET json = $1 WHERE seq = 3 AND chain = $2', [json, victim!.chain]);
    await edit('{"i":99}');
    expect(await a.audit.verify()).toMatchObject({ ok: false, seq: 3, reason: 'the record was changed' });
    await edit(victim!.json);
    expect(await a.audit.verify()).toMatchObject({ ok: true });
    await a.db.q('DELETE FROM audit WHERE seq = 3 AND chain = $1', [victim!.chain]);
    expect(await a.audit.verify()).toMatchObject({ ok: false, seq: 4 });
  });

  test('verify finds the removal of a whole chain', async () => {
    await new Audit(a.db, a.keyring).write('first');
    await new Audit(b.db, b.keyring).write('second');
    await a.db.q('DELETE FROM audit WHERE json = $1', ['"first"']);
    expect(await a.audit.verify()).toMatchObject({
      ok: false,
      reason: 'the record that this chain starts from is missing',
    });
  });

  test('health reports the database and the bus', async () => {
    expect(await a.health()).toMatchObject({ ok: true, db: { ok: true }, bus: { ok: true } });
  });

  describe.each([1, 2, 3, 4])('with random faults (seed %i)', (seed) => {
    const faulty = (db: Db, n: number): Db => (seed % 2 ? db : new FaultyDb(db, { seed: seed * 10 + n, delayMs: 5 }));
    const insist = async <T>(work: () => Promise<T>): Promise<T> => {
      for (;;) {
        try {
          return await work();
        } catch (error) {
          if (!isStateError(error) || !error.retryable) throw error;
          await sleep(1);
        }
      }
    };

    test('acknowledged writes are present, and every message is delivered at least once, in order', async () => {
      const random = seeded(seed);
      const tasks = [a, b].map((state, i) => new Tasks<number>(faulty(state.db, i)));
      const outboxes = [a, b].map(
        (state, i) => new Outbox<number>(faulty(state.db, i + 2), { leaseMs: 20, random: () => 0 }),
      );
      const acked = new Map<string, number>();
      const write = async (n: number): Promise<void> => {
        const id = newId();
        const store = tasks[n % 2]!;
        await store.create({ id, principal: 'p', value: 0 }, [{ lane: id, target: 'r', value: 0 }]).catch(() => {});
        for (let step = 1; step <= 5; step++) {
          const seen = await insist(() => store.get(id));
          if (!seen) return; // Ignored: the creation has failed with an error.
          const message = { lane: id, target: 'r', value: seen.value + 1 };
          const rev = await store
            .update({ id, rev: seen.rev, value: seen.value + 1 }, [message])
            .catch(() => undefined);
          if (rev !== undefined) acked.set(id, seen.value + 1);
        }
      };
      const delivered = new Map<string, number[]>();
      let writing = true;
      const deliver = async (outbox: Outbox<number>): Promise<void> => {
        for (;;) {
          const claimed = await outbox.claim(10).catch(() => []);
          if (claimed.length === 0 && !writing && (await insist(() => outbox.depth())).waiting === 0) return;
          for (const message of claimed) {
            delivered.set(message.lane, [...(delivered.get(message.lane) ?? []), message.value]);
            const settle = random() < 0.3 ? outbox.fail(message, { error: 'x' }) : outbox.ack(message.id);
            await settle.catch(() => {});
          }
          await sleep(1);
        }
      };
      const delivering = Promise.all(outboxes.map(deliver));
      await Promise.all(Array.from({ length: 12 }, (_, n) => write(n)));
      writing = false;
      await delivering;
      for (const [id, value] of acked) expect((await a.tasks.get(id))!.value).toBeGreaterThanOrEqual(value);
      for (const task of await new Tasks<number>(a.db).listByPrincipal('p')) {
        const values = delivered.get(task.id)!;
        // A message may be delivered again later. Its first delivery must not be missing or out of order.
        const firstSeen = values.filter((value, i) => values.indexOf(value) === i);
        expect(firstSeen).toEqual(Array.from({ length: task.value + 1 }, (_, i) => i));
      }
    }, 30_000);

    test('the audit trail has every record once and in order', async () => {
      const audit = new Audit(faulty(a.db, 9), a.keyring);
      await Promise.all(Array.from({ length: 40 }, (_, i) => audit.write(i)));
      await audit.close();
      expect((await a.audit.list({ limit: 1_000 })).map(({ value }) => value)).toEqual(
        Array.from({ length: 40 }, (_, i) => i),
      );
      expect(await a.audit.verify()).toMatchObject({ ok: true, records: 40, chains: 1 });
    }, 30_000);
  });
});
