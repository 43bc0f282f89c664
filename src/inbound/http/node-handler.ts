/**
 * Runs a request handler that was written for `node:http` behind the route table. The handler gets a request and a
 * response without a connection: the body was read within the limits of the listener, and the response is sent as one
 * piece by `InboundResponse`. Connection limits, Host and Origin checks, time limits and HTTP/2 therefore stay with the
 * listener.
 */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import type { RequestContext } from './route.js';

export type NodeHandler = (req: IncomingMessage, res: ServerResponse) => Promise<void>;

export interface NodeRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  /** The headers by their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Whether the handler sees a request over https. */
  readonly encrypted: boolean;
  readonly address: string;
}

export interface NodeReply {
  readonly status: number;
  /** Flat name/value pairs. */
  readonly headers: readonly string[];
  readonly body: readonly Buffer[];
}

/** Takes the place of the connection. Nothing is read from this socket or written to it. */
class NoSocket extends Duplex {
  constructor(
    readonly encrypted: boolean,
    readonly remoteAddress: string,
  ) {
    super();
  }

  override _read(): void {}

  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    done();
  }
}

/** Keeps the body instead of sending it. */
class KeptResponse extends ServerResponse {
  readonly parts: Buffer[] = [];

  override write(chunk: unknown, encoding?: unknown, done?: unknown): boolean {
    this.keep(chunk, encoding);
    const callback = typeof encoding === 'function' ? encoding : done;
    if (typeof callback === 'function') callback();
    return true;
  }

  override end(chunk?: unknown, encoding?: unknown, done?: unknown): this {
    if (this.finished) return this;
    if (typeof chunk !== 'function') this.keep(chunk, encoding);
    this.finished = true;
    const callback = [chunk, encoding, done].find((given) => typeof given === 'function');
    if (typeof callback === 'function') callback();
    this.emit('prefinish');
    this.emit('finish');
    this.emit('close');
    return this;
  }

  private keep(chunk: unknown, encoding: unknown): void {
    if (typeof chunk === 'string') {
      const known = typeof encoding === 'string' && Buffer.isEncoding(encoding) ? encoding : 'utf8';
      this.parts.push(Buffer.from(chunk, known));
    } else if (chunk instanceof Uint8Array) this.parts.push(Buffer.from(chunk));
  }
}

/** Runs the handler. Rejects if the handler fails or ends without a response. */
export async function runNodeHandler(handler: NodeHandler, request: NodeRequest): Promise<NodeReply> {
  const socket = new NoSocket(request.encrypted, request.address);
  const message = new IncomingMessage(socket as never);
  message.method = request.method;
  message.url = request.url;
  message.httpVersion = '1.1';
  message.httpVersionMajor = 1;
  message.httpVersionMinor = 1;
  for (const [name, value] of Object.entries(request.headers)) {
    message.headers[name] = value;
    message.rawHeaders.push(name, value);
  }
  if (request.body.length > 0) message.push(request.body);
  message.push(null);
  message.complete = true;
  const response = new KeptResponse(message);
  try {
    await handler(message, response);
  } finally {
    socket.destroy();
  }
  if (!response.finished) throw new Error('a request handler ended without a response');
  return { status: response.statusCode, headers: flatHeaders(response), body: response.parts };
}

function flatHeaders(response: ServerResponse): string[] {
  const flat: string[] = [];
  for (const [name, value] of Object.entries(response.getHeaders())) {
    if (value === undefined || name === 'content-length' || name === 'connection') continue;
    for (const each of Array.isArray(value) ? value : [value]) flat.push(name, String(each));
  }
  return flat;
}

/** The headers of a request under the given names, for `NodeRequest`. */
export function headersOf({ req }: Pick<RequestContext, 'req'>, names: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of names) {
    const value = req.header(name);
    if (value !== undefined) headers[name] = value;
  }
  return headers;
}
