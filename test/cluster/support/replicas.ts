/** Real gateway processes that share one PostgreSQL, with Redis or without: replicas of one gateway. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import pg from 'pg';
import { type GatewayConfig, type GatewayOptions, type RunningGateway, startGateway } from '../../support/gateway.js';
import { type PostgresService, type Service, startPostgres, startRedis } from '../../support/services.js';

export const CLUSTERS = ['postgres', 'postgres+redis'] as const;
export type ClusterEngine = (typeof CLUSTERS)[number];

const KEY = randomBytes(32).toString('base64');

export const ALICE = randomBytes(32).toString('hex');
export const BOB = randomBytes(32).toString('hex');

export interface Replica extends RunningGateway {
  readonly mcp: string;
  readonly dead: boolean;
  kill(): Promise<void>;
  freeze(): void;
  thaw(): void;
}

export interface Replicas {
  readonly postgres: PostgresService;
  readonly redis: Service | undefined;
  /** The address of the database that the next replicas use. */
  readonly db: string;
  /** `options` has one entry per replica; `through` is the port of a proxy to the bus. */
  start(
    count: number,
    config: GatewayConfig,
    options?: readonly GatewayOptions[],
    way?: { readonly through?: number },
  ): Promise<Replica[]>;
  /** All text in a table, as a reader with a copy of the database sees it. */
  stored(table: string): Promise<string>;
  /** Stops the gateways and empties the engines. */
  reset(): Promise<void>;
  stop(): Promise<void>;
}

export async function startEngines(engine: ClusterEngine): Promise<Replicas> {
  const postgres = await startPostgres();
  const redis = engine === 'postgres+redis' ? await startRedis() : undefined;
  const running: Replica[] = [];
  let round = 0;
  let db = await postgres.createDatabase();
  const closeAll = async (): Promise<void> => {
    await Promise.all(running.splice(0).map((replica) => replica.close()));
  };
  return {
    postgres,
    redis,
    get db() {
      return db;
    },
    start: async (count, config, options = [], { through } = {}) => {
      const by = (url: string): string => (through === undefined ? url : url.replace(/:\d+\//, `:${through}/`));
      const bus = redis && by(`${redis.url}/${round % 16}`);
      const settings: GatewayConfig = {
        log: { level: 'warn' },
        timeouts: { drain: '1s' },
        auth: {
          tokens: [
            { name: 'alice', token: ALICE },
            { name: 'bob', token: BOB },
          ],
        },
        state: { db: redis ? db : by(db), ...(bus && { bus }), keys: [KEY] },
        ...config,
      };
      const started = await Promise.all(Array.from({ length: count }, (_, i) => startGateway(settings, options[i])));
      const replicas = started.map(replicaOf);
      running.push(...replicas);
      return replicas;
    },
    stored: async (table) => {
      const client = new pg.Client({ connectionString: db });
      await client.connect();
      const { rows } = await client.query(`SELECT * FROM ${table}`);
      await client.end();
      return JSON.stringify(rows);
    },
    reset: async () => {
      await closeAll();
      round++;
      db = await postgres.createDatabase();
    },
    stop: async () => {
      await closeAll();
      await postgres.stop();
      await redis?.stop();
    },
  };
}

function replicaOf(gateway: RunningGateway): Replica {
  const { process: child } = gateway;
  const dead = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    ...gateway,
    mcp: `${gateway.url}/mcp`,
    get dead() {
      return dead();
    },
    kill: async () => {
      if (dead()) return;
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
    },
    freeze: () => child.kill('SIGSTOP'),
    thaw: () => child.kill('SIGCONT'),
    close: async () => {
      if (!dead()) child.kill('SIGCONT');
      return gateway.close();
    },
  };
}
