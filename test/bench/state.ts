/**
 * The cost of durable writes: commits per second, their latency, and the delay of the event loop, next to the fsync
 * rate of this disk. Every engine runs with full durability.
 *
 *   npm run bench:state [-- --seconds 5] [--only sqlite]
 *   npm run bench:state -- --only expiry [--expired 1000000]
 *   npm run bench:state -- --only servers [--servers 1000]
 */

import { execFileSync } from 'node:child_process';
import { closeSync, fdatasyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { sleep } from '../../src/core/timing.js';
import { newId, openState, START, type State } from '../../src/state/index.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { Exchange } from '../era-bridge/support/wire.js';
import { startGateway } from '../support/gateway.js';
import { startPostgres, startRedis } from '../support/services.js';
import { benchExpiry } from './expiry.js';
import { benchRegistrations } from './registrations.js';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '4' },
    only: { type: 'string' },
    sessions: { type: 'string', default: '10000' },
    expired: { type: 'string', default: '100000' },
    servers: { type: 'string', default: '1000' },
  },
});
const SECONDS = Number(values.seconds);
const folder = mkdtempSync(join(tmpdir(), 'parley-bench-'));

/** Fsyncs per second of one writer that appends 4 KiB: the limit for commits that are not grouped. */
function fsyncRate(seconds = 1): number {
  const fd = openSync(join(folder, 'sync'), 'w');
  const block = Buffer.alloc(4096, 1);
  const end = performance.now() + seconds * 1_000;
  let count = 0;
  while (performance.now() < end) {
    writeSync(fd, block);
    fdatasyncSync(fd);
    count += 1;
  }
  closeSync(fd);
  return count / seconds;
}

interface Figures {
  perSecond: number;
  p50: number;
  p99: number;
  loop99: number;
}

const percentile = (sorted: readonly number[], p: number): number => sorted[Math.floor((sorted.length - 1) * p)] ?? 0;

async function measure(writers: number, work: (writer: number, i: number) => Promise<unknown>): Promise<Figures> {
  const latencies: number[] = [];
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const run = async (until: number, keep: boolean): Promise<void> => {
    const writer = async (n: number): Promise<void> => {
      for (let i = 0; performance.now() < until; i++) {
        const began = performance.now();
        await work(n, i);
        if (keep) latencies.push(performance.now() - began);
      }
    };
    await Promise.all(Array.from({ length: writers }, (_, n) => writer(n)));
  };
  await run(performance.now() + 500, false);
  delay.enable();
  const began = performance.now();
  await run(began + SECONDS * 1_000, true);
  const seconds = (performance.now() - began) / 1_000;
  delay.disable();
  latencies.sort((a, b) => a - b);
  return {
    perSecond: latencies.length / seconds,
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
    loop99: delay.percentile(99) / 1e6,
  };
}

function print(name: string, writers: number, { perSecond, p50, p99, loop99 }: Figures, syncs: number): void {
  const cells = [
    name.padEnd(34),
    String(writers).padStart(7),
    perSecond.toFixed(0).padStart(10),
    p50.toFixed(1).padStart(9),
    p99.toFixed(1).padStart(9),
    loop99.toFixed(1).padStart(12),
    syncs.toFixed(0).padStart(12),
  ];
  console.log(cells.join(''));
}

const ROW = 'x'.repeat(300);
const LOG = { maxLen: 1_000, maxBytes: 1 << 20, ttlMs: 600_000 };

async function benchEngine(name: string, state: State): Promise<void> {
  const insert = (): Promise<unknown> => state.tasks.create({ id: newId(), principal: 'p', value: ROW });
  const withMessage = (): Promise<unknown> => {
    const id = newId();
    return state.tasks.create({ id, principal: 'p', value: ROW }, [{ lane: id, target: 'r', value: ROW }]);
  };
  const append = (writer: number): Promise<unknown> => state.bus.append(`s${writer}`, ROW, LOG);
  for (let i = 0; i < 10; i++) await state.bus.append('short', ROW, LOG);
  const read = (): Promise<unknown> => state.bus.read('short', START, 10);
  const lease = (writer: number): Promise<unknown> => state.bus.lease(`l${writer}`, 'o', 10_000);
  for (const writers of [1, 20, 200]) print(`${name}: row`, writers, await measure(writers, insert), fsyncRate());
  print(`${name}: row + message`, 200, await measure(200, withMessage), fsyncRate());
  print(`${name}: event`, 200, await measure(200, append), fsyncRate());
  print(`${name}: read ten events`, 200, await measure(200, read), fsyncRate());
  print(`${name}: lease`, 200, await measure(200, lease), fsyncRate());
  const [row] = await state.db.q<{ id: string }>('SELECT id FROM tasks LIMIT 1');
  print(`${name}: row by id`, 20, await measure(20, () => state.tasks.get(row!.id)), fsyncRate());
}

