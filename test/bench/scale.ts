/**
 * Measures the load of many replicas on the engines they share, at rest and per call: statements of PostgreSQL,
 * commands of Redis and wake-ups that reach a replica. Whole gateways run in this process, each with its own
 * connections.
 *
 *   npm run bench:scale [-- --replicas 1,10,100] [--seconds 5] [--calls 200] [--only postgres|redis]
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';
import { Program } from '../cluster/support/program.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { Exchange } from '../era-bridge/support/wire.js';
import { type PostgresService, type Service, startPostgres, startRedis } from '../support/services.js';

const { values } = parseArgs({
  options: {
    replicas: { type: 'string', default: '1,10,100' },
    seconds: { type: 'string', default: '5' },
    calls: { type: 'string', default: '200' },
    only: { type: 'string' },
  },
});
const SIZES = values.replicas.split(',').map(Number);
const SECONDS = Number(values.seconds);
const CALLS = Number(values.calls);
/** Replicas that start at the same time. */
const STARTS = 10;
/** Longer than every polling interval of a replica, so that no work of the start is measured. */
const SETTLE = 6_000;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Wake-ups that reached a replica of this process: notifications of PostgreSQL, messages of Redis. */
let wakeups = 0;
for (const [prototype, event] of [
  [pg.Client.prototype, 'notification'],
  [Redis.prototype, 'message'],
] as const) {
  const emit = prototype.emit as (name: string | symbol, ...args: unknown[]) => boolean;
  prototype.emit = function counted(this: unknown, name: string | symbol, ...args: unknown[]): boolean {
    if (name === event) wakeups += 1;
    return emit.call(this, name, ...args);
  } as never;
}

interface Counts {
  readonly statements: number;
  readonly commands: number;
  readonly wakeups: number;
}

interface Engines {
  readonly postgres: PostgresService;
  readonly redis: Service | undefined;
  readonly db: string;
}

/**
 * Reads the counters of the engines. They include the cost of reading them, which is the same for any number of
 * replicas.
 */
