import { sleep } from '../../src/core/timing.js';

/** Waits for a condition, and returns the value that satisfies it. */
export async function eventually<T>(
  look: () => T | Promise<T>,
  holds: (value: T) => boolean,
  patience = 15_000,
): Promise<T> {
  const deadline = Date.now() + patience;
  for (;;) {
    const value = await look();
    if (holds(value)) return value;
    if (Date.now() > deadline) throw new Error(`timeout; last seen: ${JSON.stringify(value)}`);
    await sleep(20);
  }
}