/**
 * Measures idle legacy sessions, each with a row and a listener, in an otherwise empty process. Runs the compiled
 * sources.
 */
function benchSessions(count: number): void {
  const program = `
    const { setTimeout: sleep } = await import('node:timers/promises');
    const { newId, openState } = await import(process.argv[1]);
    const state = await openState({ data: process.argv[2] });
    const before = process.memoryUsage().rss;
    const value = { revision: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } };
    const count = Number(process.argv[3]);
    for (let i = 0; i < count; i += 500) {
      await Promise.all(Array.from({ length: 500 }, (_, n) => {
        state.bus.wake('session' + (i + n), () => {});
        return state.sessions.create({ id: newId(), principal: 'p' + n, value, expiresAt: Date.now() + 3_600_000 });
      }));
    }
    const cpu = process.cpuUsage();
    await sleep(5_000);
    const { user, system } = process.cpuUsage(cpu);
    const mb = (bytes) => (bytes / 1e6).toFixed(0) + ' MB';
    const share = ((user + system) / 5e4).toFixed(1);
    console.log(count + ' idle sessions: RSS ' + mb(process.memoryUsage().rss) + ', ' + mb(before) + ' without, ' + share + ' % CPU');
    await state.close();`;
  const module = new URL('../../dist/state/index.js', import.meta.url).href;
  const args = ['--input-type=module', '-e', program, module, join(folder, 'sessions'), String(count)];
  execFileSync(process.execPath, args, { stdio: 'inherit' });
}

/** The same in a real gateway, where a session also has an event log and watches the lists of a server. */
async function benchGatewaySessions(count: number): Promise<void> {
  const server = await new CountedServer().start();
  const gateway = await startGateway({ log: { level: 'warn' }, servers: { counted: { url: server.url } } });
  try {
    const rss = (): number =>
      Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1]) / 1_000;
    const open = async (): Promise<void> => {
      const initialize = new Exchange(`${gateway.url}/mcp`, 'POST', {}, INITIALIZE);
      await initialize.ended;
      const session = (await initialize.opened).headers['mcp-session-id'];
      if (typeof session !== 'string') throw new Error(`no session: HTTP ${initialize.status}`);
      const told = { jsonrpc: '2.0', method: 'notifications/initialized' };
      await new Exchange(`${gateway.url}/mcp`, 'POST', { 'mcp-session-id': session }, told).ended;
    };
    for (let i = 0; i < 100; i++) await open();
    const before = rss();
    const began = performance.now();
    for (let i = 100; i < count; i += 50) await Promise.all(Array.from({ length: Math.min(50, count - i) }, open));
    const seconds = (performance.now() - began) / 1_000;
    // Wait until the memory of the setup is freed.
    await sleep(10_000);
    console.log(
      `${count} idle sessions in a gateway: RSS ${rss().toFixed(0)} MB, ${before.toFixed(0)} MB with 100 (target: under 150 MB); ` +
        `opened ${(count / seconds).toFixed(0)} per second`,
    );
  } finally {
    await gateway.close();
    await server.close();
  }
}

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } },
};

try {
  const wanted = (name: string): boolean => values.only === undefined || values.only === name;
  if (wanted('sessions')) {
    benchSessions(Number(values.sessions));
    await benchGatewaySessions(Number(values.sessions));
  }
  if (wanted('servers')) await benchRegistrations(Number(values.servers));
  if (wanted('expiry')) await benchExpiry(Number(values.expired));
  console.log(
    `\n${'what'.padEnd(34)}${'writers'.padStart(7)}${'per s'.padStart(10)}${'p50 ms'.padStart(9)}${'p99 ms'.padStart(9)}${'loop p99 ms'.padStart(12)}${'fsync/s'.padStart(12)}`,
  );
  if (wanted('sqlite')) {
    const state = await openState({ data: join(folder, 'sqlite') });
    await benchEngine('sqlite', state);
    await state.close();
  }
  const keys = [{ id: 'bench', key: Buffer.alloc(32, 1).toString('base64') }];
  for (const name of ['postgres', 'redis'].filter(wanted)) {
    const postgres = await startPostgres();
    const redis = name === 'redis' ? await startRedis() : undefined;
    const db = await postgres.createDatabase();
    const state = await openState({ data: join(folder, name), db, keys, ...(redis ? { bus: redis.url } : {}) });
    await benchEngine(name === 'redis' ? 'postgres + redis' : 'postgres', state);
    await state.close();
    await Promise.all([postgres.stop(), redis?.stop()]);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
