/**
 * The cost of telemetry: the same calls without metrics and log, with both, and with traces of which 5 % are exported to
 * a collector, in alternated rounds of one run. The ratios count; the rates depend on the machine.
 *
 *   npm run bench:telemetry [-- --quick]
 */
import { parseArgs } from 'node:util';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { startCollector } from '../telemetry/otlp-collector.js';
import { Generator, HELPING, type Measured, on, startUpstream, TESTED } from './rig.js';
import { type Job, SIZES, TOOL } from './wire.js';

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const { rounds, milliseconds, warm } = values.quick
  ? { rounds: 5, milliseconds: 500, warm: 3_000 }
  : { rounds: 9, milliseconds: 1_000, warm: 20_000 };
const CONNECTIONS = 32;

const METRICS_AND_LOG = { metrics: { enabled: true }, log: { level: 'info', format: 'json' } };
/** What is measured, and the settings. */
const SETTINGS = {
  off: { metrics: { enabled: false }, log: { level: 'warn', format: 'json' } },
  on: METRICS_AND_LOG,
  traces: { ...METRICS_AND_LOG, tracing: { samplePercent: 5 } },
} as const;
/** The part of the rate without telemetry that must remain. */
const LEAST = { off: 1, on: 0.85, traces: 0.8 } as const;
type Name = keyof typeof SETTINGS;
const NAMES = Object.keys(SETTINGS) as Name[];

const median = (numbers: readonly number[]): number => [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!;

const upstream = await startUpstream(HELPING, 'modern');
const generator = await Generator.start(HELPING);
const collector = await startCollector();
const gateways = new Map<Name, RunningGateway>();
try {
  for (const name of NAMES) {
    const config = { servers: { modern: { url: upstream.url } }, audit: { calls: 'none' }, ...SETTINGS[name] };
    const env: Record<string, string> = name === 'traces' ? { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } : {};
    gateways.set(name, await startGateway(config, { under: on(TESTED), env }));
  }
  const job = (name: Name): Job => ({
    ...{ url: `${gateways.get(name)!.url}/mcp`, era: 'modern', tool: `modern__${TOOL}` },
    ...{ size: SIZES[0]!, connections: CONNECTIONS },
  });
  for (const name of NAMES) await generator.run({ ...job(name), calls: warm }, gateways.get(name)!.pid);
  const found = new Map<Name, Measured[]>(NAMES.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < NAMES.length; i++) {
      const name = NAMES[(i + round) % NAMES.length]!;
      const figures = await generator.run({ ...job(name), milliseconds }, gateways.get(name)!.pid);
      if (figures.wrong > 0) throw new Error(`${name}: ${figures.wrong} wrong answers, such as ${figures.sample}`);
      found.get(name)!.push(figures);
    }
  }
  console.log(`telemetry, small calls, ${CONNECTIONS} connections, medians of ${rounds} alternated rounds\n`);
  console.log('mode     calls/s  of off   CPU µs  of off   p99 ms   by CPU  needed');
  const off = found.get('off')!;
  for (const name of NAMES) {
    const each = found.get(name)!;
    const rate = (figures: Measured): number => figures.calls / figures.seconds;
    const cpu = ({ cpu: used }: Measured): number => used ?? Number.NaN;
    // Ratios within one round cancel out other load on the machine.
    const ratio = (of: (figures: Measured) => number): string =>
      median(each.map((figures, round) => of(figures) / of(off[round]!))).toFixed(2);
    const cells = [
      name.padEnd(6),
      median(each.map(rate)).toFixed(0).padStart(9),
      ratio(rate).padStart(7),
      median(each.map(cpu)).toFixed(0).padStart(8),
      ratio(cpu).padStart(7),
      median(each.map(({ p99 }) => p99))
        .toFixed(1)
        .padStart(8),
      // The rate that a processor of its own would allow.
      median(each.map((figures, round) => cpu(off[round]!) / cpu(figures)))
        .toFixed(2)
        .padStart(8),
      LEAST[name].toFixed(2).padStart(7),
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
