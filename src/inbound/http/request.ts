import type { IncomingMessage } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { requestIdFrom } from '../../core/request-id.js';
import type { AuthenticationRequest, ClientCertificate } from '../../identity/authenticator.js';
import { ProtocolError } from '../../protocol/errors.js';
import { BodyBuffer } from '../../protocol/http/body-buffer.js';
import type { Forwarded } from './forwarded.js';
import type { Upgrade } from './upgrade.js';

/** A request from `node:http` or `node:http2`. */
export type Incoming = IncomingMessage | Http2ServerRequest;

/** The connection as its requests see it. */
export interface RequestSource {
  /** The address of the peer: the client, or the proxy in front of it. */
  readonly peer: string;
  readonly encrypted: boolean;
  /** Whether the peer is a trusted proxy, whose forwarding headers count. */
  readonly trusted: boolean;
  /** The subject of the client's verified certificate; undefined without a certificate. */
  readonly certificate: ClientCertificate | undefined;
  /**
   * Identifies the connection. Undefined in HTTP/2, where one connection carries many exchanges at a time: a request on
   * it does not prove that earlier responses were read.
   */
  readonly identity: object | undefined;
  /** Milliseconds for a body to arrive; undefined if the protocol library limits the time itself. */
  readonly bodyTime: number | undefined;
}

/** One request: its head, and its body on demand. */
export class InboundRequest implements AuthenticationRequest {
  readonly method: string;
  /** The client's data from the headers of a trusted proxy. */
  forwarded: Forwarded | undefined;
  /** Whether the request only waits for messages, so that it ends when the credential of its caller ends. */
  listens: boolean;
  /** Set if the client requests another protocol on its connection. */
  upgrade: Upgrade | undefined;
  private body: Body | undefined;
  private failure: ProtocolError | undefined;
  private ownId: string | undefined;

  constructor(
    private readonly message: Incoming | undefined,
    /** Path and query. */
    readonly target: string,
    readonly source: RequestSource,
    /** Requests the body from the client; undefined if the client sends it without a request. */
    private askForBody: (() => void) | undefined,
  ) {
    this.method = message?.method ?? '';
    this.listens = this.method === 'GET';
  }

  /** A header by its name in lower case. For `Host`, the authority of HTTP/2 takes precedence. */
  header(name: string): string | undefined {
    const headers = this.message?.headers;
    if (headers === undefined) return undefined;
    const value = name === 'host' ? (headers[':authority'] ?? headers.host) : headers[name];
    return typeof value === 'string' ? value : undefined;
  }

  /** The id of this request in logs and errors: the id that the client or a proxy sent, or a new id. */
  get id(): string {
    this.ownId ??= requestIdFrom(this.header('x-request-id'));
    return this.ownId;
  }

  /** Whether the whole request has arrived. */
  get complete(): boolean {
    return this.message?.complete ?? true;
  }

  /** The address of the client: from a trusted proxy, otherwise the peer's. */
  get clientAddress(): string {
    return this.forwarded?.address ?? this.source.peer;
  }

  /** Path and query, unchanged. */
  get url(): string {
    return this.target;
  }

  get peer(): string {
    return this.clientAddress;
  }

  get certificate(): ClientCertificate | undefined {
    return this.source.certificate;
  }

  /** The URL by which the client reached the gateway, from a trusted proxy or from its own Host header. */
  get reachedUrl(): string | undefined {
    const host = this.forwarded?.host ?? this.header('host');
    const scheme = this.forwarded?.scheme ?? (this.source.encrypted ? 'https' : 'http');
    return host === undefined ? undefined : `${scheme}://${host}`;
  }

  /** The URL by which the client reached the gateway, but only if a trusted proxy reports this URL. */
  get forwardedUrl(): string | undefined {
    return this.forwarded && this.reachedUrl;
  }

  /**
   * Reads the body, once. A body beyond the limit is not kept; the error names the setting unless the limit is fixed.
   */
  read(limit: number, source: LimitSource = 'limits.body'): Promise<Buffer> {
    const { message } = this;
    if (this.failure) throw this.failure;
    if (!message) return Promise.resolve(Buffer.alloc(0));
    if (Number(message.headers['content-length'] ?? 0) > limit) throw tooLarge(limit, source);
    return new Promise((resolve, reject) => {
      this.body = new Body(message, limit, source, this.source.bodyTime, resolve, reject);
      this.askForBody?.();
    });
  }

  /** The number of bytes of the body that were read. */
  get bodySize(): number {
    return this.body?.size ?? 0;
  }

  /** The exchange has ended: no more of the body arrives. */
  over(): void {
    if (this.body ? this.body.pending : !this.complete) this.fail(endedEarly());
  }

  /** Called when the rest of the body will not arrive. Returns whether a reader waits for the body and gets the error. */
  fail(error: ProtocolError): boolean {
    this.failure ??= error;
    return this.body?.fail(this.failure) ?? false;
  }
}

/** The setting with the limit of a body, or `fixed` if no setting changes the limit. */
export type LimitSource = 'limits.body' | 'fixed';

const BODY = Symbol('body');
type Carrier = Incoming & { [BODY]?: Body };

/** An incoming body. */
class Body {
  private readonly parts = new BodyBuffer();
  private readonly timer: NodeJS.Timeout | undefined;
  private over = false;
  size = 0;

  constructor(
    private readonly message: Incoming,
    private readonly limit: number,
    private readonly source: LimitSource,
    time: number | undefined,
    private readonly resolve: (body: Buffer) => void,
    private readonly reject: (error: ProtocolError) => void,
  ) {
    (message as Carrier)[BODY] = this;
    if (time !== undefined && !message.complete) this.timer = setTimeout(() => this.fail(tooSlow(time)), time).unref();
    message.on('data', onData);
    message.on('end', onEnd);
    message.on('error', ignored);
  }

  get pending(): boolean {
    return !this.over;
  }

  add(part: Buffer): void {
    if (this.over) return;
    if (this.parts.size + part.length > this.limit) this.fail(tooLarge(this.limit, this.source));
    else {
      this.size += part.length;
      this.parts.add(part);
    }
  }

  end(): void {
    if (this.over) return;
    // In HTTP/2 the body also ends if the client cancels its request.
    if (!this.message.complete || this.message.aborted) {
      this.fail(endedEarly());
      return;
    }
    this.settle();
    this.resolve(this.parts.take());
  }

  fail(error: ProtocolError): boolean {
    if (this.over) return false;
    this.settle();
    this.parts.drop();
    this.reject(error);
    return true;
  }

  private settle(): void {
    this.over = true;
    clearTimeout(this.timer);
  }
}

// One shared function, so that no closure is created per request.
function onData(this: Incoming, part: Buffer): void {
  (this as Carrier)[BODY]?.add(part);
}
function onEnd(this: Incoming): void {
  (this as Carrier)[BODY]?.end();
}
/** Errors are ignored here, because the response also closes and reports them. */
export function ignored(): void {}

const CLOSE = { headers: { Connection: 'close' } };

const tooLarge = (limit: number, source: LimitSource): ProtocolError => {
  const setting = source === 'fixed' ? '' : ` ("${source}")`;
  return new ProtocolError('body_too_large', `The body exceeds ${limit} bytes${setting}`, CLOSE);
};

const endedEarly = (): ProtocolError => new ProtocolError('invalid_request', 'The body ended early');

const tooSlow = (time: number): ProtocolError =>
  new ProtocolError('request_timeout', `A request has ${time / 1_000} seconds to arrive ("timeouts.request")`, CLOSE);
