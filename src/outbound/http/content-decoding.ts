/** Decodes compressed replies: gzip, deflate and br. Size limits apply to the decoded bytes. */
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import type { HttpHeaders } from '../../protocol/http/headers.js';
import { HttpError, type HttpReply } from './client-types.js';

/** The exchange whose reply is decoded. */
export interface Encoded {
  /** Stops reading, because the decoder's buffer is full. */
  hold(): void;
  /** Continues reading. */
  unhold(): void;
  ended(): void;
  failed(error: Error): void;
}

/** Low nibble of the first byte of the zlib format. "deflate" means zlib, but some servers send raw deflate data. */
const ZLIB = 8;

const DECODERS: Readonly<Record<string, (first: number) => Transform>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  deflate: (first) => ((first & 0x0f) === ZLIB ? createInflate() : createInflateRaw()),
  br: () => createBrotliDecompress(),
};

/** The content coding of a body, in lower case. Undefined if the body is not encoded. */
export function codingOf(headers: HttpHeaders): string | undefined {
  let coding: string | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] !== 'content-encoding') continue;
    const value = headers[i + 1]!.toLowerCase();
    if (value !== '' && value !== 'identity') coding = coding === undefined ? value : `${coding}, ${value}`;
  }
  return coding;
}

/** Passes the decoded body of a compressed reply to its reader. */
export class Decoding implements Omit<HttpReply, 'fail'> {
  private readonly create: (first: number) => Transform;
  private stream: Transform | undefined;
  private paused = false;

  /** Throws for an unknown coding. */
  constructor(
    private readonly coding: string,
    private readonly reply: HttpReply,
    private readonly exchange: Encoded,
  ) {
    const create = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined;
    if (!create)
      throw new HttpError('HTTP_ENCODING', `the reply has the unknown content coding ${JSON.stringify(coding)}`);
    this.create = create;
  }

  /** Removes the headers for length and coding, because they describe the compressed body. */
  start(status: number, headers: HttpHeaders): void {
    const decoded: string[] = [];
    for (let i = 0; i < headers.length; i += 2) {
      if (headers[i] !== 'content-encoding' && headers[i] !== 'content-length')
        decoded.push(headers[i]!, headers[i + 1]!);
    }
    this.reply.start(status, decoded);
  }

  data(chunk: Buffer): void {
    this.stream ??= this.open(chunk[0]!);
    if (!this.stream.write(chunk)) this.exchange.hold();
  }

  private open(first: number): Transform {
    const stream = this.create(first);
    stream.on('data', (chunk: Buffer) => this.trying(() => this.reply.data(chunk)));
    stream.on('drain', () => this.exchange.unhold());
    stream.on('end', () => this.trying(() => this.exchange.ended()));
    stream.on('error', () =>
      this.exchange.failed(new HttpError('HTTP_ENCODING', `the body of the reply is not valid ${this.coding}`)),
    );
    if (this.paused) stream.pause();
    return stream;
  }

  private trying(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.exchange.failed(error as Error);
    }
  }

  end(): void {
    if (this.stream) this.stream.end();
    else this.exchange.ended();
  }

  pause(): void {
    this.paused = true;
    this.stream?.pause();
  }

  resume(): void {
    this.paused = false;
    this.stream?.resume();
  }

  destroy(): void {
    this.stream?.on('error', () => {}).destroy();
  }
}
