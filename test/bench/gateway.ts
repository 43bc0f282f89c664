/**
 * What the gateway costs. Calls with checked bodies against the bare upstream, against nginx in front of it where that is
 * installed, and against the gateway, alternated in one run so that all of them meet the same machine.
 *
 *   npm run bench [-- --quick] [--json] [--only 'modern → modern 200 B'] [--rounds 9] [--beside OTHER_CHECKOUT]
 *
 * The process under test has one core for itself; the load generator and whatever stands behind the process under test
 * share the other. For the rates that is an upstream that answers from ready-made bytes, so that the process under test
 * is the limit; for the latencies it is the same Node upstream that is measured bare, so that the difference is what is
 * added, round by round. `--beside` measures the (built) gateway of another checkout in the same rounds.
 */
import { availableParallelism, loadavg } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { startGateway } from '../support/gateway.js';
import {
  canPin,
  Generator,
  HELPING,
  hasNginx,
  type Measured,
  on,
  type Running,
  rssOf,
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
  },
});

const TIMES = values.quick
  ? { rounds: 3, rate: 350, latencyRounds: 3, latency: 250, warm: 10_000, calls: 30_000 }
  : { rounds: 5, rate: 800, latencyRounds: 9, latency: 300, warm: 20_000, calls: 100_000 };
const ROUNDS = Number(values.rounds ?? TIMES.rounds);
const WARM_LIMIT = 10_000;
const CONNECTIONS: Readonly<Record<number, number>> = { 200: 32, 100000: 16, 1000000: 8 };

/** Who speaks what: the client's era, and that of the server behind. */
const PATHS: readonly { readonly name: string; readonly client: Era; readonly server: Era }[] = [
  { name: 'modern → modern', client: 'modern', server: 'modern' },
  { name: 'legacy → legacy', client: 'legacy', server: 'legacy' },
  { name: 'legacy → modern', client: 'legacy', server: 'modern' },
];
const SIZE_NAMES: Readonly<Record<number, string>> = { 200: '200 B', 100000: '100 kB', 1000000: '1 MB' };

interface Contender {
  readonly name: string;
  readonly pid: number;
  /** The job that reaches the server of an era through this contender; undefined where it cannot. */
  job(client: Era, server: Era, behind: 'raw' | 'node'): Pick<Job, 'url' | 'era' | 'tool'> | undefined;
}

const running: { close(): Promise<unknown> }[] = [];
async function keep<T extends { close(): Promise<unknown> }>(starting: Promise<T>): Promise<T> {
  const started = await starting;
  running.push(started);
  return started;
}

const byEra = async (core: number, kind: 'raw' | 'node'): Promise<Record<Era, Running>> => ({
  modern: await keep(startUpstream(core, kind, 'modern')),
  legacy: await keep(startUpstream(core, kind, 'legacy')),
});

async function contenders(): Promise<Contender[]> {
  const bare = await byEra(TESTED, 'node');
  const behind = { raw: await byEra(HELPING, 'raw'), node: await byEra(HELPING, 'node') };
  const list: Contender[] = [];
  for (const era of ['modern', 'legacy'] as const) {
    list.push({
      name: 'bare',
      pid: bare[era].pid,
      // A legacy client cannot speak to a modern server; what it is compared with is that server and its own client.
      job: (_, server) => (server === era ? { url: bare[era].url, era, tool: TOOL } : undefined),
    });
  }
  if (hasNginx) {
    for (const kind of ['raw', 'node'] as const) {
      const nginx = await keep(
        startNginx(TESTED, { modern: behind[kind].modern.url, legacy: behind[kind].legacy.url }),
      );
      list.push({
        name: 'nginx',
        pid: nginx.pid,
        job: (_, server, wanted) =>
          wanted === kind ? { url: `${nginx.url}/${server}`, era: server, tool: TOOL } : undefined,
      });
    }
  }
  const servers = {
    'modern-raw': { url: behind.raw.modern.url },
    'legacy-raw': { url: behind.raw.legacy.url },
    'modern-node': { url: behind.node.modern.url },
    'legacy-node': { url: behind.node.legacy.url },
  };
  const gateway = async (name: string, launch: typeof startGateway): Promise<void> => {
    const { url, pid } = await keep(launch({ servers }, { under: on(TESTED) }));
    list.push({
      name,
      pid,
      job: (client, server, wanted) => ({ url: `${url}/mcp`, era: client, tool: `${server}-${wanted}__${TOOL}` }),
    });
  };
  await gateway('gateway', startGateway);
  if (values.beside !== undefined) {
    const file = join(resolve(values.beside), 'test/support/gateway.ts');
    const other = (await import(pathToFileURL(file).href)) as { startGateway: typeof startGateway };
    await gateway('beside', other.startGateway);
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

/** Each contender once per round, in turning order; medians over the rounds. */
async function alternate(
  generator: Generator,
  participants: readonly (readonly [Contender, Job])[],
  rounds: number,
  watch: (contender: Contender) => void,
): Promise<Map<string, Measured[]>> {
  const found = new Map<string, Measured[]>();
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < participants.length; i++) {
      const [contender, job] = participants[(i + round) % participants.length]!;
      const figures = await generator.run(job, contender.pid, () => watch(contender));
      count(contender.name, figures);
      if (job.size === SIZES[0] && job.connections > 1 && job.calls === undefined) own.push(figures.own);
      found.set(contender.name, [...(found.get(contender.name) ?? []), figures]);
    }
  }
  return found;
}

