/** Case 28: the database is down, frozen, read-only and out of disk. Only durable writes are acknowledged. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openState, type State } from '../../src/state/index.js';
import { PostgresDb } from '../../src/state/postgres/postgres.js';
import { Audit } from '../../src/state/stores/audit.js';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js';
import { type PostgresService, startPostgres } from '../support/services.js';
import { startChild } from './child.js';
import { sleep } from './rounds.js';

const keys = [{ id: 'k', key: Buffer.alloc(32, 7).toString('base64') }];
const LOG = { maxLen: 1_000, ttlMs: 60_000 };
let data: string;

beforeEach(() => {
  data = mkdtempSync(join(tmpdir(), 'parley-db-faults-'));
});
afterEach(() => rmSync(data, { recursive: true, force: true }));

describe('PostgreSQL', () => {
  let postgres: PostgresService;
  let proxy: FaultProxy;
  let url: string;
  let state: State;

  beforeAll(async () => {
    postgres = await startPostgres();
  }, 120_000);
  beforeEach(async () => {
    proxy = await startFaultProxy({ port: postgres.port });
    url = (await postgres.createDatabase()).replace(`:${postgres.port}/`, `:${proxy.port}/`);
    state = await openState({ data, db: url, keys, pollMs: 300 });
  }, 30_000);
  afterEach(async () => {
    await state.close();
    await proxy.close();
  });
  afterAll(() => postgres.stop());

  const works = (): Promise<boolean> =>
    state.db.q('SELECT 1 AS one').then(
      () => true,
      () => false,
    );

  const operations = (s: State): [string, Promise<unknown>][] => [
    ['q', s.db.q('SELECT 1 AS one')],
    ['tx', s.db.tx([['INSERT INTO meta (key, value) VALUES ($1, $2)', ['t', 1]]])],
    ['create', s.tasks.create({ id: 'x', principal: 'p', value: 1 })],
    ['append', s.bus.append('s', 'x', LOG)],
    ['read', s.bus.read('s', '0', 1)],
    ['lease', s.bus.lease('l', 'o', 1_000)],
    ['claim', s.outbox.claim(1)],
  ];

  async function allFailWithin(s: State, ms: number): Promise<void> {
    const began = performance.now();
    const named = operations(s);
    const results = await Promise.allSettled(named.map(([, promise]) => promise));
    expect(performance.now() - began).toBeLessThan(ms);
    for (const [i, result] of results.entries()) {
      expect(result, named[i]![0]).toMatchObject({ status: 'rejected', reason: { code: 'unavailable' } });
    }
  }

  test('frozen: every operation ends in time, the event loop stays free, and the state recovers', async () => {
    await state.tasks.create({ id: 'before', principal: 'p', value: 1 });
    const delay = monitorEventLoopDelay({ resolution: 10 });
    delay.enable();
    postgres.freeze();
    await allFailWithin(state, 10_000);
    postgres.thaw();
    delay.disable();
    expect(delay.max / 1e6).toBeLessThan(500);
    await expect.poll(works, { timeout: 5_000 }).toBe(true);
    expect(await state.tasks.get('before')).toMatchObject({ value: 1 });
  }, 40_000);

  test('frozen, with the audit trail: records wait in memory and are all stored afterwards', async () => {
    const db = await PostgresDb.open(url, { queryTimeoutMs: 300, connectTimeoutMs: 300 });
    const audit = new Audit(db, state.keyring, { spool: 5 });
    await audit.write(0);
    postgres.freeze();
    const writes = [1, 2, 3, 4, 5].map((n) => audit.write(n));
    await expect(audit.write('one too many')).rejects.toMatchObject({ code: 'overloaded' });
    await sleep(1_000);
    expect(audit.waiting).toBe(5);
    postgres.thaw();
    await Promise.all(writes);
    expect((await audit.list()).map(({ value }) => value)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(await audit.verify()).toMatchObject({ ok: true, records: 6, chains: 1 });
    await audit.close();
    await db.close();
  }, 30_000);

  test('down: operations are refused at once, and listeners work again afterwards', async () => {
    let woken = 0;
    const off = state.bus.wake('s', () => {
      woken += 1;
    });
    await postgres.kill();
    await allFailWithin(state, 5_000);
    await postgres.restart();
    await expect.poll(works, { timeout: 10_000 }).toBe(true);
    const other = await openState({ data, db: url, keys });
    await sleep(700);
    woken = 0;
    await other.bus.append('s', 'x', LOG);
    await expect.poll(() => woken, { timeout: 5_000 }).toBeGreaterThan(0);
    off();
    await other.close();
  }, 40_000);

  test('cut in mid-transaction: no partial write, and an unknown outcome is reported as unknown', async () => {
    const pair = (id: string): Promise<unknown> =>
      state.tasks.create({ id, principal: 'p', value: 1 }, [{ lane: id, target: 'r', value: 1 }]);
    await pair('warm');
    let unknown = 0;
    for (let i = 0; i < 30; i++) {
      proxy.set({ cutAfterBytes: i * 25, cutBy: i % 2 ? 'rst' : 'fin' });
      await Promise.all(
        [1, 2, 3].map((n) =>
          pair(`cut-${i}-${n}`).catch((error: { code: string; outcome: string }) => {
            expect(error.code).toBe('unavailable');
            if (error.outcome === 'unknown') unknown += 1;
          }),
        ),
      );
    }
    expect(unknown).toBeGreaterThan(0);
    proxy.set({});
    proxy.cutAll();
    await expect.poll(works, { timeout: 5_000 }).toBe(true);
    const tasks = await state.db.q('SELECT id FROM tasks ORDER BY id');
    expect(await state.db.q('SELECT lane AS id FROM outbox ORDER BY lane')).toEqual(tasks);
  }, 40_000);

  test('read-only: writes are refused, reads work', async () => {
    await state.tasks.create({ id: 'before', principal: 'p', value: 1 });
    const admin = await PostgresDb.open(url);
    await admin.q('ALTER SYSTEM SET default_transaction_read_only = on');
    await admin.q('SELECT pg_reload_conf()');
    const write = (): Promise<string> =>
      state.tasks.create({ id: `w${Math.random()}`, principal: 'p', value: 1 }).then(String, (e) => e.code);
    await expect.poll(write, { timeout: 5_000 }).toBe('unavailable');
    expect(await state.tasks.get('before')).toMatchObject({ value: 1 });
    await admin.q('ALTER SYSTEM RESET default_transaction_read_only').catch(async () => {
      await admin.tx([['SET TRANSACTION READ WRITE', []]]);
    });
    await admin.q('SELECT pg_reload_conf()');
    await admin.close();
    await expect.poll(write, { timeout: 5_000 }).toBe('true');
  }, 30_000);

  test('out of disk: writes are refused, acknowledged rows stay', async () => {
    // No file may exceed 17 MB: the WAL segments of 16 MB fit, the data of the table soon does not.
    const limit = (bytes: string): void => {
      // Run as the user of the server, which may change its soft limit.
      execFileSync('prlimit', ['--pid', String(postgres.pid), `--fsize=${bytes}:unlimited`], { ...postgres.user });
    };
    limit(String(17 * 1024 * 1024));
    const small = await openState({ data, db: url, keys });
    const acked: string[] = [];
    let refused: unknown;
    for (let i = 0; i < 60 && refused === undefined; i++) {
      const id = `big-${i}`;
      await small.tasks
        .create({ id, principal: 'p', value: randomBytes(400_000).toString('base64') })
        .then(() => acked.push(id))
        .catch((error) => {
          refused = error;
        });
    }
    expect(refused).toMatchObject({ code: 'unavailable', outcome: 'not_executed' });
    expect(acked.length).toBeGreaterThan(5);
    limit('unlimited');
    await small.close();
    const after = await openState({ data, db: url, keys });
    for (const id of acked) expect(await after.tasks.get(id)).toBeDefined();
    expect(await after.tasks.create({ id: 'later', principal: 'p', value: 1 })).toBe(true);
    await after.close();
  }, 60_000);
});

describe('SQLite', () => {
  test('out of disk: only stored rows are acknowledged, and writes work again when there is space', async () => {
    // A soft limit on the file size, with its signal ignored, acts like a full disk.
    const wrap = ['bash', '-c', 'trap "" XFSZ; ulimit -S -f 3000; exec "$@"', 'limited'];
    const child = startChild({ data }, ['write', '20'], wrap);
    try {
      await child.said(/^failed/, 60_000);
      const first = child.lines.filter((line) => line.startsWith('failed'));
      expect(first.every((line) => line === 'failed not_executed')).toBe(true);
      execFileSync('prlimit', ['--pid', String(child.process.pid), '--fsize=unlimited:unlimited']);
      const before = child.lines.filter((line) => line.startsWith('ack')).length;
      await expect
        .poll(() => child.lines.filter((line) => line.startsWith('ack')).length, { timeout: 20_000 })
        .toBeGreaterThan(before);
    } finally {
      await child.kill();
    }
    const state = await openState({ data });
    const there = new Set((await state.db.q<{ id: string }>('SELECT id FROM tasks')).map(({ id }) => id));
    const acked = child.lines.filter((line) => line.startsWith('ack')).map((line) => line.slice(4));
    expect(acked.filter((id) => !there.has(id))).toEqual([]);
    expect(await state.db.q('SELECT count(*) AS n FROM outbox')).toEqual([{ n: there.size }]);
    expect(await state.db.q('PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    await state.close();
  }, 90_000);
});
