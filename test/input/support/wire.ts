/** HTTP as bytes and as single exchanges, for requests that an SDK never sends. */
import { type IncomingMessage, request as open, type RequestOptions } from 'node:http';
import { connect, type Socket } from 'node:net';
import { createParser } from 'eventsource-parser';
import { sleep } from '../../../src/core/timing.js';
import type { Message } from './message.js';

export interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** As written on the wire, alternating names and values. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
  /** The body as JSON; for an event stream, its last message. */
  readonly json: Message;
}

export interface Ask {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string | Buffer | object;
  readonly signal?: AbortSignal;
}

function start(url: string, { method = 'POST', headers = {}, body, signal }: Ask): Promise<IncomingMessage> {
  const { hostname, port, pathname, search } = new URL(url);
  const bytes = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  const options: RequestOptions = {
    host: hostname.replace(/^\[|\]$/g, ''),
    port,
    path: `${pathname}${search}`,
    method,
    agent: false,
    headers: {
      ...(bytes !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }),
      ...headers,
    },
    ...(signal && { signal }),
  };
  return new Promise((resolve, reject) => {
    const req = open(options, resolve);
    req.on('error', reject);
    req.end(bytes);
  });
}

/** One exchange on a separate connection. */
export async function ask(url: string, options: Ask = {}): Promise<Reply> {
  const res = await start(url, options);
  const chunks: Buffer[] = [];
  for await (const chunk of res) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks).toString('utf8');
  return {
    status: res.statusCode!,
    headers: res.headers,
    rawHeaders: res.rawHeaders,
    body,
    get json() {
      return readJson(res.headers['content-type'], body);
    },
  };
}

function readJson(type: string | undefined, body: string): Message {
  if (!type?.startsWith('text/event-stream')) return JSON.parse(body) as Message;
  const data = readEvents(body)
    .map((event) => event.data)
    .filter((text) => text !== '');
  return JSON.parse(data.at(-1) ?? 'null') as Message;
}

export interface Event {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string;
}

/** All events of a finished stream. */
export function readEvents(body: string): Event[] {
  const events: Event[] = [];
  const parser = createParser({ onEvent: ({ id, event, data }) => events.push({ id, event, data }) });
  parser.feed(body);
  return events;
}

/** An open event stream. */
export class EventStream {
  readonly events: Event[] = [];
  readonly comments: string[] = [];
  readonly retries: number[] = [];
  text = '';
  ended = false;
  private readonly waiting = new Set<() => void>();

  private constructor(readonly res: IncomingMessage) {
    const parser = createParser({
      onEvent: ({ id, event, data }) => this.events.push({ id, event, data }),
      onComment: (comment) => this.comments.push(comment),
      onRetry: (retry) => this.retries.push(retry),
    });
    res.setEncoding('utf8');
    res.on('data', (chunk: string) => {
      this.text += chunk;
      parser.feed(chunk);
      this.wake();
    });
    res.on('close', () => {
      this.ended = true;
      this.wake();
    });
    res.on('error', () => {});
  }

  static async open(url: string, options: Ask = {}): Promise<EventStream> {
    const res = await start(url, { ...options, method: options.method ?? 'GET' });
    return new EventStream(res);
  }

  get status(): number {
    return this.res.statusCode!;
  }

  /** The JSON-RPC messages so far. */
  get messages(): Message[] {
    return this.events
      .filter(({ event, data }) => (event === undefined || event === 'message') && data !== '')
      .map(({ data }) => JSON.parse(data) as Message);
  }

  private wake(): void {
    for (const resume of this.waiting) resume();
  }

  /** Resolves once `holds` returns a value; rejects if the stream ends or the time is over. */
  async until<T>(holds: (stream: this) => T | undefined | false, patience = 15_000): Promise<T> {
    const deadline = Date.now() + patience;
    for (;;) {
      const value = holds(this);
      if (value !== undefined && value !== false) return value;
      if (this.ended) throw new Error(`the stream ended first; received: ${this.text.slice(0, 2_000)}`);
      if (Date.now() > deadline) throw new Error(`timeout; the stream received: ${this.text.slice(0, 2_000)}`);
      await new Promise<void>((resolve) => {
        const resume = (): void => {
          clearTimeout(timer);
          this.waiting.delete(resume);
          resolve();
        };
        const timer = setTimeout(resume, 250);
        this.waiting.add(resume);
      });
    }
  }

  async end(patience = 15_000): Promise<void> {
    const deadline = Date.now() + patience;
    while (!this.ended && Date.now() < deadline) await sleep(20);
    if (!this.ended) throw new Error('the stream did not end');
  }

  close(): void {
    this.res.destroy();
  }
}

/** A bare connection. */
export class Wire {
  private chunks: Buffer[] = [];
  closed = false;
  readonly openedAt = Date.now();
  closedAt = 0;

  private constructor(readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.chunks.push(chunk);
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.closed = true;
      this.closedAt = Date.now();
    });
  }

  static open(url: string): Promise<Wire> {
    const { hostname, port } = new URL(url);
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => resolve(new Wire(socket)));
      socket.once('error', reject);
    });
  }

  send(bytes: string | Buffer): void {
    if (!this.closed) this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  get received(): Buffer {
    if (this.chunks.length > 1) this.chunks = [Buffer.concat(this.chunks)];
    return this.chunks[0] ?? Buffer.alloc(0);
  }

  get text(): string {
    return this.received.toString('latin1');
  }

  /** The statuses of the replies so far. */
  get statuses(): number[] {
    return [...this.text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]));
  }

  async until(holds: () => boolean, patience = 15_000): Promise<void> {
    const deadline = Date.now() + patience;
    while (!holds()) {
      if (Date.now() > deadline) throw new Error(`timeout; received: ${this.text.slice(0, 1_000)}`);
      await sleep(10);
    }
  }

  close(): void {
    this.socket.destroy();
  }
}

/** Sends bytes and waits until the server closes the connection. */
export async function exchange(url: string, bytes: string | Buffer, patience = 15_000): Promise<Wire> {
  const wire = await Wire.open(url);
  wire.send(bytes);
  await wire.until(() => wire.closed, patience);
  return wire;
}

export { eventually } from '../../support/eventually.js';
export { sleep };
