/**
 * Every client against the agent of its own version, and two pairs of different versions; `npm run test:a2a` runs all
 * pairs.
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { COLUMNS } from '../fixtures/a2a/agents.js';
import { ROWS } from '../fixtures/a2a/clients.js';
import { CASES } from './cases/index.js';
import { runCell } from './matrix.js';
import { openTestbed, type Testbed } from './testbed.js';

const own = ROWS.map((row) => {
  const column = COLUMNS.find(
    ({ version, binding, variant }) => version === row.version && binding === row.binding && !variant,
  )!;
  return [row.name, column.name] as const;
});
const pairs = [...own, ['1.0 grpc', 'first-rpc'] as const, ['0.1 jsonrpc', 'one-plain'] as const];
const columns = COLUMNS.filter(({ name }) => pairs.some(([, column]) => column === name));

let testbed: Testbed;

beforeAll(async () => {
  // The agents' SDKs print every webhook delivery and every closed stream.
  for (const method of ['log', 'info', 'warn', 'error'] as const)
    vi.spyOn(console, method).mockImplementation(() => {});
  testbed = await openTestbed(columns);
});
afterAll(() => testbed?.close());

// The pairs run in parallel, each with about fifty cases: this takes minutes on a busy machine.
test.concurrent.each(pairs)(
  'S1-43, S1-48, S1-49, S1-50, S1-51, S1-53, S1-54: a client of %s and the agent %s',
  { timeout: 600_000 },
  async (rowName, columnName) => {
    const row = ROWS.find(({ name }) => name === rowName)!;
    const column = COLUMNS.find(({ name }) => name === columnName)!;
    const outcomes = await runCell(testbed, row, column, CASES);
    expect(outcomes.filter(({ problem }) => problem !== undefined)).toEqual([]);
  },
);
