// Records the messages that a peer received, one JSON line each, for the test.
import { appendFileSync } from 'node:fs';

/** @param {object} entry */
export function record(entry) {
  const file = process.env['RECORD'];
  if (file) appendFileSync(file, `${JSON.stringify(entry)}\n`);
}
