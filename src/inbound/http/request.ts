import { ProtocolError } from '../../protocol/errors.js';
import { type HttpHeaders, headerOf } from '../../protocol/http/fields.js';
import { Parts } from '../../protocol/http/parts.js';
import type { RequestHead } from './request-head.js';

/** What a request needs of the connection it came on. */
export interface BodySource {
  /** Tells the connection from others, also when it is gone. */
  readonly identity: object;
  /** The body is wanted now, and not all of it has come. */
  wanted(): void;
}

interface Reader {
  readonly limit: number;
  resolve(body: Buffer): void;
  reject(error: ProtocolError): void;
}

/** One request: what it says, and its body as it comes in. */
export class InboundRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: HttpHeaders;
  /** All of the body has come. */
  complete = false;
  private readonly parts = new Parts();
  private size = 0;
  private reader: Reader | undefined;
  private failure: ProtocolError | undefined;

  constructor(
    readonly head: RequestHead,
    readonly source: BodySource,
  ) {
    this.method = head.method;
    this.target = head.target;
    this.headers = head.headers;
  }

  /** A header by its name in lower case. */
  header(name: string): string | undefined {
    return headerOf(this.headers, name);
  }

  /** Bytes that have come and that nobody has asked for yet. */
  get waiting(): number {
    return this.reader ? 0 : this.size;
  }

  /** Nothing of the body has come. */
  get untouched(): boolean {
    return this.size === 0;
  }

  /** Reads the body, once. Beyond the limit the rest is not kept, and the connection does not outlive the answer. */
  read(limit: number): Promise<Buffer> | Buffer {
    const { length } = this.head;
    if (this.failure) throw this.failure;
    if (length > limit || this.size > limit) throw tooLarge(limit);
    if (this.complete) return this.parts.take();
    return new Promise((resolve, reject) => {
      this.reader = { limit, resolve, reject };
      this.source.wanted();
    });
  }

  push(part: Buffer): void {
    this.size += part.length;
    const { reader } = this;
    if (reader && this.size > reader.limit) this.fail(tooLarge(reader.limit));
    else if (!this.failure) this.parts.add(part);
  }

  end(): void {
    this.complete = true;
    this.reader?.resolve(this.parts.take());
    this.reader = undefined;
  }

  /** No more of the body is going to be read. Whether somebody is told. */
  fail(error: ProtocolError): boolean {
    if (this.complete || this.failure) return true;
    this.failure = error;
    this.parts.drop();
    const { reader } = this;
    this.reader = undefined;
    reader?.reject(error);
    return reader !== undefined;
  }
}

const tooLarge = (limit: number): ProtocolError =>
  new ProtocolError('body_too_large', `The body exceeds ${limit} bytes`, { headers: { Connection: 'close' } });
