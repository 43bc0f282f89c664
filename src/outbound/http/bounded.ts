import { type HttpHeaders, headerOf } from '../../protocol/http/fields.js';
import { type Abortable, HttpError, type HttpFailure, type HttpReply } from './exchange.js';

export interface Bounds {
  /** Milliseconds that one exchange may take from beginning to end. */
  readonly timeout?: number;
  /** Bytes that one reply may have. */
  readonly maxReply?: number;
}

/** An exchange within the bounds of its client. */
export class Bounded implements HttpReply, Abortable {
  exchange: (Abortable & { readonly sent: boolean }) | undefined;
  private readonly timer: NodeJS.Timeout | undefined;
  private readonly most: number;
  private size = 0;
  private over = false;

  constructor(
    private readonly reply: HttpReply,
    { timeout, maxReply }: Bounds,
  ) {
    this.most = maxReply ?? Number.POSITIVE_INFINITY;
    if (timeout !== undefined) this.timer = setTimeout(() => this.exceed('takes too long'), timeout);
  }

  private finish(): boolean {
    if (this.over) return false;
    this.over = true;
    clearTimeout(this.timer);
    return true;
  }

  private exceed(why: string): void {
    const sent = this.exchange?.sent ?? false;
    if (!this.finish()) return;
    this.exchange?.abort();
    this.reply.fail({ sent, error: new HttpError('HTTP_LIMIT', why) });
  }

  abort(): void {
    if (this.finish()) this.exchange?.abort();
  }

  pause(): void {
    this.exchange?.pause?.();
  }

  resume(): void {
    this.exchange?.resume?.();
  }

  start(status: number, headers: HttpHeaders): void {
    if (this.over) return;
    this.reply.start(status, headers);
    if (Number(headerOf(headers, 'content-length') ?? 0) > this.most) this.exceed('is too large');
  }

  room(length: number): Buffer | undefined {
    return this.over ? undefined : this.reply.room?.(length);
  }

  data(chunk: Buffer): void {
    this.size += chunk.length;
    if (this.size > this.most) this.exceed('is too large');
    else if (!this.over) this.reply.data(chunk);
  }

  end(): void {
    if (this.over) return;
    // Should this throw, it is not over yet: the failure is heard.
    this.reply.end();
    this.finish();
  }

  fail(failure: HttpFailure): void {
    if (this.finish()) this.reply.fail(failure);
  }
}
