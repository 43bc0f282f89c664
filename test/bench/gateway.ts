/**
 * The cost of the gateway, against the same server without it. Each path and size is measured four ways in one run, in
 * alternated rounds: the server direct, behind nginx (where it is installed), behind a bare proxy on the same libraries
 * as the gateway (`library-proxy.ts`), and behind the gateway. Every answer is compared byte by byte.
 *
 *   npm run bench [-- --quick] [--json] [--only 'modern → modern 200 B'] [--rounds 9] [--beside OTHER_CHECKOUT] [--auth]
 *
 * The process under test has one core; the load generator and the server share the other. CPU per call is that of the
 * process under test (of the server itself in the row "direct"). Added latency is the difference to "direct" within one
 * round, at one connection. `--auth` measures only the cost of authentication (`authentication.ts`). `--beside`
 * measures the (built) gateway of another checkout in the same rounds.
 */
import { availableParallelism, loadavg } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { startGateway } from '../support/gateway.js';
import { measureAuthentication } from './authentication.js';
import {
  canPin,
  Generator,
  HELPING,
  hasNginx,
  type Measured,
  on,
  type Running,
  rssOf,
  startLibraryProxy,
  startNginx,
  startUpstream,
  TESTED,
} from './rig.js';
import { type Era, type Job, SIZES, TOOL } from './wire.js';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    beside: { type: 'string' },
    only: { type: 'string' },
    rounds: { type: 'string' },
    auth: { type: 'boolean', default: false },
  },
});

const TIMES = values.quick
  ? { rounds: 3, rate: 350, latencyRounds: 3, latency: 250, warm: 10_000, warmLarge: 1_500, calls: 30_000 }
  : { rounds: 5, rate: 800, latencyRounds: 9, latency: 300, warm: 20_000, warmLarge: 4_000, calls: 100_000 };
const ROUNDS = Number(values.rounds ?? TIMES.rounds);
const WARM_LIMIT = 10_000;
const CONNECTIONS: Readonly<Record<number, number>> = { 200: 32, 100000: 16, 1000000: 8 };

const DIRECT = 'direct';
const LIBRARY = 'library';
const GATEWAY = 'gateway';

/** The era of the client and the era of the server. */
const PATHS: readonly { readonly name: string; readonly client: Era; readonly server: Era }[] = [
  { name: 'modern → modern', client: 'modern', server: 'modern' },
  { name: 'legacy → legacy', client: 'legacy', server: 'legacy' },
  { name: 'legacy → modern', client: 'legacy', server: 'modern' },
];
const SIZE_NAMES: Readonly<Record<number, string>> = { 200: '200 B', 100000: '100 kB', 1000000: '1 MB' };

interface Contender {
  readonly name: string;
  /** The measured process; in "direct" the server of an era. */
  pid(server: Era): number;
  /** The job that reaches the server of an era through this contender. */
  job(client: Era, server: Era): Pick<Job, 'url' | 'era' | 'tool'>;
}

const running: { close(): Promise<unknown> }[] = [];
async function keep<T extends { close(): Promise<unknown> }>(starting: Promise<T>): Promise<T> {
  const started = await starting;
  running.push(started);
  return started;
}

