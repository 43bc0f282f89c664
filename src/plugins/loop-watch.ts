/** Notices that the event loop stood still while hooks of plugins were waiting for their own asynchronous work. */
import { cpuUsage } from 'node:process';

/** A plugin whose code may run at any turn of the event loop. */
export interface Suspect {
  /** The longest acceptable block, in milliseconds. */
  readonly blockLimit: number;
  /** The loop stood still for this long. `alone`: no other plugin was waiting. */
  suspected(milliseconds: number, alone: boolean): void;
}

const INTERVAL = 50;
/** A suspended process and a busy machine also delay timers; a block uses the processor for this part of its limit. */
const BUSY_PART = 0.5;

export class LoopWatch {
  private readonly waiting = new Map<Suspect, number>();
  private timer: NodeJS.Timeout | undefined;
  private last = 0;
  private used = 0;

  /** The hook of a plugin waits. Returns the function that says that the hook is over. */
  enter(suspect: Suspect): () => void {
    this.waiting.set(suspect, (this.waiting.get(suspect) ?? 0) + 1);
    if (!this.timer) {
      this.mark();
      this.timer = setInterval(() => this.check(), INTERVAL).unref();
    }
    return () => {
      // The block may end in the same turn as the hook, before any timer runs.
      this.check();
      const left = (this.waiting.get(suspect) ?? 1) - 1;
      if (left > 0) this.waiting.set(suspect, left);
      else this.waiting.delete(suspect);
      if (this.waiting.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  }

  private mark(): void {
    this.last = performance.now();
    this.used = processorTime();
  }

  private check(): void {
    const stood = performance.now() - this.last;
    if (stood < 2 * INTERVAL) {
      // Only a timer begins the next measurement: a hook that ends proves nothing about the loop.
      this.mark();
      return;
    }
    const used = processorTime() - this.used;
    this.mark();
    const suspects = [...this.waiting.keys()].filter(
      ({ blockLimit }) => stood - INTERVAL > blockLimit && used > blockLimit * BUSY_PART,
    );
    for (const suspect of suspects) suspect.suspected(Math.round(stood), this.waiting.size === 1);
  }
}

/** The processor time of this process, in milliseconds. */
export function processorTime(): number {
  const { user, system } = cpuUsage();
  return (user + system) / 1_000;
}
