import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';

const cores = availableParallelism();

/** The npm script that runs these tests. */
const script = process.env['npm_lifecycle_event'];
const faults = script === 'test:faults' || Number(process.env['FAULT_ROUNDS']) > 0;

/** Tests that `npm test` leaves out, by the script that runs them. */
const OWN_SCRIPTS: Readonly<Record<string, readonly string[]>> = {
  // Replicas, databases and servers that are killed, frozen and disconnected, clocks that jump, disks that fill up.
  'test:faults': [
    ...['a2a-*', 'cluster-*', 'connections', 'state-*', 'unasked-flood', 'upstream-*', 'webhooks'].map(
      (name) => `test/faults/${name}.test.ts`,
    ),
    ...['approval', 'get-stream', 'health', 'resume', 'sessions'].map((name) => `test/cluster/${name}.test.ts`),
    'test/a2a/restart.test.ts',
  ],
  // Assessments of genuine programs, which start hundreds of processes, of an installed third-party server, and of hostile
  // ones.
  'test:assess': ['genuine-programs', 'genuine-web', 'hostile'].map((name) => `test/assess/${name}.test.ts`),
  // The official suite for clients and authorization, and against its own fixtures, without a gateway.
  'test:conformance': ['auth', 'authorization-server', 'client', 'fixtures'].map(
    (name) => `test/conformance/${name}.test.ts`,
  ),
  // Requirements about pairs of revisions.
  'test:eras': ['test/eras/rows-*.test.ts'],
  // The package, and a clone, installed into an empty folder.
  'test:package': ['test/newcomer/package.test.ts', 'test/newcomer/clean-clone.test.ts'],
  'test:soak': ['test/era-bridge/soak.test.ts'],
};
const others = Object.entries(OWN_SCRIPTS)
  .filter(([name]) => name !== script && !(faults && name === 'test:faults'))
  .flatMap(([, files]) => files);
/** Promises that name a time, so nothing else runs beside them. */
const TIMED = ['cluster-streams', 'cluster-frozen', 'flooding-caller'].map((name) => `test/faults/${name}.test.ts`);

export default defineConfig({
  test: {
    reporters: ['default', './test/support/reporter.ts'],
    teardownTimeout: 30_000,
    projects: [
      {
        // They are beside the file they test.
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'],
          // Times of a busy machine: a test that ends late is no failure.
          testTimeout: 120_000,
          hookTimeout: 120_000,
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
          exclude: [...configDefaults.exclude, ...others, ...TIMED],
          // Loading the product anew for each file takes a twelfth of the time. Faults are timed, so they keep apart.
          isolate: faults,
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
