/** The three state engines of Parley on real servers, for suites that run on all of them. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { openState, type State, type StateOptions } from '../../src/state/index.js';
import { steps } from '../../src/state/migrations.js';
import {
  type PostgresService,
  type PostgresSettings,
  type Service,
  startPostgres,
  startRedis,
  startRedisCluster,
} from './services.js';

const TABLES = steps.flatMap(({ statements }) =>
  statements.flatMap((sql) => /^CREATE TABLE (\w+)/.exec(sql)?.[1] ?? []),
);

export const ENGINES = ['sqlite', 'postgres', 'postgres+redis'] as const;
/** For suites of the Bus itself: a Redis Cluster keeps its keys at several nodes. */
export const BUS_ENGINES = [...ENGINES, 'postgres+redis-cluster'] as const;
export type Engine = (typeof BUS_ENGINES)[number];

export interface Cluster {
  readonly engine: Engine;
  /** Opens one more replica on the same engine. */
  open(options?: Partial<StateOptions>): Promise<State>;
  /** Closes all replicas and empties the engine. */
  reset(): Promise<void>;
  /** Removes all rows and keys while replicas stay open. Faster than `reset`. */
  clear(): Promise<void>;
  readonly postgres: PostgresService | undefined;
  readonly redis: Service | undefined;
  /** The options for `openState`, for use in another process. */
  readonly options: StateOptions;
  stop(): Promise<void>;
}

/** Settings for unit tests, which kill no server: PostgreSQL need not wait for the disk. */
export const QUICK: PostgresSettings = { fsync: false };

export async function startCluster(engine: Engine, settings: PostgresSettings = {}): Promise<Cluster> {
  const postgres = engine === 'sqlite' ? undefined : await startPostgres(settings);
  const redis = engine === 'postgres+redis' ? await startRedis() : undefined;
  const redisCluster = engine === 'postgres+redis-cluster' ? await startRedisCluster() : undefined;
  const keys = [{ id: 'k1', key: randomBytes(32).toString('base64') }];
  const folder = mkdtempSync(join(tmpdir(), 'parley-state-'));
  const open: State[] = [];
  let round = 0;
  let place: { data: string; db?: string; bus?: string };
  const closeAll = async (): Promise<void> => {
    await Promise.all(open.splice(0).map((state) => state.close()));
  };
  const reset = async (): Promise<void> => {
    await closeAll();
    round += 1;
    place = { data: join(folder, String(round)) };
    if (postgres) place.db = await postgres.createDatabase();
    if (redis) place.bus = `${redis.url}/${round % 16}`;
    if (redisCluster) place.bus = redisCluster.url;
  };
  await reset();
  const stateOptions = (): StateOptions => ({ ...place, ...(postgres ? { keys } : {}), pollMs: 200, sweepMs: 0 });
  const openReplica = async (options: Partial<StateOptions> = {}): Promise<State> => {
    const state = await openState({ ...stateOptions(), ...options });
    open.push(state);
    return state;
  };
  return {
    engine,
    postgres,
    redis,
    get options() {
      return stateOptions();
    },
    open: openReplica,
    reset,
    async clear() {
      const { db } = open[0] ?? (await openReplica());
      await db.tx(TABLES.map((table) => [`DELETE FROM ${table}`, []]));
      const urls = redisCluster ? redisCluster.nodes.map(({ url }) => url) : redis && place.bus ? [place.bus] : [];
      for (const url of urls) {
        const client = new Redis(url);
        await client.flushdb();
        client.disconnect();
      }
    },
    async stop() {
      await closeAll();
      await postgres?.stop();
      await redis?.stop();
      await redisCluster?.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