const pad = (text: string, width: number): string => text.padStart(width);
const fixed = (value: number, digits: number): string => (Number.isNaN(value) ? '-' : value.toFixed(digits));
const verdicts: { target: string; found: string; reached: boolean }[] = [];
function verdict(target: string, found: string, reached: boolean): void {
  verdicts.push({ target, found, reached });
}

async function main(): Promise<void> {
  const generator = await keep(Generator.start(HELPING));
  const all = await contenders();
  const peak = new Map<string, number>();
  const watch = ({ name, pid }: Contender): void => {
    const rss = rssOf(pid);
    if (rss !== undefined) peak.set(name, Math.max(peak.get(name) ?? 0, rss));
  };
  const rows: Record<string, Record<string, Cell>> = {};
  const warmed = new Set<string>();
  const gateway = all.find(({ name }) => name === 'gateway')!;
  // Before large results stretch the heap.
  await memory(generator, gateway, peak);
  console.log(
    `node ${process.version}; ${canPin ? 'one core for the process under test, the other for the rest' : 'not pinned'}; ${
      hasNginx ? 'with nginx' : 'nginx is not installed'
    }; medians of ${ROUNDS} alternated rounds; added latency at one connection\n`,
  );
  console.log(
    `${'path'.padEnd(16)} ${pad('result', 7)}  ${'through'.padEnd(8)} ${pad('calls/s', 8)} ${pad('of bare', 8)} ${pad('CPU us', 8)} ${pad('p50 ms', 8)} ${pad('p99 ms', 8)} ${pad('added p50', 10)} ${pad('added p99', 10)}`,
  );
  for (const { name, client, server } of PATHS) {
    for (const size of SIZES) {
      if (!`${name} ${SIZE_NAMES[size]}`.startsWith(values.only ?? '')) continue;
      const jobs = (behind: 'raw' | 'node', connections: number, milliseconds: number): [Contender, Job][] =>
        all.flatMap((contender): [Contender, Job][] => {
          const job = contender.job(client, server, behind);
          return job ? [[contender, { ...job, size, connections, milliseconds }]] : [];
        });
      // Code that runs for the first time is slow: a fixed number of calls first, whatever they take.
      const warm = jobs('raw', CONNECTIONS[SIZES[0]]!, WARM_LIMIT).map(([contender, job]): [Contender, Job] => [
        contender,
        { ...job, size: SIZES[0], calls: TIMES.warm },
      ]);
      if (!warmed.has(name)) await alternate(generator, warm, 1, () => {});
      warmed.add(name);
      const rates = await alternate(generator, jobs('raw', CONNECTIONS[size]!, TIMES.rate), ROUNDS, watch);
      const latencies = await alternate(generator, jobs('node', 1, TIMES.latency), TIMES.latencyRounds, watch);
      const cells: Record<string, Cell> = {};
      const alone = latencies.get('bare')!;
      for (const [contender, figures] of rates) {
        const single = latencies.get(contender) ?? [];
        // Within a round all meet the same machine; a burst of somebody else's spoils a round, and not what is added.
        const added = (of: (each: Measured) => number): number =>
          median(single.map((each, round) => of(each) - of(alone[round]!)));
        cells[contender] = {
          rate: median(figures.map((each) => each.calls / each.seconds)),
          cpu: median(figures.map((each) => each.cpu ?? Number.NaN)),
          p50: median(single.map((each) => each.p50)),
          p99: median(single.map((each) => each.p99)),
          added50: added((each) => each.p50),
          added99: added((each) => each.p99),
        };
      }
      rows[`${name} ${SIZE_NAMES[size]}`] = cells;
      const bare = cells['bare']!;
      for (const [contender, cell] of Object.entries(cells)) {
        const isBare = contender === 'bare';
        console.log(
          `${name.padEnd(16)} ${pad(SIZE_NAMES[size]!, 7)}  ${contender.padEnd(8)} ${pad(fixed(cell.rate, 0), 8)} ${pad(
            `${fixed((cell.rate / bare.rate) * 100, 0)} %`,
            8,
          )} ${pad(fixed(cell.cpu, 1), 8)} ${pad(fixed(cell.p50, 3), 8)} ${pad(fixed(cell.p99, 3), 8)} ${pad(
            isBare ? '' : fixed(cell.added50, 3),
            10,
          )} ${pad(isBare ? '' : fixed(cell.added99, 3), 10)}`,
        );
      }
      const { rate, cpu, added50 } = cells['gateway']!;
      const share = rate / bare.rate;
      // On a busy machine the rates say as much of the neighbours; CPU time per call says more of the gateway.
      const shares = `${fixed(share * 100, 1)} % (by CPU per call ${fixed((bare.cpu / cpu) * 100, 0)} %)`;
      if (size > SIZES[0])
        verdict(`${name} ${SIZE_NAMES[size]}: at least 100 % of the bare upstream's rate`, shares, share >= 1);
      else if (client === 'modern') {
        verdict(`${name} ${SIZE_NAMES[size]}: at least 50 % of the bare upstream's rate`, shares, share >= 0.5);
        verdict(
          `${name} ${SIZE_NAMES[size]}: at most 0.30 ms added p50 at one connection`,
          `${fixed(added50, 3)} ms`,
          added50 <= 0.3,
        );
      }
    }
  }
  const most = peak.get(gateway.name);
  if (most !== undefined)
    verdict('RSS under 130 MB in the whole run, large results included', `${fixed(most, 0)} MB`, most < MOST_RSS);
  console.log(
    `\n${calls} answers compared byte by byte, ${wrong} wrong; the generator itself took ${fixed(median(own), 1)} us CPU per small call`,
  );
  console.log(
    `load of the machine over the last minute: ${fixed(loadavg()[0]!, 1)} on ${availableParallelism()} cores`,
  );
  console.log('\nTargets');
  for (const { target, found, reached } of verdicts)
    console.log(`  ${reached ? 'reached    ' : 'NOT REACHED'}  ${target}: ${found}`);
  if (values.json) console.log(JSON.stringify({ rows, verdicts, wrong }));
}

