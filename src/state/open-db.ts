/** Opens the database that the settings name, with its tables at the newest step. */
import { join } from 'node:path';
import type { Log } from '../telemetry/log.js';
import type { Db } from './db.js';
import { type MigrateOptions, migrate, type Step } from './migrations.js';

const DATABASE_FILE = 'parley.db';

export interface OpenDbOptions {
  /** The folder of the embedded database. */
  data: string;
  /** postgres://… where replicas share one database. */
  db?: string;
  log?: Log;
  /** For tests. */
  steps?: readonly Step[];
}

/** How long one step of a migration may take, and how long a replica waits for another one that migrates. */
const MIGRATION_MS = 30 * 60_000;

export async function openDb(options: OpenDbOptions): Promise<Db> {
  return options.db === undefined ? openSqlite(options) : openPostgres(options.db, options);
}

async function openSqlite({ data, log, steps }: OpenDbOptions): Promise<Db> {
  const { SqliteDb } = await import('./sqlite/sqlite.js');
  const path = join(data, DATABASE_FILE);
  const db = await SqliteDb.open(path);
  const backup = async (from: number): Promise<void> => {
    const copy = `${path}.v${from}.${new Date().toISOString().replace(/[:.]/g, '-')}.${process.pid}.bak`;
    await db.backup(copy);
    log?.info({ copy }, 'copied the database before changing its tables');
  };
  const patient = (): Promise<Db> => SqliteDb.open(path, { answerTimeoutMs: MIGRATION_MS });
  return migrated(db, { backup, patient, log, steps });
}

async function openPostgres(url: string, { log, steps }: OpenDbOptions): Promise<Db> {
  const { PostgresDb } = await import('./postgres/postgres.js');
  const patient = (): Promise<Db> => PostgresDb.open(url, { max: 1, queryTimeoutMs: MIGRATION_MS, clock: false });
  return migrated(await PostgresDb.open(url), { patient, log, steps });
}

async function migrated(db: Db, options: MigrateOptions): Promise<Db> {
  try {
    await migrate(db, { ...options, waitMs: MIGRATION_MS });
    return db;
  } catch (error) {
    await db.close();
    throw error;
  }
}