async function contenders(): Promise<Contender[]> {
  const servers: Readonly<Record<Era, Running>> = {
    modern: await keep(startUpstream(HELPING, 'modern')),
    legacy: await keep(startUpstream(HELPING, 'legacy')),
  };
  const urls = { modern: servers.modern.url, legacy: servers.legacy.url };
  // A legacy client cannot use a modern server, so proxies that pass bytes on are measured with the server's era.
  const passing = (name: string, { url, pid }: Running): Contender => ({
    name,
    pid: () => pid,
    job: (_, server) => ({ url: `${url}/${server}`, era: server, tool: TOOL }),
  });
  const gateway = async (name: string, launch: typeof startGateway): Promise<Contender> => {
    // No log line per call, as in nginx and the library proxy.
    const config = { log: { level: 'warn' }, servers: { modern: { url: urls.modern }, legacy: { url: urls.legacy } } };
    const { url, pid } = await keep(launch(config, { under: on(TESTED) }));
    return {
      name,
      pid: () => pid,
      job: (client, server) => ({ url: `${url}/mcp`, era: client, tool: `${server}__${TOOL}` }),
    };
  };
  const list: Contender[] = [
    {
      name: DIRECT,
      pid: (server) => servers[server].pid,
      job: (_, server) => ({ url: urls[server], era: server, tool: TOOL }),
    },
  ];
  if (hasNginx) list.push(passing('nginx', await keep(startNginx(TESTED, urls))));
  list.push(passing(LIBRARY, await keep(startLibraryProxy(TESTED, urls))));
  list.push(await gateway(GATEWAY, startGateway));
  if (values.beside !== undefined) {
    const file = join(resolve(values.beside), 'test/support/gateway.ts');
    const other = (await import(pathToFileURL(file).href)) as { startGateway: typeof startGateway };
    list.push(await gateway('beside', other.startGateway));
  }
  return list;
}

const median = (numbers: readonly number[]): number => {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
};

interface Cell {
  rate: number;
  cpu: number;
  p50: number;
  p99: number;
  added50: number;
  added99: number;
}

let wrong = 0;
let calls = 0;
const own: number[] = [];

function count(name: string, figures: Measured): void {
  wrong += figures.wrong;
  calls += figures.calls;
  if (figures.wrong > 0) console.error(`WRONG ${name}: ${figures.wrong} answers, such as: ${figures.sample}`);
}

/** Runs each contender once per round, in rotating order. */
async function alternate(
  generator: Generator,
  participants: readonly Contender[],
  jobOf: (contender: Contender) => Job,
  server: Era,
  rounds: number,
  watch: (contender: Contender, pid: number) => void = () => {},
): Promise<Map<string, Measured[]>> {
  const found = new Map<string, Measured[]>(participants.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < participants.length; i++) {
      const contender = participants[(i + round) % participants.length]!;
      const pid = contender.pid(server);
      const job = jobOf(contender);
      const figures = await generator.run(job, pid, () => watch(contender, pid));
      count(contender.name, figures);
      if (job.size === SIZES[0] && job.connections > 1 && job.calls === undefined) own.push(figures.own);
      found.get(contender.name)!.push(figures);
    }
  }
  return found;
}

const fixed = (value: number, digits: number): string => (Number.isNaN(value) ? '-' : value.toFixed(digits));

const verdicts: { target: string; found: string; reached: boolean }[] = [];
function verdict(target: string, found: string, reached: boolean): void {
  verdicts.push({ target, found, reached });
}

/** Limits on the ratio between the figures of the gateway and of the library proxy. */
const MOST_TIMES = { smallCpu: 1.5, largeCpu: 1.25, addedP50: 1.5 };

function judge(name: string, small: boolean, cells: Readonly<Record<string, Cell>>): void {
  const { [GATEWAY]: gateway, [LIBRARY]: library } = cells;
  const cpuLimit = small ? MOST_TIMES.smallCpu : MOST_TIMES.largeCpu;
  const cpu = gateway!.cpu / library!.cpu;
  verdict(
    `${name}: CPU per call at most ${cpuLimit} times the library proxy's`,
    `${fixed(cpu, 2)} (${fixed(gateway!.cpu, 0)} µs, ${fixed(library!.cpu, 0)} µs)`,
    cpu <= cpuLimit,
  );
  const added = gateway!.added50 / library!.added50;
  verdict(
    `${name}: added p50 at one connection at most ${MOST_TIMES.addedP50} times the library proxy's`,
    `${fixed(added, 2)} (${fixed(gateway!.added50, 3)} ms, ${fixed(library!.added50, 3)} ms)`,
    added <= MOST_TIMES.addedP50,
  );
}

const COLUMNS: readonly (readonly [title: string, width: number])[] = [
  ['path', -16],
  ['result', 7],
  ['through', -8],
  ['calls/s', 8],
  ['CPU µs', 8],
  ['p50 ms', 8],
  ['p99 ms', 8],
  ['added p50', 10],
  ['added p99', 10],
];

