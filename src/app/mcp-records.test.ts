import { expect, test } from 'vitest';
import type { State } from '../state/index.js';
import { SILENT } from '../telemetry/log.js';
import { rememberedVerdicts } from './mcp-records.js';

test('verdicts of servers that come and go stay bounded in memory, and those of servers in use are kept', async () => {
  const state = { verdicts: { all: async () => [], put: async () => {} } } as unknown as State;
  const verdicts = await rememberedVerdicts(state, SILENT);
  const verdict = { at: 1 } as never;
  verdicts.remember('in use', verdict);
  for (let i = 0; i < 30_000; i++) {
    verdicts.remember(`gone ${i}`, verdict);
    if (i % 1_000 === 0) expect(verdicts.recall('in use')).toBe(verdict);
  }
  expect(verdicts.recall('gone 29999')).toBe(verdict);
  expect(verdicts.recall('gone 0')).toBeUndefined();
  expect(verdicts.recall('in use')).toBe(verdict);
});
