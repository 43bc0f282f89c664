/**
 * The cost of the audit trail: the same calls without it, with it (`onFailure: open`), and with `closed`, in alternated
 * rounds of one run. The ratios count; the rates depend on the machine.
 *
 *   npm run bench:audit [-- --quick]
 */
import { parseArgs } from 'node:util';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { Generator, HELPING, type Measured, on, startUpstream, TESTED } from './rig.js';
import { type Job, SIZES, TOOL } from './wire.js';

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const { rounds, milliseconds, warm } = values.quick
  ? { rounds: 5, milliseconds: 500, warm: 3_000 }
  : { rounds: 9, milliseconds: 1_000, warm: 20_000 };
const CONNECTIONS = 32;

/** The names of the measured modes, and the settings of `audit` for each. */
const SETTINGS = {
  off: { calls: 'none' },
  open: { calls: 'all', onFailure: 'open' },
  closed: { calls: 'all', onFailure: 'closed' },
} as const;
type Name = keyof typeof SETTINGS;
const NAMES = Object.keys(SETTINGS) as Name[];

const median = (numbers: readonly number[]): number => [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!;

const upstream = await startUpstream(HELPING, 'modern');
const generator = await Generator.start(HELPING);
const gateways = new Map<Name, RunningGateway>();
try {
  for (const name of NAMES) {
    const config = { log: { level: 'warn' }, servers: { modern: { url: upstream.url } }, audit: SETTINGS[name] };
    gateways.set(name, await startGateway(config, { under: on(TESTED) }));
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
  console.log(`audit trail, small calls, ${CONNECTIONS} connections, medians of ${rounds} alternated rounds\n`);
  console.log('audit    calls/s  of off   CPU µs  of off   p99 ms');
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
    ];
    console.log(cells.join(' '));
  }
} finally {
  await generator.close();
  for (const gateway of gateways.values()) await gateway.close();
  await upstream.close();
}