function printRow(cells: readonly string[]): void {
  const padded = cells.map((cell, i) => {
    const width = COLUMNS[i]![1];
    return width < 0 ? cell.padEnd(-width) : cell.padStart(width);
  });
  console.log(padded.join(' '));
}

function cellsOf(
  rates: ReadonlyMap<string, Measured[]>,
  latencies: ReadonlyMap<string, Measured[]>,
): Record<string, Cell> {
  const direct = latencies.get(DIRECT)!;
  const cells: Record<string, Cell> = {};
  for (const [name, figures] of rates) {
    const single = latencies.get(name)!;
    // Differences within one round cancel out other load on the machine.
    const added = (of: (each: Measured) => number): number =>
      median(single.map((each, round) => of(each) - of(direct[round]!)));
    cells[name] = {
      rate: median(figures.map((each) => each.calls / each.seconds)),
      cpu: median(figures.map((each) => each.cpu ?? Number.NaN)),
      p50: median(single.map((each) => each.p50)),
      p99: median(single.map((each) => each.p99)),
      added50: added((each) => each.p50),
      added99: added((each) => each.p99),
    };
  }
  return cells;
}

/** The share of the rate without authentication that calls with authentication must reach. */
const LEAST_SHARE = 0.85;

async function authentication(generator: Generator): Promise<void> {
  const found = await measureAuthentication(generator, { ...TIMES, rounds: ROUNDS }, keep);
  const open = found.get('no auth')!;
  const rateOf = ({ calls: made, seconds }: Measured): number => made / seconds;
  for (const [name, figures] of found) {
    for (const each of figures) count(name, each);
    const rate = median(figures.map(rateOf));
    const share = median(figures.map((each, round) => rateOf(each) / rateOf(open[round]!)));
    const cpuOf = (each: Measured): number => each.cpu ?? Number.NaN;
    const cpu = median(figures.map(cpuOf));
    // If other programs use the machine too, only CPU per call can be compared.
    const cpuShare = median(figures.map((each, round) => cpuOf(open[round]!) / cpuOf(each)));
    console.log(
      `${name.padEnd(28)} ${fixed(rate, 0).padStart(8)} calls/s ${fixed(share, 2)} ${fixed(cpu, 1).padStart(9)} CPU µs ${fixed(cpuShare, 2)}`,
    );
    if (figures !== open)
      verdict(
        `calls with ${name}: at least ${LEAST_SHARE * 100} % of the rate without authentication`,
        `${fixed(share * 100, 0)} % (${fixed(cpuShare * 100, 0)} % by CPU per call)`,
        share >= LEAST_SHARE,
      );
  }
}

async function main(): Promise<void> {
  const generator = await keep(Generator.start(HELPING));
  if (values.auth) {
    await authentication(generator);
    report({});
    return;
  }
  const all = await contenders();
  const peak = new Map<string, number>();
  const watch = ({ name }: Contender, pid: number): void => {
    const rss = rssOf(pid);
    if (rss !== undefined) peak.set(name, Math.max(peak.get(name) ?? 0, rss));
  };
  const rows: Record<string, Record<string, Cell>> = {};
  // Measured before large results grow the heap.
  if (values.only === undefined) await memory(generator, all.find(({ name }) => name === GATEWAY)!);
  console.log(
    `node ${process.version}; ${canPin ? 'one core for the process under test, the other for the rest' : 'not pinned'}; ${
      hasNginx ? 'with nginx' : 'nginx is not installed'
    }; medians of ${ROUNDS} alternated rounds; latency at one connection\n`,
  );
  printRow(COLUMNS.map(([title]) => title));
  for (const { name, client, server } of PATHS) {
    for (const size of SIZES) {
      const row = `${name} ${SIZE_NAMES[size]}`;
      if (!row.startsWith(values.only ?? '')) continue;
      const jobs =
        (connections: number, milliseconds: number) =>
        (contender: Contender): Job => ({ ...contender.job(client, server), size, connections, milliseconds });
      await alternate(generator, all, warming(jobs, size), server, 1);
      const rates = await alternate(generator, all, jobs(CONNECTIONS[size]!, TIMES.rate), server, ROUNDS, watch);
      const latencies = await alternate(generator, all, jobs(1, TIMES.latency), server, TIMES.latencyRounds, watch);
      const cells = cellsOf(rates, latencies);
      rows[row] = cells;
      for (const [contender, cell] of Object.entries(cells)) {
        const added = contender === DIRECT ? ['', ''] : [fixed(cell.added50, 3), fixed(cell.added99, 3)];
        const figures = [fixed(cell.rate, 0), fixed(cell.cpu, 1), fixed(cell.p50, 3), fixed(cell.p99, 3), ...added];
        printRow([name, SIZE_NAMES[size]!, contender, ...figures]);
      }
      judge(row, size === SIZES[0], cells);
    }
  }
  const most = peak.get(GATEWAY);
  if (most !== undefined)
    verdict(
      `RSS under ${MOST_RSS} MB in the whole run, large results included`,
      `${fixed(most, 0)} MB`,
      most < MOST_RSS,
    );
  if (values.only === undefined) await authentication(generator);
  report(rows);
}

