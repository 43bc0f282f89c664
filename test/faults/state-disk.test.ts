/** Case 28: a lock that another process holds for 10 s, and a full disk. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openState, type State } from '../../src/state/index.js';
import { loadDriver } from '../../src/state/sqlite/driver.js';
import { type PostgresService, startPostgres } from '../support/services.js';
import { startChild } from './child.js';
import { sleep } from './rounds.js';

const keys = [{ id: 'k', key: Buffer.alloc(32, 7).toString('base64') }];
const HELD = 10_000;
let folder: string;
let state: State | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parley-disk-'));
});
afterEach(async () => {
  await state?.close();
  state = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** Writes while the lock is held: nothing is acknowledged, and the event loop stays free. */
async function whileLocked(locked: State, acked: string[]): Promise<{ refused: string[]; worst: number }> {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const refused: string[] = [];
  const end = performance.now() + HELD;
  const writer = async (n: number): Promise<void> => {
    for (let i = 0; performance.now() < end - 500; i++) {
      const id = `w${n}.${i}`;
      await locked.tasks.create({ id, principal: 'p', value: 1 }).then(
        () => acked.push(id),
        (error: { code: string; outcome: string }) => refused.push(`${error.code} ${error.outcome}`),
      );
    }
  };
  await Promise.all([1, 2, 3, 4].map(writer));
  delay.disable();
  await sleep(Math.max(0, end - performance.now()));
  return { refused, worst: delay.max / 1e6 };
}

/** The acknowledged ids that are missing in the database. */
async function lost(of: State, acked: readonly string[]): Promise<string[]> {
  const there = new Set((await of.db.q<{ id: string }>('SELECT id FROM tasks')).map(({ id }) => id));
  return acked.filter((id) => !there.has(id));
}

describe('a lock held for 10 s', () => {
  test('SQLite: writes are refused in time, reads work, and the state recovers', async () => {
    state = await openState({ data: folder });
    await state.tasks.create({ id: 'before', principal: 'p', value: 1 });
    const other = new (await loadDriver()).DatabaseSync(join(folder, 'parley.db'));
    other.exec('BEGIN IMMEDIATE');
    const reading = (async () => {
      for (let i = 0; i < 20; i++) {
        expect(await state?.tasks.get('before')).toMatchObject({ value: 1 });
        await sleep(400);
      }
    })();
    const acked: string[] = [];
    const { refused, worst } = await whileLocked(state, acked);
    other.exec('ROLLBACK');
    other.close();
    await reading;
    console.log(`SQLite locked: ${refused.length} writes refused, longest pause of the loop ${Math.round(worst)} ms`);
    expect(refused.length).toBeGreaterThan(0);
    for (const how of refused) expect(how).toBe('unavailable not_executed');
    expect(worst).toBeLessThan(500);
    expect(await state.tasks.create({ id: 'after', principal: 'p', value: 1 })).toBe(true);
    expect(await lost(state, [...acked, 'before', 'after'])).toEqual([]);
  }, 60_000);

  test('PostgreSQL: writes are refused in time, other tables work, and the state recovers', async () => {
    const postgres = await startPostgres();
    try {
      const db = await postgres.createDatabase();
      state = await openState({ data: folder, db, keys });
      await state.tasks.create({ id: 'before', principal: 'p', value: 1 });
      const admin = new pg.Client({ connectionString: db });
      await admin.connect();
      await admin.query('BEGIN');
      await admin.query('LOCK TABLE tasks IN ACCESS EXCLUSIVE MODE');
      const besides = (async () => {
        for (let i = 0; i < 20; i++) {
          expect(await state?.sessions.create({ id: `s${i}`, principal: 'p', value: i })).toBe(true);
          await sleep(400);
        }
      })();
      const acked: string[] = [];
      const { refused, worst } = await whileLocked(state, acked);
      await admin.query('COMMIT');
      await admin.end();
      await besides;
      console.log(`PostgreSQL locked: ${refused.length} refused, longest pause of the loop ${Math.round(worst)} ms`);
      expect(refused.length).toBeGreaterThan(0);
      for (const how of refused) expect(how).toMatch(/^unavailable /);
      expect(worst).toBeLessThan(500);
      expect(await state.tasks.create({ id: 'after', principal: 'p', value: 1 })).toBe(true);
      expect(await lost(state, [...acked, 'before', 'after'])).toEqual([]);
    } finally {
      await state?.close();
      state = undefined;
      await postgres.stop();
    }
  }, 60_000);
});

