/** The interface of the HTTP client: a target, a request, and the callbacks that receive the reply. */
import type { HttpHeaders } from '../../protocol/http/headers.js';

export interface HttpTarget {
  readonly origin: string;
  readonly path: string;
  /** Connections of one lane carry no requests of another; undefined for the lane that most requests use. */
  readonly lane?: string;
}

/** The same target by the connections of a credential. */
export const inLane = (target: HttpTarget, key: string): HttpTarget =>
  key === '' ? target : { origin: target.origin, path: target.path, lane: key };

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
 * Receives one reply. `end` or `fail` comes last, exactly once, unless the exchange was aborted. Where one of the others
 * throws, the exchange fails with that error.
 */
export interface HttpReply {
  start(status: number, headers: HttpHeaders): void;
  data(chunk: Buffer): void;
  end(): void;
  fail(failure: HttpFailure): void;
}

export interface Abortable {
  abort(): void;
  /** Stops reading until `resume`, so that the server has to wait. A reply that is complete by then still ends. */
  pause?(): void;
  resume?(): void;
}

export type HttpErrorCode =
  /** No connection within the connect timeout. */
  | 'ETIMEDOUT'
  /** The connection ended before the reply was complete. */
  | 'ECONNRESET'
  /** The request cannot be written as HTTP. */
  | 'HTTP_UNSENDABLE'
  /** The reply is not HTTP/1.1. */
  | 'HTTP_INVALID'
  /** The body of the reply cannot be decoded. */
  | 'HTTP_ENCODING'
  /** The proxy opened no way to the server. */
  | 'HTTP_PROXY'
  /** Certificates or keys that are configured cannot be used. */
  | 'TLS_SETTINGS';

export class HttpError extends Error {
  override readonly name = 'HttpError';

  constructor(
    readonly code: HttpErrorCode,
    message: string,
  ) {
    super(message);
  }
}
