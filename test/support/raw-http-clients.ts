/** The inbound HTTP server on real sockets, and clients that send arbitrary bytes. */
import { connect, type Socket } from 'node:net';
import { expect } from 'vitest';
import { sleep } from '../../src/core/timing.js';
import { Listener, type ListenerSettings } from '../../src/inbound/http/listener.js';
import type { InboundRequest } from '../../src/inbound/http/request.js';
import type { InboundResponse } from '../../src/inbound/http/response.js';
import { ProtocolError } from '../../src/protocol/errors.js';
import { SILENT } from '../../src/telemetry/log.js';

export type Handle = (req: InboundRequest, res: InboundResponse) => void;

export { sleep };
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const open: (() => Promise<void> | void)[] = [];

/** Closes all servers and sockets of a test. */
export async function closeAll(): Promise<void> {
  for (const close of open.splice(0)) await close();
}

export const refuse = (_: InboundRequest, res: InboundResponse, error: unknown): void => {
  if (!(error instanceof ProtocolError)) throw error;
  res.sendText(error.row.http, Object.entries(error.detail.headers ?? {}).flat(), `${error.reason}: ${error.message}`);
};

/** Handles an error that no test expects. */
export const failed = (error: unknown): void => {
  throw error;
};

export async function until(holds: () => boolean, what: () => unknown = () => ''): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`timed out waiting for: ${JSON.stringify(what())?.slice(0, 500)}`);
    await sleep(2);
  }
}

/** Events that the listener reported. */
export interface Told {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export async function serve(
  handle: Handle,
  settings: Partial<ListenerSettings> = {},
): Promise<{ port: number; listener: Listener; told: Told[] }> {
  const told: Told[] = [];
  const note = (fields: object, message: string): void => void told.push({ fields: { ...fields }, message });
  const listener = new Listener({
    settings: { log: { ...SILENT, info: note, warn: note }, ...settings },
    handle,
    refuse,
    failed,
  });
  const { port } = await listener.listen('127.0.0.1', 0);
  open.push(async () => {
    const closed = listener.close();
    listener.closeAll();
    await closed;
  });
  return { port, listener, told };
}

/** Registers a function for the end of the test. */
export const closeLater = (close: () => Promise<void> | void): void => void open.push(close);

export interface Reply {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** Parses complete replies. `rest` is the text after the last complete one. */
export function readReplies(
  text: string,
  isBare: (i: number) => boolean = () => false,
): { replies: Reply[]; rest: string } {
  const replies: Reply[] = [];
  let rest = text;
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n/.exec(rest)?.[1]);
    if (end < 0 || Number.isNaN(status)) return { replies, rest };
    const head = rest.slice(0, end + 2);
    let at = end + 4;
    let body = '';
    const length = Number(/\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1] ?? 0);
    if (isBare(replies.length) || status === 204 || status === 304 || status === 100) body = '';
    else if (/\r\ntransfer-encoding: chunked\r\n/i.test(head)) {
      for (;;) {
        const size = /^([\da-f]+)\r\n/.exec(rest.slice(at, at + 20));
        if (!size) return { replies, rest };
        const count = Number.parseInt(size[1]!, 16);
        at += size[0].length;
        if (rest.length < at + count + 2) return { replies, rest };
        body += rest.slice(at, at + count);
        expect(rest.slice(at + count, at + count + 2)).toBe('\r\n');
        at += count + 2;
        if (count === 0) break;
      }
    } else {
      if (rest.length < at + length) return { replies, rest };
      body = rest.slice(at, at + length);
      at += length;
    }
    replies.push({ status, head, body });
    rest = rest.slice(at);
  }
}

export class Client {
  private readonly chunks: Buffer[] = [];
  size = 0;
  closed = false;
  ended = false;
  error: NodeJS.ErrnoException | undefined;

  private constructor(readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.size += chunk.length;
      this.chunks.push(chunk);
    });
    socket.on('error', (error) => {
      this.error = error;
    });
    socket.on('end', () => {
      this.ended = true;
    });
    socket.on('close', () => {
      this.closed = true;
    });
    open.push(() => void socket.destroy());
  }

  static open(port: number, allowHalfOpen = false): Promise<Client> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen, noDelay: true }, () =>
        resolve(new Client(socket)),
      );
      socket.once('error', reject);
    });
  }

  get text(): string {
    if (this.chunks.length > 1) this.chunks.splice(0, this.chunks.length, Buffer.concat(this.chunks));
    return this.chunks[0]?.toString('latin1') ?? '';
  }

  get replies(): Reply[] {
    return readReplies(this.text).replies;
  }

  get statuses(): number[] {
    return this.replies.map(({ status }) => status);
  }

  send(text: string | Buffer): this {
    this.socket.write(text, 'latin1');
    return this;
  }

  async reply(count = 1): Promise<Reply> {
    await until(
      () => this.replies.length >= count,
      () => ({ text: this.text, closed: this.closed }),
    );
    return this.replies[count - 1]!;
  }

  async end(): Promise<string> {
    await until(
      () => this.closed,
      () => this.text,
    );
    return this.text;
  }
}

export async function exchange(port: number, text: string | Buffer): Promise<Client> {
  const client = (await Client.open(port)).send(text);
  await client.end();
  return client;
}

export const get = (path: string, ...headers: string[]): string =>
  `${[`GET ${path} HTTP/1.1`, 'Host: a', ...headers].join('\r\n')}\r\n\r\n`;
export const post = (path: string, body: string, ...headers: string[]): string =>
  `${[`POST ${path} HTTP/1.1`, 'Host: a', `Content-Length: ${body.length}`, ...headers].join('\r\n')}\r\n\r\n${body}`;
export const chunked = (path: string, ...chunks: string[]): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${[...chunks, '']
    .map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`)
    .join('')}`;

/** Answers with the content of the request. */
export const echo: Handle = (req, res) => {
  void (async () => {
    const body = await req.read(20_000_000);
    res.sendText(200, [], `${req.method} ${req.target} ${body.toString('latin1')}`);
  })().catch((error: ProtocolError) => refuse(req, res, error));
};
