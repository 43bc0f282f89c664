/** Measures the time to remove expired sessions, and the latency of calls meanwhile. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { newId, openState, type State, type StateOptions } from '../../src/state/index.js';
import { startPostgres } from '../support/services.js';

const HOUR = 3_600_000;
const JSON_VALUE = JSON.stringify({
  revision: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'bench', version: '1' },
});
/** The number of rows that one statement inserts; more would exceed its timeout. */
const PART = 10_000;

async function fill({ db }: State, count: number): Promise<void> {
  const numbers =
    db.dialect === 'postgres'
      ? 'SELECT generate_series AS i FROM generate_series(CAST($1 AS INTEGER), CAST($2 AS INTEGER))'
      : 'WITH RECURSIVE n(i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2) SELECT i FROM n';
  for (let from = 1; from <= count; from += PART)
    await db.q(
      `INSERT INTO sessions (id, principal, owner, json, rev, mark, created_at, updated_at, expires_at)
       SELECT CAST($4 AS TEXT) || i, 'p' || (i % 1000), '', $5, 1, '', 0, 0, CAST($3 AS BIGINT) - i FROM (${numbers}) AS n`,
      [from, Math.min(count, from + PART - 1), Date.now(), `${newId()}-`, JSON_VALUE],
    );
}

/** Uses a session and writes a task, as a call does. Returns the duration of each call. */
async function calls(state: State, until: () => boolean): Promise<number[]> {
  const id = newId();
  await state.sessions.create({ id, principal: 'p', value: {}, expiresAt: Date.now() + HOUR });
  const took: number[] = [];
  while (!until()) {
    const began = performance.now();
    await state.sessions.get(id);
    await state.tasks.create({ id: newId(), principal: 'p', value: 'x', expiresAt: Date.now() + HOUR });
    took.push(performance.now() - began);
    await sleep(10);
  }
  return took.sort((a, b) => a - b);
}

const at = (sorted: readonly number[], p: number): string =>
  (sorted[Math.floor((sorted.length - 1) * p)] ?? 0).toFixed(1);

async function measure(name: string, options: StateOptions, count: number): Promise<void> {
  const state = await openState({ ...options, sweepMs: 0 });
  await fill(state, count);
  const quiet = performance.now() + 5_000;
  const before = await calls(state, () => performance.now() > quiet);
  const began = performance.now();
  const replicas = await Promise.all([1, 2].map(() => openState({ ...options, sweepMs: 1_000 })));
  let left = count;
  const during = calls(state, () => left === 0);
  during.catch(() => {});
  const expired = `SELECT COUNT(*) AS n FROM (SELECT 1 FROM sessions WHERE expires_at <= $1 LIMIT 1) AS first`;
  while (left > 0) {
    await sleep(500);
    left = Number((await state.db.q(expired, [Date.now() - 1]))[0]?.['n']);
  }
  const seconds = (performance.now() - began) / 1_000;
  const took = await during;
  console.log(
    `${name}: ${count} expired sessions gone after ${seconds.toFixed(0)} s (${(count / seconds).toFixed(0)} per second, target: 1,667); ` +
      `${took.length} calls meanwhile, p50 ${at(took, 0.5)} ms, p99 ${at(took, 0.99)} ms (before: ${at(before, 0.5)}, ${at(before, 0.99)})`,
  );
  await Promise.all([state, ...replicas].map((one) => one.close()));
}

export async function benchExpiry(count: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'parley-expiry-'));
  const postgres = await startPostgres();
  try {
    const keys = [{ id: 'bench', key: Buffer.alloc(32, 1).toString('base64') }];
    await measure('sqlite', { data: join(folder, 'sqlite') }, count);
    await measure('postgres', { data: folder, db: await postgres.createDatabase(), keys }, count);
  } finally {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