/** Many small calls in a row: what the process holds must not grow with their number. */
async function memory(generator: Generator, gateway: Contender, peak: Map<string, number>): Promise<void> {
  const samples: number[] = [];
  const job = { ...gateway.job('modern', 'modern', 'raw')!, size: SIZES[0], connections: CONNECTIONS[SIZES[0]]! };
  count(gateway.name, await generator.run({ ...job, calls: TIMES.warm }, gateway.pid));
  const sample = (): void => {
    const rss = rssOf(gateway.pid);
    if (rss !== undefined) samples.push(rss);
  };
  count(gateway.name, await generator.run({ ...job, calls: TIMES.calls }, gateway.pid, sample));
  if (samples.length < 10) return;
  const fifth = Math.floor(samples.length / 5);
  const early = median(samples.slice(fifth, 2 * fifth));
  const late = median(samples.slice(-fifth));
  const most = Math.max(...samples);
  peak.set(gateway.name, most);
  verdict('RSS under 130 MB under small calls', `${fixed(most, 0)} MB`, most < MOST_RSS);
  verdict(
    `RSS flat over ${TIMES.calls} calls`,
    `${fixed(early, 0)} MB early, ${fixed(late, 0)} MB late`,
    late - early <= FLAT,
  );
}

const MOST_RSS = 130;
/** Megabytes between two samples that are noise of the collector. */
const FLAT = 5;

try {
  await main();
} finally {
  await Promise.all(running.map((each) => each.close()));
}
process.exitCode = wrong > 0 ? 1 : 0;
