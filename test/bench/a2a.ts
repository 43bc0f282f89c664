/**
 * The cost of the gateway for an A2A call: 1.0 over JSON-RPC on both sides, compared with the direct agent in one run.
 *
 *   npm run bench:a2a [-- --quick] [--json] [--rounds 9]
 *
 * The process under test has its own core; the load generator and the agent share the other. Rates use an agent on bare
 * sockets, so that the process under test is the limit. Latencies and streams use the same node:http agent that is
 * measured directly, so that the difference is the cost of the gateway.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startGateway } from '../support/gateway.js';
import { type CallFigures, EVENTS, type Job, type Kind, type StreamFigures } from './a2a-wire.js';
import { canPin, cpuOf, HELPING, on, rssOf, TESTED } from './rig.js';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    rounds: { type: 'string' },
  },
});
const TIMES = values.quick
  ? { rounds: 3, warm: 10_000, rate: 400, latency: 300, streams: 2 }
  : { rounds: 5, warm: 20_000, rate: 1_000, latency: 800, streams: 4 };
const ROUNDS = Number(values.rounds ?? TIMES.rounds);
const WARM_LIMIT = 30_000;
const CONNECTIONS = 32;
/** Milliseconds between two events of a stream, so that events do not queue. */
const PACE = 2;

const TS = fileURLToPath(new URL('../support/ts.mjs', import.meta.url));
const children: ChildProcess[] = [];

async function start<T>(core: number, file: string, ...args: string[]): Promise<{ child: ChildProcess; first: T }> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const [command, ...rest] = [...on(core), process.execPath, '--import', TS, path, ...args];
  const child = spawn(command!, rest, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  children.push(child);
  const [first] = (await once(child, 'message')) as [T];
  return { child, first };
}

async function next(child: ChildProcess): Promise<unknown> {
  const [message] = (await once(child, 'message')) as [unknown];
  if (typeof message === 'object' && message !== null && 'failed' in message)
    throw new Error(`the load generator gave up: ${message.failed}`);
  return message;
}

interface Contender {
  readonly name: 'bare' | 'gateway';
  readonly pid: number;
  readonly url: string;
}
type Measured<T> = T & { readonly cpu: number };

let wrong = 0;
let compared = 0;

async function run<T extends CallFigures | StreamFigures>(
  generator: ChildProcess,
  job: Job,
  { name, pid }: Contender,
): Promise<Measured<T>> {
  generator.send(job);
  await next(generator);
  const before = cpuOf(pid) ?? Number.NaN;
  generator.send('go');
  const figures = (await next(generator)) as T;
  const cpu = (cpuOf(pid) ?? Number.NaN) - before;
  const count = 'calls' in figures ? figures.calls : EVENTS;
  compared += count;
  wrong += figures.wrong;
  if (figures.wrong > 0) console.error(`WRONG ${name}: ${figures.wrong} answers, such as: ${figures.sample}`);
  return { ...figures, cpu: cpu / Math.max(1, count) };
}

/** Runs each contender once per round, in rotating order. */
async function alternate<T extends CallFigures | StreamFigures>(
  generator: ChildProcess,
  contenders: readonly Contender[],
  job: (contender: Contender) => Job,
  rounds: number,
): Promise<Record<'bare' | 'gateway', Measured<T>[]>> {
  const found: Record<'bare' | 'gateway', Measured<T>[]> = { bare: [], gateway: [] };
  for (let round = 0; round < rounds; round++)
    for (let i = 0; i < contenders.length; i++) {
      const contender = contenders[(i + round) % contenders.length]!;
      found[contender.name].push(await run<T>(generator, job(contender), contender));
    }
  return found;
}

