/** The interface of the HTTP client: a target, a request, and the callbacks that receive the reply. */
import type { HttpHeaders } from '../../protocol/http/headers.js';

export interface HttpTarget {
  readonly origin: string;
  readonly path: string;
  /** Requests of different lanes never share a connection. Undefined for the default lane. */
  readonly lane?: string;
}

/** The same target in the lane of a credential, which has its own connections. */
export const inLane = (target: HttpTarget, key: string): HttpTarget =>
  key === '' ? target : { origin: target.origin, path: target.path, lane: key };

export function httpTarget(url: string | URL): HttpTarget {
  const parsed = new URL(url);
  return { origin: parsed.origin, path: `${parsed.pathname}${parsed.search}` };
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
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
 * Receives one reply. Exactly one call of `end` or `fail` comes last, unless the exchange was aborted. An exception in
 * one of the other methods fails the exchange with that error.
 */
export interface HttpReply {
  start(status: number, headers: HttpHeaders): void;
  data(chunk: Buffer): void;
  end(): void;
  fail(failure: HttpFailure): void;
}

export interface Abortable {
  abort(): void;
  /** Stops reading until `resume`, so that the server has to wait. A reply that is already complete still ends. */
  pause?(): void;
  resume?(): void;
}

export type HttpErrorCode =
  /** No connection within the connect timeout. */
  | 'ETIMEDOUT'
  /** No complete reply within the time limit of the request. */
  | 'REPLY_TIMEOUT'
  /** The reply is longer than the size limit of the request. */
  | 'REPLY_TOO_LARGE'
  /** The connection ended before the reply was complete. */
  | 'ECONNRESET'
  /** The request cannot be written as HTTP. */
  | 'HTTP_UNSENDABLE'
  /** The reply is not HTTP/1.1. */
  | 'HTTP_INVALID'
  /** The body of the reply cannot be decoded. */
  | 'HTTP_ENCODING'
  /** The proxy opened no connection to the server. */
  | 'HTTP_PROXY'
  /** A configured certificate or key cannot be used. */
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
