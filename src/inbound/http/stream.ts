import { lengthOf } from '../../protocol/jsonrpc/pieces.js';
import { STREAM_HEADERS, writeComment } from '../../protocol/sse/writer.js';
import type { InboundResponse } from './response.js';

/** A client that stops reading may owe so much; then its connection is closed (fault 13). */
const MOST_UNREAD = 1024 * 1024;
const PING = 15_000;
/** A client that vanished without a word looks like a quiet one; no stream that can be opened anew is older (fault 15). */
export const STREAM_AGE = 10 * 60 * 1000;

export interface StreamTimes {
  readonly ping?: number;
  /** When the stream is ended; without it, it may be open for ever. */
  readonly maxAge?: number;
  /** Says goodbye on a stream that is about to end of age. */
  aged?(): void;
}

const HEADERS: readonly string[] = Object.entries(STREAM_HEADERS).flat();

/** An event stream to one client: kept alive by comments, closed when the client no longer reads. */
export class EventResponse {
  private readonly ping: NodeJS.Timeout;
  private readonly age: NodeJS.Timeout | undefined;
  /** Nobody hears it any more. */
  over = false;

  constructor(
    private readonly res: InboundResponse,
    headers: readonly string[],
    times: StreamTimes = {},
  ) {
    res.open(200, [...headers, ...HEADERS]);
    this.ping = setInterval(
      () => this.write(writeComment(`ping ${Math.floor(Date.now() / 1000)}`)),
      times.ping ?? PING,
    );
    this.ping.unref();
    if (times.maxAge !== undefined) {
      this.age = setTimeout(() => {
        times.aged?.();
        this.end();
      }, times.maxAge);
      this.age.unref();
    }
    res.onClose(() => this.stop());
  }

  private stop(): void {
    this.over = true;
    clearInterval(this.ping);
    clearTimeout(this.age);
  }

  write(chunk: string | readonly Buffer[]): void {
    if (this.over) return;
    this.res.write(chunk);
    if (this.res.unread > MOST_UNREAD + this.allowance) this.res.destroy();
  }

  /** One message may be larger than what a slow reader may owe; it is let through when nothing else waits. */
  private allowance = 0;

  allow(bytes: number): void {
    this.allowance = Math.max(this.allowance, bytes);
  }

  /** Sends a message whole, however large it is. */
  message(event: readonly Buffer[]): void {
    this.allow(lengthOf(event));
    this.write(event);
  }

  end(): void {
    if (this.over) return;
    this.stop();
    this.res.end();
  }
}