function report(rows: Readonly<Record<string, Record<string, Cell>>>): void {
  console.log(
    `\n${calls} answers compared byte by byte, ${wrong} wrong; the generator itself took ${fixed(median(own), 1)} µs CPU per small call`,
  );
  console.log(
    `load of the machine over the last minute: ${fixed(loadavg()[0]!, 1)} on ${availableParallelism()} cores`,
  );
  console.log('\nTargets');
  for (const { target, found, reached } of verdicts)
    console.log(`  ${reached ? 'reached    ' : 'NOT REACHED'}  ${target}: ${found}`);
  if (values.json) console.log(JSON.stringify({ rows, verdicts, wrong }));
}

type Jobs = (connections: number, milliseconds: number) => (contender: Contender) => Job;

/**
 * Each size needs its own warm-up: the code for large results is compiled, and the heap grows to its working size, only
 * when large results arrive. Before that a result costs up to twice as much.
 */
function warming(jobs: Jobs, size: number): (contender: Contender) => Job {
  if (size !== SIZES[0]) return jobs(CONNECTIONS[size]!, TIMES.warmLarge);
  const job = jobs(CONNECTIONS[size]!, WARM_LIMIT);
  return (contender) => ({ ...job(contender), calls: TIMES.warm });
}

/** Makes many small calls: the memory of the process must not grow with their number. */
async function memory(generator: Generator, gateway: Contender): Promise<void> {
  const samples: number[] = [];
  const pid = gateway.pid('modern');
  const job = { ...gateway.job('modern', 'modern'), size: SIZES[0], connections: CONNECTIONS[SIZES[0]]! };
  count(gateway.name, await generator.run({ ...job, calls: TIMES.warm }, pid));
  const sample = (): void => {
    const rss = rssOf(pid);
    if (rss !== undefined) samples.push(rss);
  };
  count(gateway.name, await generator.run({ ...job, calls: TIMES.calls }, pid, sample));
  if (samples.length < 10) return;
  const fifth = Math.floor(samples.length / 5);
  const early = median(samples.slice(fifth, 2 * fifth));
  const late = median(samples.slice(-fifth));
  verdict(
    `RSS under ${MOST_RSS} MB under small calls`,
    `${fixed(Math.max(...samples), 0)} MB`,
    Math.max(...samples) < MOST_RSS,
  );
  verdict(
    `RSS flat over ${TIMES.calls} calls`,
    `${fixed(early, 0)} MB early, ${fixed(late, 0)} MB late`,
    late - early <= FLAT,
  );
}

const MOST_RSS = 170;
/** Differences below this many megabytes are noise of the garbage collector. */
const FLAT = 5;

try {
  await main();
} finally {
  await Promise.all(running.map((each) => each.close()));
}
process.exitCode = wrong > 0 ? 1 : 0;
