/** What has to be added to this process's monotonic clock to have the engine's time of day. */
let ahead: number | undefined;
/** How long the answer took that this was read from: it is wrong by half of that at most. */
let doubt = 0;

/**
 * The time of day by which rows expire and ids are made. Replicas go by the clock of the database they share: one whose
 * own clock jumps neither loses what is its own nor removes what belongs to the others (case 30). Without such a
 * database it is the clock of the machine.
 */
export function wallMs(): number {
  return ahead === undefined ? Date.now() : Math.floor(performance.now() + ahead);
}

/**
 * The engine said what time it is, `took` milliseconds after it was asked. A quick answer says more than a slow one; a
 * slow one counts where it cannot be explained by its slowness.
 */
export function followEngine(engineMs: number, took: number): void {
  const next = engineMs + took / 2 - performance.now();
  if (ahead === undefined || took <= doubt || Math.abs(next - ahead) > (took + doubt) / 2) {
    ahead = next;
    doubt = took;
  } else doubt += DRIFT;
}
/** What is known of another clock grows old, by so much with every look at it. */
const DRIFT = 1;

/** Milliseconds of the machine-wide monotonic clock: the same in every thread and process, untouched by clock jumps. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
