import { performance } from 'node:perf_hooks';
import { sleep } from '../core/timing.js';
import type { Bus } from '../state/bus.js';
import { isStateError, StateError } from '../state/errors.js';
import type { QueueBudget } from './session-streams/stream-writer.js';

/** Messages of one append. `n` rises with every envelope of a sender, so readers skip an envelope sent twice. */
export interface Envelope<L> {
  readonly from: string;
  readonly n: number;
  readonly messages: readonly L[];
}

interface Waiting<L> {
  readonly message: L;
  readonly size: number;
  readonly until: number;
  /** The message was part of an append whose outcome is unknown. */
  doubtful: boolean;
  resolve(): void;
  reject(error: StateError): void;
}

/** Readers read their inboxes immediately. The stream keeps messages for readers that catch up after a bus outage. */
const KEPT = { maxLen: 10_000, maxBytes: 64 * 1024 * 1024, ttlMs: 24 * 3_600_000 };
const MESSAGES = 500;
const BYTES = 1024 * 1024;
const PAUSE = 200;
/** Maximum number of messages that wait while the bus is away. Further messages are refused at once. */
const MOST_WAITING = 10_000;
/** Messages of at most this length are limited in number only, so that errors and cancellations can always be sent. */
const SMALL = 4 * 1024;

/**
 * Sends messages to one stream that other replicas read. Keeps their order, sends many messages in one append, and
 * repeats a failed append.
 */
export class Outgoing<L> {
  private readonly queue: Waiting<L>[] = [];
  private sending = false;
  private used = performance.now();
  private closed = false;

  constructor(
    private readonly bus: Bus,
    private readonly stream: string,
    private readonly from: string,
    /** The number of the sender's next envelope, counted over all streams. */
    private readonly number: () => number,
    /** The bytes of the messages that wait, to all replicas. */
    private readonly budget: QueueBudget,
  ) {}

  /** Milliseconds since the last message was sent; 0 while a message is being sent. */
  get idle(): number {
    return this.sending ? 0 : performance.now() - this.used;
  }

  /** Resolves when the message is in the stream. Rejects if an append fails after more than `patience` milliseconds. */
  post(message: L, patience: number): Promise<void> {
    const size = JSON.stringify(message).length;
    const counted = size > SMALL ? size : 0;
    if (this.closed || this.queue.length >= MOST_WAITING || !this.budget.take(counted))
      return Promise.reject(new StateError('overloaded', 'too many messages to other replicas are waiting'));
    const sent = new Promise<void>((resolve, reject) => {
      const until = performance.now() + patience;
      this.queue.push({ message, size, until, doubtful: false, resolve, reject });
      if (!this.sending) void this.send();
    });
    return sent.finally(() => this.budget.giveBack(counted));
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

  /** Returns the messages that can wait longer, and rejects the others. */
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
