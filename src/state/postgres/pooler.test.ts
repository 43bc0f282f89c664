/** Uses a real PgBouncer in transaction mode in front of PostgreSQL. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type PgBouncer, type PostgresService, startPgBouncer, startPostgres } from '../../../test/support/services.js';
import { openState, START, type State, type StateOptions } from '../index.js';

const LOG = { maxLen: 1_000, ttlMs: 60_000 };
const IGNORED = { ignore_startup_parameters: 'statement_timeout,idle_in_transaction_session_timeout' };
const keys = [{ id: 'k', key: randomBytes(32).toString('base64') }];

let postgres: PostgresService;
let strict: PgBouncer;
let lenient: PgBouncer;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-pooler-'));
  postgres = await startPostgres({ fsync: false });
  [strict, lenient] = await Promise.all([startPgBouncer(postgres), startPgBouncer(postgres, IGNORED)]);
}, 120_000);
afterAll(async () => {
  await Promise.all([strict?.stop(), lenient?.stop()]);
  await postgres?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const options = (db: string, more: Partial<StateOptions> = {}): StateOptions => ({
  data: folder,
  keys,
  sweepMs: 0,
  pollMs: 60_000,
  db,
  ...more,
});

test.each(['refuses', 'ignores'])(
  'at the start, the error names a pooler that %s the settings of a session',
  async (kind) => {
    const bouncer = kind === 'refuses' ? strict : lenient;
    const db = bouncer.through(await postgres.createDatabase());
    await expect(openState(options(db))).rejects.toMatchObject({
      code: 'config',
      message: expect.stringContaining('set state.directDb'),
    });
  },
  60_000,
);

test('with the address of the server in directDb, rows, transactions, leases and wake-ups work', async () => {
  const directDb = await postgres.createDatabase();
  const db = strict.through(directDb);
  const states: State[] = await Promise.all([1, 2].map(() => openState(options(db, { directDb }))));
  const [a, b] = states as [State, State];
  try {
    // Makes more concurrent appends than the pooler has connections.
    const ids = await Promise.all(
      Array.from({ length: 60 }, (_, i) => (i % 2 ? a : b).bus.append('busy', `${i}`, LOG)),
    );
    expect(new Set(ids).size).toBe(60);
    expect(await a.bus.read('busy', START, 100)).toHaveLength(60);
    let woken = 0;
    const stop = a.bus.wake('bell', () => {
      woken += 1;
    });
    await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(0);
    woken = 0;
    await b.bus.append('bell', 'x', LOG);
    await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(0);
    stop();
    const fence = (await a.bus.lease('job', 'A', 60_000))!;
    expect(await b.bus.lease('job', 'B', 60_000)).toBeUndefined();
    await a.bus.append('{job}log', 'x', { ...LOG, fence: { key: 'job', fence } });
    await a.sessions.create({ id: 's1', principal: 'p', value: { n: 1 }, expiresAt: Date.now() + 60_000 });
    expect((await b.sessions.get('s1'))?.value).toEqual({ n: 1 });
  } finally {
    await Promise.all(states.map((state) => state.close()));
  }
}, 60_000);
