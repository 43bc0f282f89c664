import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { A2A_REQUIREMENTS } from './a2a/requirements.js';
import { MCP_REQUIREMENTS } from './mcp/requirements.js';
import { PROFILES } from './profiles.js';
import { renderAssessReference } from './reference.js';

test('docs/assess.md matches the requirements (run scripts/generate-assess-reference.mjs)', () => {
  expect(readFileSync(new URL('../../docs/assess.md', import.meta.url), 'utf8')).toBe(renderAssessReference());
});

test('S1-35, S1-55, S1-83: the weights of each profile sum to 100, and each category has a requirement', () => {
  for (const { name, categories } of PROFILES) {
    for (const [protocol, rows] of [
      ['MCP', MCP_REQUIREMENTS],
      ['A2A', A2A_REQUIREMENTS],
    ] as const) {
      const own = categories[protocol];
      if (own.length === 0) continue;
      expect(
        own.reduce((sum, { weight }) => sum + weight, 0),
        `${name} ${protocol}`,
      ).toBeCloseTo(100);
      for (const category of own) expect(rows.some(category.has), `${name} ${protocol} ${category.name}`).toBe(true);
    }
  }
});
