import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { keyVariables } from './parley-variables.js';
import { renderReference } from './reference-page.js';
import { SCHEMA } from './schema.js';

test('docs/configuration.md matches the schema (run scripts/generate-config-reference.mjs)', () => {
  expect(readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8')).toBe(renderReference());
});

test('every key and every variable is documented', () => {
  const text = renderReference();
  for (const { key, variable } of keyVariables(SCHEMA)) expect(text).toContain(`| \`${variable}\` | \`${key}\` |`);
  for (const old of ['MCP_SSE_TRANSPORT_ENABLED', 'LLMROUTER_ENABLE_MCP_TOOL_INVOCATION']) expect(text).toContain(old);
});
