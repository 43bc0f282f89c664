// What a peer saw, one JSON line each, for the test to read.
import { appendFileSync } from 'node:fs';

/** @param {object} entry */
export function record(entry) {
  const file = process.env['RECORD'];
  if (file) appendFileSync(file, `${JSON.stringify(entry)}\n`);
}
