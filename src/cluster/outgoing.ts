import { performance } from 'node:perf_hooks';
import { sleep } from '../core/timing.js';
import type { Bus } from '../state/bus.js';
import { isStateError, StateError } from '../state/errors.js';

/** Messages that were sent together. `n` rises with every envelope of a sender, so that one sent twice is read once. */
export interface Envelope<L> {
  readonly from: string;
  readonly n: number;
  readonly messages: readonly L[];
}

interface Waiting<L> {
  readonly message: L;
  readonly size: number;
  readonly until: number;
  /** It was part of an append nobody knows the end of. */
  doubtful: boolean;
  resolve(): void;
  reject(error: StateError): void;
}

/** Inboxes are read at once; what is kept is for a reader that has to catch up after the bus was away. */
const KEPT = { maxLen: 10_000, maxBytes: 64 * 1024 * 1024, ttlMs: 24 * 3_600_000 };
const MESSAGES = 500;
const BYTES = 1024 * 1024;
const PAUSE = 200;
/** What may wait for a bus that is away; then new messages are refused at once. */
const MOST_WAITING = 10_000;

/** One stream others read, and the messages on their way to it: in order, many in one append, repeated until they arrive. */
export class Outgoing<L> {
  private readonly queue: Waiting<L>[] = [];
  private sending = false;
  private used = performance.now();
  private closed = false;

  constructor(
    private readonly bus: Bus,
    private readonly stream: string,
    private readonly from: string,
    /** The number of the sender's next envelope, whichever stream it goes to. */
    private readonly number: () => number,
  ) {}

  /** How long ago the last message left; 0 while one is on its way. */
  get idle(): number {
    return this.sending ? 0 : performance.now() - this.used;
  }

  /** Resolves once the message is in the stream. Rejects when that took longer than `patience`. */
  post(message: L, patience: number): Promise<void> {
    if (this.closed || this.queue.length >= MOST_WAITING)
      return Promise.reject(new StateError('overloaded', 'too many messages to other replicas are waiting'));
    return new Promise((resolve, reject) => {
      const size = JSON.stringify(message).length;
      const until = performance.now() + patience;
      this.queue.push({ message, size, until, doubtful: false, resolve, reject });
      if (!this.sending) void this.send();
    });
  }

  private async send(): Promise<void> {
    this.sending = true;
    while (this.queue.length > 0 && !this.closed) await this.deliver(this.next(), this.number());
    this.used = performance.now();
    this.sending = false;
  }

  private next(): Waiting<L>[] {
    let size = 0;
    let count = 0;
    for (const waiting of this.queue) {
      size += waiting.size;
      if (count > 0 && (size > BYTES || count >= MESSAGES)) break;
      count++;
    }
    return this.queue.splice(0, count);
  }

  private async deliver(batch: Waiting<L>[], n: number): Promise<void> {
    let left = batch;
    while (left.length > 0) {
      try {
        const envelope: Envelope<L> = { from: this.from, n, messages: left.map(({ message }) => message) };
        await this.bus.append(this.stream, JSON.stringify(envelope), KEPT);
        for (const { resolve } of left) resolve();
        return;
      } catch (error) {
        if (!isStateError(error) || (error.outcome === 'unknown' && error.retryable))
          for (const waiting of left) waiting.doubtful = true;
        left = this.patient(left, error as Error);
        const still = this.patient(this.queue.splice(0), error as Error);
        this.queue.unshift(...still);
        if (left.length > 0) await sleep(PAUSE, { ref: false });
      }
    }
  }

  /** Those that can wait longer; the others are told. */
  private patient(waiting: Waiting<L>[], cause: Error): Waiting<L>[] {
    const now = this.closed ? Number.POSITIVE_INFINITY : performance.now();
    return waiting.filter((one) => {
      if (one.until > now) return true;
      const outcome = one.doubtful ? 'unknown' : 'not_executed';
      one.reject(new StateError('unavailable', cause.message, { cause, outcome }));
      return false;
    });
  }

  close(): void {
    this.closed = true;
    this.queue.splice(0, this.queue.length, ...this.patient(this.queue, new Error('this replica is leaving')));
  }
}
