import { getHeapStatistics } from 'node:v8';
import { ProtocolError } from '../protocol/errors.js';
import type { Log } from '../telemetry/log.js';

export interface OverloadOptions {
  /** Calls are refused while the event loop is delayed by at least this, in milliseconds. */
  readonly eventLoopDelay: number;
  /** Calls are refused while at least this part of the heap is in use, in percent; 100: never. */
  readonly heapPercent: number;
  readonly log: Log;
  /** The used part of the heap in percent. */
  readonly heap?: () => number;
}

/** Interval of the measurements, in milliseconds. */
const SAMPLE = 100;
/** A single late timer may mean that the process was suspended. Several late timers in a row mean overload. */
const LATE_IN_A_ROW = 3;
const HEAP_EVERY = 5;
const RETRY_AFTER = '2';

/** Notices that the process cannot keep up: its timers are late, or its heap is almost full (S23). */
export class Overload {
  private late = 0;
  private samples = 0;
  private expected = 0;
  private full = false;
  private shedding = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: OverloadOptions) {}

  start(): void {
    this.expected = performance.now() + SAMPLE;
    this.timer = setInterval(() => this.sample(performance.now()), SAMPLE).unref();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  /** The refusal of a call while the process is overloaded; the call has not begun. */
  readonly refusal = (): ProtocolError | undefined =>
    this.shedding
      ? new ProtocolError('overloaded', 'The gateway is overloaded; try again in a few seconds', {
          outcome: 'not_executed',
          forTheModel: false,
          headers: { 'Retry-After': RETRY_AFTER },
        })
      : undefined;

  private sample(now: number): void {
    const delay = now - this.expected;
    this.expected = now + SAMPLE;
    this.late = delay >= this.options.eventLoopDelay ? this.late + 1 : 0;
    if (this.samples++ % HEAP_EVERY === 0) this.full = this.heapIsFull();
    this.update(this.late >= LATE_IN_A_ROW || this.full, Math.round(delay));
  }

  private heapIsFull(): boolean {
    const { heapPercent, heap = heapUsed } = this.options;
    return heapPercent < 100 && heap() >= heapPercent;
  }

  private update(shedding: boolean, delay: number): void {
    if (shedding === this.shedding) return;
    this.shedding = shedding;
    const { log } = this.options;
    if (shedding) log.warn({ eventLoopDelayMs: delay, heapFull: this.full }, 'overloaded: refusing calls with 503');
    else log.info({}, 'no longer overloaded: serving calls again');
  }
}

function heapUsed(): number {
  const { used_heap_size, heap_size_limit } = getHeapStatistics();
  return (100 * used_heap_size) / heap_size_limit;
}
