import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { SqliteOptions } from './sqlite-db.js';
import { SqliteDb } from './sqlite-db.js';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
let folder: string;
let path: string;
const opened: SqliteDb[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parley-sqlite-'));
  path = join(folder, 'data', 'parley.db');
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((db) => db.close()));
  rmSync(folder, { recursive: true, force: true });
});

async function open(options?: SqliteOptions): Promise<SqliteDb> {
  const db = await SqliteDb.open(path, options);
  opened.push(db);
  return db;
}

async function table(): Promise<SqliteDb> {
  const db = await open();
  await db.q('CREATE TABLE t (k TEXT PRIMARY KEY, v BIGINT)');
  return db;
}

test('commits are synced to disk, in WAL mode, with foreign keys enabled', async () => {
  const db = await open();
  expect(await db.q('PRAGMA journal_mode')).toEqual([{ journal_mode: 'wal' }]);
  expect(await db.q('PRAGMA synchronous')).toEqual([{ synchronous: 2 }]);
  expect(await db.q('PRAGMA foreign_keys')).toEqual([{ foreign_keys: 1 }]);
});

test('S29: folder and files are accessible to their owner only, even if the file had wider permissions', async () => {
  const db = await table();
  await db.q('INSERT INTO t VALUES ($1, $2)', ['a', 1]);
  expect(statSync(join(folder, 'data')).mode & 0o777).toBe(0o700);
  for (const suffix of ['', '-wal', '-shm']) expect(statSync(path + suffix).mode & 0o777).toBe(0o600);
  await db.close();
  chmodSync(path, 0o644);
  await open();
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('a failure of one caller in a shared commit does not affect the others', async () => {
  const db = await table();
  const results = await Promise.allSettled([
    db.q('INSERT INTO t VALUES ($1, $2)', ['a', 1]),
    db.q('INSERT INTO t VALUES ($1, $2)', ['a', 2]),
    db.q('INSERT INTO nowhere VALUES (1)'),
    db.tx([
      ['INSERT INTO t VALUES ($1, $2)', ['b', 1]],
      ['INSERT INTO t VALUES ($1, $2)', ['a', 3]],
    ]),
    db.q('INSERT INTO t VALUES ($1, $2) RETURNING v', ['c', 1]),
  ]);
  expect(results.map((r) => (r.status === 'rejected' ? r.reason.code : 'ok'))).toEqual([
    'ok',
    'constraint',
    'internal',
    'constraint',
    'ok',
  ]);
  expect(await db.q('SELECT k, v FROM t ORDER BY k')).toEqual([
    { k: 'a', v: 1 },
    { k: 'c', v: 1 },
  ]);
});

test('a failed statement leaves no stale snapshot of the data', async () => {
  const [one, two] = [await table(), await open()];
  await one.q('INSERT INTO t VALUES ($1, $2)', ['a', 1]);
  await expect(one.q('INSERT INTO t VALUES ($1, $2) RETURNING v', ['a', 2])).rejects.toThrow();
  await two.q('INSERT INTO t VALUES ($1, $2)', ['b', 1]);
  expect(await one.q('SELECT k FROM t ORDER BY k')).toEqual([{ k: 'a' }, { k: 'b' }]);
  await one.q('INSERT INTO t VALUES ($1, $2)', ['c', 1]);
});

test('statements work after garbage collection and after eviction from the cache', async () => {
  const db = await table();
  for (let i = 0; i < 700; i++) await db.q(`SELECT ${i} AS n`);
  (globalThis as { gc?: () => void }).gc?.();
  await db.q('INSERT INTO t VALUES ($1, $2)', ['a', 1]);
  expect(await db.q('SELECT 3 AS n')).toEqual([{ n: 3 }]);
});

test('two connections write concurrently without losing rows', async () => {
  const [one, two] = [await table(), await open()];
  const write = (db: SqliteDb, name: string) =>
    Promise.all(Array.from({ length: 300 }, (_, i) => db.q('INSERT INTO t VALUES ($1, $2)', [`${name}${i}`, i])));
  await Promise.all([write(one, 'a'), write(two, 'b')]);
  expect(await one.q('SELECT count(*) AS n FROM t')).toEqual([{ n: 600 }]);
});

test('while another process holds the lock, reads continue, the event loop is free and writes fail', async () => {
  const [one, two] = [await table(), await open({ busyTimeoutMs: 400 })];
  await one.q('INSERT INTO t VALUES ($1, $2)', ['a', 1]);
  const { DatabaseSync } = await (await import('./driver.js')).loadDriver();
  const holder = new DatabaseSync(path);
  holder.exec('BEGIN IMMEDIATE');
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const write = two.q('INSERT INTO t VALUES ($1, $2)', ['b', 1]);
  const failed = expect(write).rejects.toMatchObject({ code: 'unavailable', outcome: 'not_executed' });
  for (let i = 0; i < 5; i++) expect(await two.q('SELECT v FROM t WHERE k = $1', ['a'])).toEqual([{ v: 1 }]);
  await failed;
  delay.disable();
  expect(delay.max / 1e6).toBeLessThan(300);
  holder.exec('ROLLBACK');
  holder.close();
  await two.q('INSERT INTO t VALUES ($1, $2)', ['b', 2]);
  expect(await two.q('SELECT k, v FROM t ORDER BY k')).toEqual([
    { k: 'a', v: 1 },
    { k: 'b', v: 2 },
  ]);
});

test('operations beyond the limit are refused at once', async () => {
  const db = await open({ maxWaiting: 10 });
  const results = await Promise.allSettled(Array.from({ length: 15 }, () => db.q('SELECT 1 AS n')));
  const refused = results.filter((r) => r.status === 'rejected');
  expect(refused.map((r) => r.reason.code)).toEqual(Array(5).fill('overloaded'));
  expect(await db.q('SELECT 1 AS n')).toEqual([{ n: 1 }]);
});

test('operations accepted before close are written; later ones are refused', async () => {
  const db = await table();
  const writes = Array.from({ length: 50 }, (_, i) => db.q('INSERT INTO t VALUES ($1, $2)', [`k${i}`, i]));
  await db.close();
  await Promise.all(writes);
  await expect(db.q('SELECT 1')).rejects.toMatchObject({ code: 'closed' });
  expect(await (await open()).q('SELECT count(*) AS n FROM t')).toEqual([{ n: 50 }]);
});

test('waiting operations fail when the thread dies, and a new thread is started', async () => {
  const threads: Worker[] = [];
  const note = (worker: Worker): void => {
    threads.push(worker);
  };
  process.on('worker', note);
  const db = await table();
  process.removeListener('worker', note);
  await db.q('INSERT INTO t VALUES ($1, $2)', ['a', 1]);
  const waiting = db.q('INSERT INTO t VALUES ($1, $2)', ['b', 1]);
  void threads[0]!.terminate();
  await waiting.catch((error) => expect(error).toMatchObject({ code: 'unavailable', outcome: 'unknown' }));
  await expect.poll(() => db.q('SELECT v FROM t WHERE k = $1', ['a']).catch(() => [])).toEqual([{ v: 1 }]);
  await db.q('INSERT INTO t VALUES ($1, $2)', ['c', 1]);
});

test('a file that is not a database is refused with its path', async () => {
  await (await open()).close();
  for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
  writeFileSync(path, 'not a database '.repeat(100));
  await expect(SqliteDb.open(path)).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining(path),
  });
  await sleep(10);
});

