import { lengthOf } from '../../protocol/jsonrpc/json-pieces.js';
import { STREAM_HEADERS, writeComment } from '../../protocol/sse/writer.js';
import type { InboundResponse } from './response.js';

/** The maximum number of unread bytes for one client; beyond it the connection is closed (fault 13). */
const MOST_UNREAD = 1024 * 1024;
const PING = 15_000;
/**
 * The maximum age of a stream that the client can open again. A client that vanished without closing the connection
 * looks like a quiet client (fault 15).
 */
export const STREAM_AGE = 10 * 60 * 1000;

export interface StreamTimes {
  readonly ping?: number;
  /** The maximum age of the stream in milliseconds; unlimited if absent. */
  readonly maxAge?: number;
  /** Sends a closing message before the stream ends because of its age. */
  aged?(): void;
}

const HEADERS: readonly string[] = Object.entries(STREAM_HEADERS).flat();

/** An event stream to one client: kept open with comments, closed when the client stops reading. */
export class EventResponse {
  private readonly ping: NodeJS.Timeout;
  private readonly age: NodeJS.Timeout | undefined;
  /** Whether the stream has ended. */
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

  /** One message may be larger than the limit of unread bytes; it is sent if no other bytes wait. */
  private allowance = 0;

  allow(bytes: number): void {
    this.allowance = Math.max(this.allowance, bytes);
  }

  /** Sends a whole message of any size. */
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
