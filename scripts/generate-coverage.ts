/**
 * Writes docs/coverage.md from the names of the tests.
 *
 *   node --import ./test/support/ts.mjs scripts/generate-coverage.ts
 */
import { writeFileSync } from 'node:fs';
import { coverageDocument } from '../test/coverage/table.js';

writeFileSync(new URL('../docs/coverage.md', import.meta.url), coverageDocument());
