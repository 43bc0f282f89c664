import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';

const cores = availableParallelism();

/**
 * Replicas, databases and servers that are killed, frozen and disconnected, clocks that jump, disks that fill up:
 * `npm run test:faults`, or FAULT_ROUNDS for one file.
 */
const faults = process.env['npm_lifecycle_event'] === 'test:faults' || Number(process.env['FAULT_ROUNDS']) > 0;
const LONG = [
  ...[
    'cluster-*',
    'a2a-replicas',
    'a2a-agents',
    'connections',
    'state-*',
    'upstream-*',
    'webhooks',
    'unasked-flood',
  ].map((name) => `test/faults/${name}.test.ts`),
  ...['approval', 'get-stream', 'health', 'resume', 'sessions'].map((name) => `test/cluster/${name}.test.ts`),
];
const long = faults ? [] : LONG;
/** The official suite against its own fixtures, without a gateway: `npm run test:conformance`. */
const fixtures = process.env['npm_lifecycle_event'] === 'test:conformance' ? [] : ['test/conformance/fixtures.test.ts'];
/** Promises that name a time, so nothing else runs beside them. */
const TIMED = ['cluster-streams', 'cluster-frozen', 'flooding-caller'].map((name) => `test/faults/${name}.test.ts`);

export default defineConfig({
  test: {
    reporters: ['default', './test/support/reporter.ts'],
    teardownTimeout: 30_000,
    projects: [
      {
        // One room each, beside the file they test.
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          // Their modules keep no state between files, and loading all of them again for each file takes a minute.
          isolate: false,
          maxWorkers: 3 * cores,
          sequence: { groupOrder: 0 },
        },
      },
      {
        // Gateways, servers, databases and clients as processes of their own. After the others, and few at a time: each
        // file starts several, though they mostly wait.
        test: {
          name: 'system',
          include: ['test/**/*.test.ts'],
          globalSetup: './test/support/services.ts',
          exclude: [...configDefaults.exclude, ...long, ...fixtures, ...TIMED],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: Math.max(faults ? 2 : 5, Math.floor(cores / 2)),
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'timed',
          include: faults ? TIMED : [],
          globalSetup: './test/support/services.ts',
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
