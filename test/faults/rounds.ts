/** `npm run test:faults` runs the full number of rounds; `npm test` runs a sample. */
export function rounds(full: number, sample: number): number {
  const given = Number(process.env['FAULT_ROUNDS']);
  if (given > 0) return given;
  return process.env['npm_lifecycle_event'] === 'test:faults' ? full : sample;
}

export { sleep } from '../../src/core/timing.js';
