import type { Abortable } from '../http/index.js';

/**
 * A bounded queue between an agent's stream and its reader. If the reader is slow, the queue pauses the stream instead
 * of filling memory. If the reader stops, the queue closes the stream.
 */
export class EventQueue<T> implements AsyncIterable<T>, AsyncIterator<T, undefined> {
  private readonly waiting: { readonly item: T; readonly bytes: number }[] = [];
  private bytes = 0;
  private over = false;
  private failure: Error | undefined;
  private wake: (() => void) | undefined;
  private stream: Abortable | undefined;
  private paused = false;

  /** `limit` is the maximum number of unread bytes. */
  constructor(private readonly limit: number) {}

  open(stream: Abortable): void {
    this.stream = stream;
    if (this.over) stream.abort();
  }

  push(item: T, bytes: number): void {
    if (this.over) return;
    this.waiting.push({ item, bytes });
    this.bytes += bytes;
    if (this.bytes > this.limit && !this.paused) {
      this.paused = true;
      this.stream?.pause?.();
    }
    this.tell();
  }

  /** Ends the queue. Unread events can still be read. */
  end(): void {
    this.over = true;
    this.tell();
  }

  fail(error: Error): void {
    if (this.over) return;
    this.over = true;
    this.failure = error;
    this.tell();
  }

  private tell(): void {
    const { wake } = this;
    this.wake = undefined;
    wake?.();
  }

  private news(): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve;
    });
  }

  /** Resolves with true at the first event and with false at an end without events. Throws the error of the stream. */
  async started(): Promise<boolean> {
    while (this.waiting.length === 0) {
      if (this.failure) throw this.failure;
      if (this.over) return false;
      await this.news();
    }
    return true;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    if (!(await this.started())) return { done: true, value: undefined };
    const { item, bytes } = this.waiting.shift()!;
    this.bytes -= bytes;
    if (this.paused && this.bytes <= this.limit / 2) {
      this.paused = false;
      this.stream?.resume?.();
    }
    return { done: false, value: item };
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.over = true;
    this.failure = undefined;
    this.waiting.length = 0;
    this.stream?.abort();
    this.tell();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
