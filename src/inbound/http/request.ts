import { ProtocolError } from '../../protocol/errors.js';
import { type HttpHeaders, headerOf } from '../../protocol/http/fields.js';
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
  private parts: Buffer[] = [];
  private size = 0;
  /** Where small parts go at present, and how much of it they fill. */
  private block: Buffer | undefined;
  private filled = 0;
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
    if (this.complete) return this.whole();
    return new Promise((resolve, reject) => {
      this.reader = { limit, resolve, reject };
      this.source.wanted();
    });
  }

  private whole(): Buffer {
    const { parts } = this;
    // Whoever reads it has it; the request may be there for much longer.
    this.parts = [];
    this.block = undefined;
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts, this.size);
  }

  push(part: Buffer): void {
    this.size += part.length;
    const { reader } = this;
    if (reader && this.size > reader.limit) this.fail(tooLarge(reader.limit));
    else if (!this.failure) this.keep(part);
  }

  /**
   * What is not most of the memory it was read into is copied: it would keep the rest of that as well. Small parts are
   * copied together: each would be a hundred bytes of memory beside its own.
   */
  private keep(part: Buffer): void {
    const { parts } = this;
    const fills = part.length >= SMALL && part.length * 2 >= part.buffer.byteLength;
    if (fills || parts.length === 0 || part.length > BLOCK) {
      parts.push(fills || parts.length === 0 ? part : Buffer.from(part));
      this.block = undefined;
      return;
    }
    if (!this.block || this.filled + part.length > BLOCK) {
      this.block = Buffer.allocUnsafe(BLOCK);
      this.filled = 0;
      parts.push(this.block);
    }
    part.copy(this.block, this.filled);
    this.filled += part.length;
    parts[parts.length - 1] = this.block.subarray(0, this.filled);
  }

  end(): void {
    this.complete = true;
    this.reader?.resolve(this.whole());
    this.reader = undefined;
  }

  /** No more of the body is going to be read. Whether somebody is told. */
  fail(error: ProtocolError): boolean {
    if (this.complete || this.failure) return true;
    this.failure = error;
    this.parts = [];
    this.block = undefined;
    const { reader } = this;
    this.reader = undefined;
    reader?.reject(error);
    return reader !== undefined;
  }
}

const SMALL = 512;
const BLOCK = 4 * 1024;

const tooLarge = (limit: number): ProtocolError =>
  new ProtocolError('body_too_large', `The body exceeds ${limit} bytes`, { headers: { Connection: 'close' } });
