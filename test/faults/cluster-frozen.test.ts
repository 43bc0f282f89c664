/** Case 25 on PostgreSQL: a frozen process never holds a lock that others have to wait for. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectionConfig } from '../../src/state/postgres/postgres.js';
import { type Cluster, startCluster } from '../support/state-engines.js';
import { startChild } from './child.js';
import { rounds, sleep } from './rounds.js';

const ROUNDS = rounds(200, 60);
const LEASE = 3_000;

describe('locks of a frozen process', () => {
  let cluster: Cluster;
  let watcher: pg.Client;

  beforeAll(async () => {
    cluster = await startCluster('postgres');
    const state = await cluster.open();
    await state.bus.lease('replica:x', 'x', 60_000);
    watcher = new pg.Client({ connectionString: cluster.options.db });
    await watcher.connect();
  });
  afterAll(async () => {
    await watcher?.end();
    await cluster?.stop();
  });

  const openTransactions = async (): Promise<number> => {
    const { rows } = await watcher.query(
      `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
    );
    return rows.length;
  };

  test(`25: a process frozen ${ROUNDS} times during appends never stops inside a transaction`, async () => {
    const child = startChild(cluster.options, ['append', '20']);
    await child.said(/^ack/);
    let open = 0;
    for (let i = 0; i < ROUNDS; i++) {
      await sleep(10 + Math.random() * 20);
      child.process.kill('SIGSTOP');
      // The server first completes the statements that it has received.
      for (let looks = 0; looks < 10; looks++) {
        await sleep(80);
        if ((await openTransactions()) === 0) break;
        if (looks === 9) open++;
      }
      child.process.kill('SIGCONT');
    }
    await child.kill();
    expect(open).toBe(0);
  });

  test('25: an idle open transaction is ended before a lease expires', async () => {
    const silent = new pg.Client(connectionConfig(cluster.options.db!, {}, { default: pg } as typeof import('pg')));
    silent.on('error', () => {});
    await silent.connect();
    await silent.query('BEGIN');
    await silent.query(`UPDATE leases SET ttl = ttl WHERE key = 'replica:x'`);
    const began = performance.now();
    // Waits for the lock, as a takeover does.
    await watcher.query(`UPDATE leases SET ttl = ttl WHERE key = 'replica:x'`);
    expect(performance.now() - began).toBeLessThan(LEASE);
    await silent.end().catch(() => {});
  });
});