/** Mounts a small file system; returns false if the tests may not mount. */
function mount(at: string, size: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=1777`, 'tmpfs', at], { stdio: 'pipe' });
    return true;
  } catch {
    return false;
  }
}
const mountable = ((): boolean => {
  const probe = mkdtempSync(join(tmpdir(), 'parley-mount-'));
  const could = mount(probe, '1m');
  if (could) execFileSync('umount', [probe]);
  rmSync(probe, { recursive: true, force: true });
  return could;
})();

// Without the right to mount, `state-database.test.ts` tests the same with a limit on file sizes.
if (mountable) {
  describe('a disk that is full', () => {
    let disk: string;
    const ballast = (): string => join(disk, 'ballast');

    beforeAll(() => {
      disk = mkdtempSync(join(tmpdir(), 'parley-small-'));
    });
    afterAll(() => rmSync(disk, { recursive: true, force: true }));

    test('SQLite: ENOSPC fails the write, acknowledged rows stay, and writes work again when there is space', async () => {
      expect(mount(disk, '12m')).toBe(true);
      try {
        writeFileSync(ballast(), Buffer.alloc(4 * 1024 * 1024));
        const child = startChild({ data: disk }, ['write', '20']);
        try {
          await child.said(/^failed/, 60_000);
          const failures = child.lines.filter((line) => line.startsWith('failed'));
          expect(failures.every((line) => line === 'failed not_executed')).toBe(true);
          rmSync(ballast());
          const before = child.lines.filter((line) => line.startsWith('ack')).length;
          await expect
            .poll(() => child.lines.filter((line) => line.startsWith('ack')).length, { timeout: 20_000 })
            .toBeGreaterThan(before);
        } finally {
          await child.kill();
        }
        execFileSync('mount', ['-o', 'remount,size=200m', disk]);
        const after = await openState({ data: disk });
        const acked = child.lines.filter((line) => line.startsWith('ack')).map((line) => line.slice(4));
        expect(await lost(after, acked)).toEqual([]);
        expect(await after.db.q('PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
        console.log(`SQLite on a full disk: ${acked.length} acknowledged, 0 lost`);
        await after.close();
      } finally {
        execFileSync('umount', [disk]);
      }
    }, 120_000);

    test('PostgreSQL: ENOSPC fails the write, acknowledged rows stay, and writes work again when there is space', async () => {
      expect(mount(disk, '200m')).toBe(true);
      const before = process.env['TMPDIR'];
      let postgres: PostgresService | undefined;
      try {
        process.env['TMPDIR'] = disk;
        postgres = await startPostgres({ settings: { min_wal_size: '32MB', max_wal_size: '32MB' } });
        process.env['TMPDIR'] = before ?? '/tmp';
        state = await openState({ data: folder, db: await postgres.createDatabase(), keys });
        const free = Number(
          execFileSync('df', ['--output=avail', '-B1', disk], { encoding: 'utf8' }).trim().split('\n').at(-1),
        );
        writeFileSync(ballast(), Buffer.alloc(Math.max(0, free - 6 * 1024 * 1024)));
        const acked: string[] = [];
        const value = randomBytes(300_000).toString('base64');
        let refused: { code: string } | undefined;
        for (let i = 0; i < 200 && !refused; i++) {
          const id = `big ${i}`;
          await state.tasks.create({ id, principal: 'p', value }).then(
            () => acked.push(id),
            (error: { code: string }) => {
              refused = error;
            },
          );
        }
        expect(refused).toMatchObject({ code: 'unavailable' });
        rmSync(ballast());
        const later = async (): Promise<boolean> =>
          (await state?.tasks.create({ id: 'later', principal: 'p', value: 1 }).catch(() => false)) ?? false;
        // A server that cannot write its WAL stops itself; the test restarts it, as a service manager would.
        let restarted = 0;
        for (let tries = 0; tries < 40 && !(await later()); tries++) {
          await sleep(500);
          if (tries % 10 === 9) {
            await postgres.kill();
            await postgres.restart();
            restarted++;
          }
        }
        expect(await state.tasks.get('later')).toBeDefined();
        expect(await lost(state, [...acked, 'later'])).toEqual([]);
        console.log(`PostgreSQL on a full disk: ${acked.length} acknowledged, 0 lost, restarted ${restarted} times`);
      } finally {
        process.env['TMPDIR'] = before ?? '/tmp';
        await state?.close();
        state = undefined;
        await postgres?.stop();
        execFileSync('umount', [disk]);
      }
    }, 120_000);
  });
}
