/** What a user of the client says and hears. */
import type { HttpHeaders } from '../../protocol/http/fields.js';

export interface HttpTarget {
  readonly origin: string;
  readonly path: string;
}

export function httpTarget(url: string | URL): HttpTarget {
  const parsed = new URL(url);
  return { origin: parsed.origin, path: `${parsed.pathname}${parsed.search}` };
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Flat name/value pairs. */
  readonly headers: readonly string[];
  readonly body?: Buffer;
}

export interface HttpFailure {
  /** Whether a byte of the request may have reached the server. */
  readonly sent: boolean;
  readonly error: Error;
}

/**
 * Hears of one exchange. `end` or `fail` comes last, exactly once, unless the exchange was aborted. Where one of the
 * others throws, the exchange fails with what it threw.
 */
export interface HttpReply {
  start(status: number, headers: HttpHeaders): void;
  /**
   * A body of so many bytes follows, not all of which have come yet. Where this returns a buffer of that length the body
   * is read straight into it, and what `data` hands over are parts of that buffer.
   */
  room?(length: number): Buffer | undefined;
  data(chunk: Buffer): void;
  end(): void;
  fail(failure: HttpFailure): void;
}

export interface Abortable {
  abort(): void;
  /**
   * No more of the reply is read until `resume`, so that whoever writes it has to wait. One that was complete by then
   * still ends.
   */
  pause?(): void;
  resume?(): void;
}

export type HttpErrorCode =
  /** No connection within the time there is for one. */
  | 'ETIMEDOUT'
  /** The connection went away before the reply was complete. */
  | 'ECONNRESET'
  /** The request cannot be written as HTTP. */
  | 'HTTP_UNSENDABLE'
  /** The reply went beyond what the client allows. */
  | 'HTTP_LIMIT';

export class HttpError extends Error {
  override readonly name = 'HttpError';

  constructor(
    readonly code: HttpErrorCode,
    message: string,
  ) {
    super(message);
  }
}
