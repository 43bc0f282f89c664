/** Servers that write arbitrary bytes, and recorders for the replies that the HTTP client reads. */
import { createServer, type Server, type Socket } from 'node:net';
import type {
  Abortable,
  HttpClient,
  HttpFailure,
  HttpHeaders,
  HttpReply,
  HttpRequest,
} from '../../src/outbound/http/index.js';
import { httpTarget } from '../../src/outbound/http/index.js';

/** Records all callbacks of one exchange. */
export class Ear implements HttpReply {
  status = 0;
  headers: HttpHeaders = [];
  readonly parts: Buffer[] = [];
  starts = 0;
  /** Number of calls of `end` and `fail`. */
  ends = 0;
  failure: HttpFailure | undefined;
  exchange: Abortable | undefined;
  onStart: (() => void) | undefined;
  onData: ((size: number) => void) | undefined;
  onEnd: (() => void) | undefined;
  private settle!: () => void;
  readonly over = new Promise<void>((resolve) => {
    this.settle = resolve;
  });

  get body(): string {
    return Buffer.concat(this.parts).toString('latin1');
  }

  get size(): number {
    return this.parts.reduce((sum, part) => sum + part.length, 0);
  }

  /** The result for comparison: the reply, or the code of the failure. */
  get outcome(): unknown {
    if (this.failure) return (this.failure.error as NodeJS.ErrnoException).code ?? this.failure.error.message;
    return this.ends > 0 ? { status: this.status, body: this.body } : undefined;
  }

  start(status: number, headers: HttpHeaders): void {
    this.starts++;
    this.status = status;
    this.headers = headers;
    this.onStart?.();
  }

  data(chunk: Buffer): void {
    this.parts.push(chunk);
    this.onData?.(this.size);
  }

  end(): void {
    this.ends++;
    this.settle();
    this.onEnd?.();
  }

  fail(failure: HttpFailure): void {
    this.ends++;
    this.failure = failure;
    this.settle();
  }
}

export function ask(http: HttpClient, url: string, request: Partial<HttpRequest> = {}, ear = new Ear()): Ear {
  ear.exchange = http.request(httpTarget(url), { method: 'GET', headers: [], ...request }, ear);
  return ear;
}

export interface RawServer {
  readonly port: number;
  readonly url: string;
  /** All connections so far. */
  readonly sockets: Socket[];
  close(): Promise<void>;
}

/** Calls `asked` with the text (head and body) of each request on a connection. */
export async function rawServer(
  asked: (socket: Socket, request: string, nth: number) => void,
  { host = '127.0.0.1', server = createServer() }: { host?: string; server?: Server } = {},
): Promise<RawServer> {
  const sockets: Socket[] = [];
  let nth = 0;
  const taken = (socket: Socket): void => {
    sockets.push(socket);
    let text = '';
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      for (;;) {
        const end = text.indexOf('\r\n\r\n');
        if (end < 0) return;
        const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0);
        if (text.length < end + 4 + length) return;
        const request = text.slice(0, end + 4 + length);
        text = text.slice(request.length);
        asked(socket, request, nth++);
      }
    });
  };
  server.on('setSecureContext' in server ? 'secureConnection' : 'connection', taken);
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as { port: number };
  return {
    port,
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}/`,
    sockets,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Writes a part of a chunked body with one chunk per byte. */
export function byteByByte(socket: Socket, text: string, written?: () => void): void {
  socket.write(text.replaceAll(/./gs, '1\r\n$&\r\n'), 'latin1', written);
}
