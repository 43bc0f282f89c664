import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

const cores = availableParallelism();

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
          maxWorkers: cores,
          sequence: { groupOrder: 0 },
        },
      },
      {
        // Gateways, servers, databases and clients as processes of their own. After the others, and few at a time: each
        // file keeps more than one core busy by itself.
        test: {
          name: 'system',
          include: ['test/**/*.test.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: Math.max(2, Math.floor(cores / 2)),
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