function median<T>(all: readonly T[], pick: (one: T) => number): number {
  const sorted = all.map(pick).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

const fixed = (value: number, digits: number): string => (Number.isNaN(value) ? '-' : value.toFixed(digits));
const pad = (text: string, width: number): string => text.padStart(width);
const verdicts: { target: string; found: string; reached: boolean }[] = [];

async function main(): Promise<void> {
  const bare = await start<string>(TESTED, 'a2a-upstream.ts', 'node');
  const raw = await start<string>(HELPING, 'a2a-upstream.ts', 'raw');
  const node = await start<string>(HELPING, 'a2a-upstream.ts', 'node');
  const { child: generator } = await start(HELPING, 'a2a-load.ts');
  const agents = { raw: { url: raw.first }, node: { url: node.first } };
  const gateway = await startGateway({ agents, log: { level: 'warn' } }, { under: on(TESTED) });
  try {
    const contenders = (behind: 'raw' | 'node'): Contender[] => [
      { name: 'bare', pid: bare.child.pid!, url: `${bare.first}/` },
      { name: 'gateway', pid: gateway.pid, url: `${gateway.url}/a2a/${behind}` },
    ];
    if (!canPin) console.log('not pinned to cores: the figures are less reliable');
    console.log(
      `${pad('', 16)} ${pad('calls/s', 9)} ${pad('of bare', 8)} ${pad('us CPU', 8)} ${pad('p50 ms', 8)} ${pad('p99 ms', 8)} ${pad('added p50', 10)}`,
    );
    const rows: Record<string, object> = {};
    for (const kind of ['message', 'task'] as Kind[]) {
      const job =
        (connections: number, milliseconds: number, calls?: number) =>
        ({ url }: Contender): Job => ({
          ...{ what: 'calls', url, kind, connections, milliseconds },
          ...(calls !== undefined && { calls }),
        });
      // Warm up with a fixed number of calls, because code is slow at first.
      await alternate(generator, contenders('raw'), job(CONNECTIONS, WARM_LIMIT, TIMES.warm), 1);
      const rates = await alternate<CallFigures>(generator, contenders('raw'), job(CONNECTIONS, TIMES.rate), ROUNDS);
      await alternate(generator, contenders('node'), job(1, TIMES.latency), 1);
      const latencies = await alternate<CallFigures>(generator, contenders('node'), job(1, TIMES.latency), ROUNDS);
      const cell = (name: 'bare' | 'gateway'): { rate: number; cpu: number; p50: number; p99: number } => ({
        rate: median(rates[name], ({ calls, seconds }) => calls / seconds),
        cpu: median(rates[name], ({ cpu }) => cpu),
        p50: median(latencies[name], ({ p50 }) => p50),
        p99: median(latencies[name], ({ p99 }) => p99),
      });
      const [one, two] = [cell('bare'), cell('gateway')];
      rows[kind] = { bare: one, gateway: two };
      for (const [name, { rate, cpu, p50, p99 }] of [
        ['bare', one],
        ['gateway', two],
      ] as const)
        console.log(
          `${`${kind} ${name}`.padEnd(16)} ${pad(fixed(rate, 0), 9)} ${pad(`${fixed((rate / one.rate) * 100, 0)} %`, 8)} ${pad(fixed(cpu, 1), 8)} ${pad(fixed(p50, 3), 8)} ${pad(fixed(p99, 3), 8)} ${pad(name === 'bare' ? '' : fixed(p50 - one.p50, 3), 10)}`,
        );
      verdicts.push({
        target: `a send answered with a ${kind}: at least 40 % of the bare agent's rate`,
        found: `${fixed((two.rate / one.rate) * 100, 1)} % (by CPU per call ${fixed((one.cpu / two.cpu) * 100, 0)} %)`,
        reached: two.rate / one.rate >= 0.4,
      });
    }
    for (const pace of [PACE, 0]) {
      const job = ({ url }: Contender): Job => ({ what: 'stream', url, pace });
      await alternate(generator, contenders('node'), job, 1);
      const found = await alternate<StreamFigures>(generator, contenders('node'), job, TIMES.streams);
      const of = (name: 'bare' | 'gateway', pick: (one: Measured<StreamFigures>) => number): number =>
        median(found[name], pick);
      const name = pace > 0 ? `${EVENTS} events, one every ${pace} ms` : `${EVENTS} events at once`;
      console.log(`\n${name}`);
      for (const who of ['bare', 'gateway'] as const)
        console.log(
          `  ${who.padEnd(8)} p50 ${fixed(
            of(who, ({ p50 }) => p50),
            3,
          )} ms, p99 ${fixed(
            of(who, ({ p99 }) => p99),
            3,
          )} ms on the way, ${fixed(
            of(who, ({ whole }) => whole),
            0,
          )} ms in all, ${fixed(
            of(who, ({ cpu }) => cpu),
            1,
          )} us CPU each`,
        );
      rows[name] = found;
      const added = of('gateway', ({ p50 }) => p50) - of('bare', ({ p50 }) => p50);
      if (pace > 0)
        verdicts.push({
          target: 'an event of a stream: less than 1 ms added p50',
          found: `${fixed(added, 3)} ms`,
          reached: added < 1,
        });
    }
    console.log(
      `\n${compared} answers and events compared, ${wrong} wrong; the gateway has ${fixed(rssOf(gateway.pid) ?? Number.NaN, 0)} MB`,
    );
    console.log(
      `load of the machine over the last minute: ${fixed(loadavg()[0]!, 1)} on ${availableParallelism()} cores`,
    );
    console.log('\nTargets');
    for (const { target, found, reached } of verdicts)
      console.log(`  ${reached ? 'reached    ' : 'NOT REACHED'}  ${target}: ${found}`);
    if (values.json) console.log(JSON.stringify({ rows, verdicts, wrong }));
  } finally {
    await gateway.close();
  }
}

try {
  await main();
} finally {
  for (const child of children) child.kill();
}
process.exitCode = wrong > 0 ? 1 : 0;