async function openCounters({ redis, db }: Engines): Promise<{ read(): Promise<Counts>; close(): Promise<void> }> {
  const client = new pg.Client({ connectionString: db });
  await client.connect();
  await client.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
  const own = redis && new Redis(redis.url);
  return {
    read: async () => {
      const { rows } = await client.query(
        `SELECT COALESCE(SUM(calls), 0) AS calls FROM pg_stat_statements
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      );
      const stats = (await own?.info('commandstats')) ?? '';
      const commands = [...stats.matchAll(/:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
      return { statements: Number(rows[0].calls), commands, wakeups };
    },
    close: async () => {
      await client.end();
      own?.disconnect();
    },
  };
}

const less = (a: Counts, b: Counts, factor: number): Counts => ({
  statements: (a.statements - b.statements) * factor,
  commands: (a.commands - b.commands) * factor,
  wakeups: (a.wakeups - b.wakeups) * factor,
});

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

async function answered(exchange: Exchange): Promise<void> {
  const messages = await exchange.ended;
  const answer = messages.find((message) => 'id' in message && message.id === 1);
  if (!answer || 'error' in answer) throw new Error(`a call failed: ${exchange.status} ${JSON.stringify(messages)}`);
}

const callOf = (name: string, meta?: object): object => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: { key: 'bench' }, ...(meta && { _meta: meta }) },
});

function modernCall(url: string, tool: string): Promise<void> {
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': tool };
  return answered(new Exchange(`${url}/mcp`, 'POST', headers, callOf(tool, META)));
}

async function legacySession(url: string): Promise<Record<string, string>> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } };
  const initialize = new Exchange(`${url}/mcp`, 'POST', {}, { jsonrpc: '2.0', id: 1, method: 'initialize', params });
  await answered(initialize);
  const id = (await initialize.opened).headers['mcp-session-id'];
  if (typeof id !== 'string') throw new Error(`no session: HTTP ${initialize.status}`);
  const headers = { 'mcp-session-id': id, 'mcp-protocol-version': '2025-11-25' };
  await new Exchange(`${url}/mcp`, 'POST', headers, { jsonrpc: '2.0', method: 'notifications/initialized' }).ended;
  return headers;
}

type Work = (replicas: readonly RunningGateway[], i: number) => Promise<void>;

const at = (replicas: readonly RunningGateway[], i: number): string => replicas[i % replicas.length]!.url;

/** The requests of a client for one call, on the replicas in turn. */
function kindsOfCalls(sessions: readonly Record<string, string>[]): [name: string, work: Work][] {
  return [
    ['modern call, HTTP server', (replicas, i) => modernCall(at(replicas, i), 'counted__quick')],
    [
      'session call, HTTP server',
      (replicas, i) => {
        const headers = sessions[i % sessions.length]!;
        return answered(new Exchange(`${at(replicas, i)}/mcp`, 'POST', headers, callOf('counted__quick')));
      },
    ],
    ['modern call, shared process', (replicas, i) => modernCall(at(replicas, i), 'program__echo')],
    ['session opened', (replicas, i) => legacySession(at(replicas, i)).then(() => {})],
  ];
}

function print(name: string, replicas: number, unit: string, { statements, commands, wakeups: heard }: Counts): void {
  const figure = (value: number): string => value.toFixed(value < 10 ? 2 : 1).padStart(12);
  console.log(
    [
      name.padEnd(46),
      String(replicas).padStart(8),
      figure(statements),
      figure(commands),
      figure(heard),
      `  ${unit}`,
    ].join(''),
  );
}

async function benchSize(engine: string, engines: Engines, count: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'parley-scale-'));
  const upstream = await new CountedServer().start();
  const program = new Program();
  const keys = [randomBytes(32).toString('base64')];
  const { config } = configFrom({
    listen: '127.0.0.1:0',
    data: join(folder, 'data'),
    timeouts: { drain: '1ms' },
    state: { db: engines.db, ...(engines.redis && { bus: engines.redis.url }), keys },
    servers: { counted: { url: upstream.url }, program: program.settings },
  });
  const replicas: RunningGateway[] = [];
  const counters = await openCounters(engines);
  try {
    for (let i = 0; i < count; i += STARTS) {
      const starting = Array.from({ length: Math.min(STARTS, count - i) }, () => startServe(config, { log: SILENT }));
      replicas.push(...(await Promise.all(starting)));
    }
    await Promise.all(replicas.map((replica) => replica.settled(30_000)));
    await sleep(SETTLE);
    const before = await counters.read();
    const began = performance.now();
    await sleep(SECONDS * 1_000);
    const rest = less(await counters.read(), before, 1_000 / (performance.now() - began));
    print(`${engine}: at rest`, count, 'per second', rest);
    print(`${engine}: at rest, each replica`, count, 'per second', less(rest, NOTHING, 1 / count));
    const called = replicas.slice(0, 10);
    const sessions = await Promise.all(called.map(({ url }) => legacySession(url)));
    for (const [name, work] of kindsOfCalls(sessions)) {
      // One call at each replica first, because the work of only the first call is not measured.
      for (let i = 0; i < called.length; i++) await work(called, i);
      const first = await counters.read();
      const start = performance.now();
      for (let i = 0; i < CALLS; i += called.length) await Promise.all(called.map((_, n) => work(called, i + n)));
      await sleep(200);
      const seconds = (performance.now() - start) / 1_000;
      const all = less(await counters.read(), first, 1);
      print(
        `${engine}: ${name}`,
        count,
        'per call',
        less(less(all, rest, 1), less(rest, NOTHING, seconds - 1), 1 / CALLS),
      );
    }
  } finally {
    for (let i = 0; i < replicas.length; i += STARTS)
      await Promise.all(replicas.slice(i, i + STARTS).map((replica) => replica.close()));
    await counters.close();
    await upstream.close();
    program.remove();
    rmSync(folder, { recursive: true, force: true });
  }
}

const NOTHING: Counts = { statements: 0, commands: 0, wakeups: 0 };

const heads = ['statements', 'commands', 'wake-ups'].map((head) => head.padStart(12)).join('');
console.log(`\n${'what'.padEnd(46)}${'replicas'.padStart(8)}${heads}`);
for (const engine of ['postgres', 'redis'].filter((name) => values.only === undefined || values.only === name)) {
  for (const count of SIZES) {
    const postgres = await startPostgres({
      settings: { max_connections: '1500', shared_preload_libraries: 'pg_stat_statements' },
    });
    const redis = engine === 'redis' ? await startRedis() : undefined;
    try {
      const name = redis ? 'postgres + redis' : 'postgres';
      await benchSize(name, { postgres, redis, db: await postgres.createDatabase() }, count);
    } finally {
      await Promise.all([postgres.stop(), redis?.stop()]);
    }
  }
}
process.exit(0);
