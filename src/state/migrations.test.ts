import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type PostgresService, startPostgres } from '../../test/support/services.js';
import type { Db } from './db.js';
import { openState } from './index.js';
import { migrate, type Step, steps } from './migrations.js';
import { openDb } from './open-db.js';
import { PostgresDb } from './postgres/postgres.js';
import { SqliteDb } from './sqlite/sqlite-db.js';

const next: Step[] = [
  ...steps,
  {
    v: steps.at(-1)!.v + 1,
    statements: ['ALTER TABLE sessions ADD COLUMN added TEXT', 'CREATE TABLE extra (id TEXT)'],
  },
];
const newest = steps.at(-1)!.v;

test('the numbers of the steps are consecutive: a step below the version of a database is never applied', () => {
  expect(steps.map(({ v }) => v)).toEqual(steps.map((_, index) => index + 1));
});

describe.each(['sqlite', 'postgres'] as const)('migrations on %s', (dialect) => {
  let postgres: PostgresService | undefined;
  let folder: string;
  let place: string;
  const opened: Db[] = [];

  beforeAll(async () => {
    if (dialect === 'postgres') postgres = await startPostgres({ fsync: false });
  }, 120_000);
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'parley-migrate-'));
    place = postgres ? await postgres.createDatabase() : join(folder, 'parley.db');
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((db) => db.close()));
    rmSync(folder, { recursive: true, force: true });
  });
  afterAll(() => postgres?.stop());

  const open = async (): Promise<Db> => {
    const db = dialect === 'postgres' ? await PostgresDb.open(place, { max: 2 }) : await SqliteDb.open(place);
    opened.push(db);
    return db;
  };

  test('any number of replicas can start at the same time on an empty database', async () => {
    const replicas = await Promise.all(Array.from({ length: 6 }, open));
    expect(await Promise.all(replicas.map((db) => migrate(db)))).toEqual(replicas.map(() => newest));
    expect(await replicas[0]!.q('SELECT v FROM schema_version ORDER BY v')).toEqual(steps.map(({ v }) => ({ v })));
  });

  test('any number of replicas can migrate at the same time, and rows are kept', async () => {
    const replicas = await Promise.all(Array.from({ length: 4 }, open));
    await migrate(replicas[0]!);
    await replicas[0]!.q('INSERT INTO meta (key, value) VALUES ($1, $2)', ['kept', 1]);
    const moved = await Promise.all(replicas.map((db) => migrate(db, { steps: next })));
    expect(moved).toEqual(replicas.map(() => newest + 1));
    expect(await replicas[1]!.q('SELECT key FROM meta')).toEqual([{ key: 'kept' }]);
    expect(await replicas[2]!.q('SELECT added FROM sessions')).toEqual([]);
  });

  test('a database newer than the code is refused', async () => {
    const db = await open();
    await migrate(db, { steps: next });
    await expect(migrate(db)).rejects.toMatchObject({
      code: 'newer',
      message: expect.stringContaining(`${newest + 1}`),
    });
  });

  test('a failed step leaves no changes, and can be repeated', async () => {
    const db = await open();
    const bad = [
      ...steps,
      { v: newest + 1, statements: ['CREATE TABLE half (id TEXT)', 'CREATE TABEL oops (id TEXT)'] },
    ];
    await expect(migrate(db, { steps: bad })).rejects.toMatchObject({ code: 'internal' });
    await expect(db.q('SELECT id FROM half')).rejects.toThrow();
    expect(await migrate(db, { steps: next })).toBe(newest + 1);
  });

  if (dialect === 'postgres')
    test('a step may exceed the timeout of other statements, with two replicas that start together', async () => {
      opened.push(await openDb({ data: folder, db: place }));
      // Other statements time out after 5 s.
      const slow = { v: newest + 1, statements: ['CREATE TABLE slow (id TEXT)', 'SELECT pg_sleep(6)'] };
      const replicas = await Promise.all(
        [1, 2].map(() => openDb({ data: folder, db: place, steps: [...steps, slow] })),
      );
      opened.push(...replicas);
      for (const replica of replicas) expect(await replica.q('SELECT id FROM slow')).toEqual([]);
      await expect(replicas[0]!.q('SELECT pg_sleep(6)')).rejects.toMatchObject({ code: 'unavailable' });
    }, 120_000);

  test('a backup is made before the first step on a used database, and only then', async () => {
    const db = await open();
    const copies: number[] = [];
    const backup = async (from: number): Promise<void> => {
      copies.push(from);
    };
    await migrate(db, { backup });
    await migrate(db, { backup });
    expect(copies).toEqual([]);
    await migrate(db, { backup, steps: [...next, { v: newest + 2, statements: [] }] });
    expect(copies).toEqual([newest]);
  });
});

describe('the backup of an embedded database', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'parley-copy-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('is a complete database with mode 0600', async () => {
    const db = await SqliteDb.open(join(folder, 'parley.db'));
    await migrate(db);
    await db.q('INSERT INTO meta (key, value) VALUES ($1, $2)', ['kept', 1]);
    const copy = join(folder, 'copy.db');
    await db.backup(copy);
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    await expect(db.backup(copy)).rejects.toThrow();
    await db.close();
    const restored = await SqliteDb.open(copy);
    expect(await restored.q('SELECT key FROM meta')).toEqual([{ key: 'kept' }]);
    await restored.close();
  });

  test('has its own name for each of several processes that open the database in the same millisecond', async () => {
    const old = await openDb({ data: folder, steps: steps.slice(0, 3) });
    await old.close();
    vi.useFakeTimers({ toFake: ['Date'] });
    try {
      const opened = await Promise.all(Array.from({ length: 4 }, () => openDb({ data: folder })));
      for (const db of opened) await db.close();
    } finally {
      vi.useRealTimers();
    }
    expect(readdirSync(folder).filter((name) => name.endsWith('.bak'))).not.toEqual([]);
  });

  test('is not made at every start', async () => {
    for (let i = 0; i < 2; i++) await (await openState({ data: folder })).close();
    expect(readdirSync(folder).filter((name) => name.endsWith('.bak'))).toEqual([]);
  });
});
