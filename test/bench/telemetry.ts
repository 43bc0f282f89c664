/**
 * The cost of telemetry: the same calls without metrics and log, with both, and with traces of which 5 % are exported
 * to a collector, in alternated rounds of one run. The ratios count; the rates depend on the machine.
 *
 *   npm run bench:telemetry [-- --quick] [--before <folder of another built version, compared in the same rounds>]
 */
import { spawnSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { startCollector } from '../telemetry/otlp-collector.js';
import { canPin, Generator, HELPING, type Measured, on, startUpstream, TESTED } from './rig.js';
import { type Job, SIZES, TOOL } from './wire.js';

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false }, before: { type: 'string' } } });
const { rounds, milliseconds, warm } = values.quick
  ? { rounds: 5, milliseconds: 500, warm: 3_000 }
  : { rounds: 9, milliseconds: 1_000, warm: 20_000 };
const CONNECTIONS = 32;

const METRICS_AND_LOG = { metrics: { enabled: true }, log: { level: 'info', format: 'json' } };
/** The names of the measured modes, and the settings for each. */
const SETTINGS = {
  off: { metrics: { enabled: false }, log: { level: 'warn', format: 'json' } },
  on: METRICS_AND_LOG,
  traces: { ...METRICS_AND_LOG, tracing: { samplePercent: 5 } },
} as const;
/** The part of the rate without telemetry that each mode must reach. */
const LEAST = { off: 1, on: 0.85, traces: 0.8 } as const;
type Mode = keyof typeof SETTINGS;

/** A gateway that is measured: its settings, its program, and the gateway without telemetry of the same program. */
interface Measurement {
  readonly name: string;
  readonly mode: Mode;
  readonly bin: string | undefined;
  readonly off: string;
}
const measurements = (suffix: string, bin: string | undefined): Measurement[] =>
  (Object.keys(SETTINGS) as Mode[]).map((mode) => ({ name: mode + suffix, mode, bin, off: `off${suffix}` }));
const MEASUREMENTS = [
  ...measurements('', undefined),
  ...(values.before === undefined ? [] : measurements(' before', join(values.before, 'bin', 'parley.js'))),
];

const median = (numbers: readonly number[]): number => [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!;

// This process reads the log and collects the spans, and must not use time on the core of the gateways.
if (canPin) spawnSync('taskset', ['-a', '-c', '-p', String(HELPING), String(process.pid)]);

const upstream = await startUpstream(HELPING, 'modern');
const generator = await Generator.start(HELPING);
const collector = await startCollector();
const gateways = new Map<string, RunningGateway>();
try {
  for (const { name, mode, bin } of MEASUREMENTS) {
    const config = { servers: { modern: { url: upstream.url } }, audit: { calls: 'none' }, ...SETTINGS[mode] };
    const env: Record<string, string> = mode === 'traces' ? { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } : {};
    gateways.set(name, await startGateway(config, { under: on(TESTED), env, ...(bin !== undefined && { bin }) }));
  }
  const job = (name: string): Job => ({
    ...{ url: `${gateways.get(name)!.url}/mcp`, era: 'modern', tool: `modern__${TOOL}` },
    ...{ size: SIZES[0]!, connections: CONNECTIONS },
  });
  for (const { name } of MEASUREMENTS) await generator.run({ ...job(name), calls: warm }, gateways.get(name)!.pid);
  const found = new Map<string, Measured[]>(MEASUREMENTS.map(({ name }) => [name, []]));
  const loads: number[] = [];
  for (let round = 0; round < rounds; round++) {
    loads.push(loadavg()[0]!);
    for (let i = 0; i < MEASUREMENTS.length; i++) {
      const { name } = MEASUREMENTS[(i + round) % MEASUREMENTS.length]!;
      const figures = await generator.run({ ...job(name), milliseconds }, gateways.get(name)!.pid);
      if (figures.wrong > 0) throw new Error(`${name}: ${figures.wrong} wrong answers, such as ${figures.sample}`);
      found.get(name)!.push(figures);
    }
  }
  console.log(`telemetry, small calls, ${CONNECTIONS} connections, medians of ${rounds} alternated rounds`);
  console.log(`load of the machine: ${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)}\n`);
  console.log('mode            calls/s  of off   CPU µs  of off   p99 ms   by CPU  needed');
  for (const { name, mode, off: without } of MEASUREMENTS) {
    const each = found.get(name)!;
    const off = found.get(without)!;
    const rate = (figures: Measured): number => figures.calls / figures.seconds;
    const cpu = ({ cpu: used }: Measured): number => used ?? Number.NaN;
    // Ratios within one round cancel out other load on the machine.
    const ratio = (of: (figures: Measured) => number): string =>
      median(each.map((figures, round) => of(figures) / of(off[round]!))).toFixed(2);
    const cells = [
      name.padEnd(13),
      median(each.map(rate)).toFixed(0).padStart(9),
      ratio(rate).padStart(7),
      median(each.map(cpu)).toFixed(0).padStart(8),
      ratio(cpu).padStart(7),
      median(each.map(({ p99 }) => p99))
        .toFixed(1)
        .padStart(8),
      // The rate if the gateway alone used the processor: the ratio of CPU per call.
      median(each.map((figures, round) => cpu(off[round]!) / cpu(figures)))
        .toFixed(2)
        .padStart(8),
      LEAST[mode].toFixed(2).padStart(7),
    ];
    console.log(cells.join(' '));
  }
} finally {
  await generator.close();
  for (const gateway of gateways.values()) await gateway.close();
  await upstream.close();
  console.log(`\nspans received: ${collector.spans.length}`);
  await collector.close();
}
