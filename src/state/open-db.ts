/** Opens the configured database and migrates it to the newest step. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Log } from '../telemetry/log.js';
import type { Db } from './db.js';
import { type MigrateOptions, migrate, type Step } from './migrations.js';

const DATABASE_FILE = 'parley.db';

export interface OpenDbOptions {
  /** The folder of the embedded database. */
  data: string;
  /** postgres://… for replicas that share one database. */
  db?: string;
  /** The address of the server itself, if `db` is the address of a pooler. */
  directDb?: string;
  log?: Log;
  /** Used in tests. */
  steps?: readonly Step[];
}

/** Timeout for one step of a migration, and for waiting until another replica has migrated. */
const MIGRATION_MS = 30 * 60_000;

export async function openDb(options: OpenDbOptions): Promise<Db> {
  return options.db === undefined ? openSqlite(options) : openPostgres(options.db, options);
}

async function openSqlite({ data, log, steps }: OpenDbOptions): Promise<Db> {
  const { SqliteDb } = await import('./sqlite/sqlite-db.js');
  const path = join(data, DATABASE_FILE);
  const db = await SqliteDb.open(path);
  const backup = async (from: number): Promise<void> => {
    const copy = `${path}.v${from}.${new Date().toISOString().replace(/[:.]/g, '-')}.${randomBytes(4).toString('hex')}.bak`;
    await db.backup(copy);
    log?.info({ copy }, 'made a backup of the database before the migration');
  };
  const openSlow = (): Promise<Db> => SqliteDb.open(path, { answerTimeoutMs: MIGRATION_MS });
  return migrated(db, { backup, openSlow, log, steps });
}

async function openPostgres(url: string, { directDb, log, steps }: OpenDbOptions): Promise<Db> {
  const { PostgresDb } = await import('./postgres/postgres.js');
  const { poolerError } = await import('./postgres/errors.js');
  const slow = { max: 1, queryTimeoutMs: MIGRATION_MS, clock: false };
  const openSlow = (): Promise<Db> => PostgresDb.open(directDb ?? url, slow);
  const db = await PostgresDb.open(url, { pooled: directDb !== undefined });
  await migrated(db, { openSlow, log, steps });
  if (directDb === undefined && (await db.leadsToPooler().catch(() => false))) {
    await db.close();
    throw poolerError();
  }
  return db;
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