test('sources start the thread from source, not from an old build in dist/', () => {
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  const copy = mkdtempSync(join(tmpdir(), 'parley-sources-'));
  try {
    cpSync(join(root, 'src/state'), join(copy, 'src/state'), { recursive: true });
    for (const name of ['timing.ts', 'thread-program.ts'])
      cpSync(join(root, 'src/core', name), join(copy, 'src/core', name));
    for (const name of ['ts.mjs', 'ts-worker.mjs'])
      cpSync(join(root, 'test/support', name), join(copy, 'test/support', name));
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    writeFileSync(join(copy, 'package.json'), '{ "type": "module" }');
    mkdirSync(join(copy, 'dist/state/sqlite'), { recursive: true });
    writeFileSync(join(copy, 'dist/state/sqlite/database-thread.js'), `throw new Error('an old build');`);
    const program = `
      const { SqliteDb } = await import(process.argv[1]);
      const db = await SqliteDb.open(process.argv[2]);
      console.log(JSON.stringify(await db.q('SELECT 1 AS one')));
      await db.close();`;
    const module = pathToFileURL(join(copy, 'src/state/sqlite/sqlite-db.ts')).href;
    const loader = pathToFileURL(join(copy, 'test/support/ts.mjs')).href;
    const args = ['--import', loader, '--input-type=module', '-e', program, module, join(copy, 'x.db')];
    const out = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(out.stderr).toBe('');
    expect(out.stdout.trim()).toBe('[{"one":1}]');
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}, 60_000);
