import type { Log } from '../telemetry/log.js';

/**
 * The parts of a running program, in the order in which they were started. They are stopped in reverse order, either
 * when the program ends or when a later part fails to start.
 */
export class Lifecycle {
  private readonly parts: { readonly name: string; stop(): unknown }[] = [];
  private stopping: Promise<void> | undefined;

  constructor(private readonly log: Log) {}

  /** Runs `make`, which starts parts. If it fails, stops the parts that were started and rethrows the error. */
  async start<T>(make: () => Promise<T>): Promise<T> {
    try {
      return await make();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Registers a part that was just started, with the function that stops it. Returns the part. */
  add<T>(name: string, part: T, stop: (part: T) => unknown): T {
    this.parts.push({ name, stop: () => stop(part) });
    return part;
  }

  /** Stops every part once, one after the other. A part that fails to stop is logged; the others still stop. */
  stop(): Promise<void> {
    this.stopping ??= this.stopAll();
    return this.stopping;
  }

  private async stopAll(): Promise<void> {
    for (let part = this.parts.pop(); part; part = this.parts.pop()) {
      try {
        await part.stop();
      } catch (error) {
        this.log.error({ err: error, part: part.name }, 'a part of the gateway failed to stop');
      }
    }
  }
}
