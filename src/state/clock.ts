/** The engine's time of day minus this process's monotonic clock. */
let offset: number | undefined;
/** Round-trip time of the query that gave `offset`; the error of `offset` is at most half of it. */
let uncertainty = 0;

/**
 * The time of day for the expiry of rows and for ids. Replicas use the clock of their shared database, so that a
 * replica whose own clock jumps neither loses its rows nor removes those of others (case 30). Without a shared database
 * it is the clock of the machine.
 */
export function wallMs(): number {
  return offset === undefined ? Date.now() : Math.floor(performance.now() + offset);
}

/**
 * Takes a reading of the engine's clock from a query that took `took` milliseconds. A faster query is more exact, so
 * its reading replaces the offset. The reading of a slower query replaces the offset only if they differ by more than
 * both uncertainties allow.
 */
export function followEngine(engineMs: number, took: number): void {
  const next = engineMs + took / 2 - performance.now();
  if (offset === undefined || took <= uncertainty || Math.abs(next - offset) > (took + uncertainty) / 2) {
    offset = next;
    uncertainty = took;
  } else uncertainty += DRIFT;
}
/** Clocks drift apart, so the uncertainty grows by this much with every reading that is not used. */
const DRIFT = 1;

/** The monotonic clock of the machine in milliseconds: the same in every thread and process, without clock jumps. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
