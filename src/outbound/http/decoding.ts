/** Replies that come compressed: gzip, deflate and br. The decoded bytes are what their readers count and bound. */
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import type { HttpHeaders } from '../../protocol/http/headers.js';
import { HttpError, type HttpReply } from './exchange.js';

/** The exchange whose reply is decoded. */
export interface Encoded {
  /** The decoder has enough for now. */
  hold(): void;
  /** The decoder takes more. */
  unhold(): void;
  ended(): void;
  failed(error: Error): void;
}

/** The low nibble of the first byte of the zlib format, which "deflate" means; some servers send the bare data. */
const ZLIB = 8;

const DECODERS: Readonly<Record<string, (first: number) => Transform>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  deflate: (first) => ((first & 0x0f) === ZLIB ? createInflate() : createInflateRaw()),
  br: () => createBrotliDecompress(),
};

/** The coding of a body, in lower case; undefined where it stands as it is. */
export function codingOf(headers: HttpHeaders): string | undefined {
  let coding: string | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] !== 'content-encoding') continue;
    const value = headers[i + 1]!.toLowerCase();
    if (value !== '' && value !== 'identity') coding = coding === undefined ? value : `${coding}, ${value}`;
  }
  return coding;
}

/** Stands between a compressed reply and its reader. */
export class Decoding implements Omit<HttpReply, 'fail'> {
  private readonly create: (first: number) => Transform;
  private stream: Transform | undefined;
  private paused = false;

  /** Throws where the coding is not known. */
  constructor(
    private readonly coding: string,
    private readonly reply: HttpReply,
    private readonly exchange: Encoded,
  ) {
    const create = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined;
    if (!create) throw new HttpError('HTTP_ENCODING', `the reply has the content coding ${JSON.stringify(coding)}`);
    this.create = create;
  }

  /** Length and coding are those of the compressed body. */
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
      this.exchange.failed(new HttpError('HTTP_ENCODING', `the body of the reply is not ${this.coding}`)),
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
