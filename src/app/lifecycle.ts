import type { Log } from '../telemetry/log.js';

/**
 * The parts of a running program, in the order in which they were started. They are stopped in the reverse order: at the end,
 * and where a later part cannot be started.
 */
export class Lifecycle {
  private readonly parts: { readonly name: string; stop(): unknown }[] = [];
  private stopping: Promise<void> | undefined;

  constructor(private readonly log: Log) {}

  /** Starts parts; where that fails, those that were started are stopped before the error is passed on. */
  async start<T>(make: () => Promise<T>): Promise<T> {
    try {
      return await make();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Says how to stop a part that was just made. Returns the part. */
  add<T>(name: string, part: T, stop: (part: T) => unknown): T {
    this.parts.push({ name, stop: () => stop(part) });
    return part;
  }

  /** Stops every part once, one after the other. A part that fails to stop is logged and holds up nobody. */
  stop(): Promise<void> {
    this.stopping ??= this.stopAll();
    return this.stopping;
  }

  private async stopAll(): Promise<void> {
    for (let part = this.parts.pop(); part; part = this.parts.pop()) {
      try {
        await part.stop();
      } catch (error) {
        this.log.error({ err: error, part: part.name }, 'a part of the gateway could not be stopped');
      }
    }
  }
}
