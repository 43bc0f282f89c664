import type { Readable } from 'node:stream';
import { WebSocket } from 'ws';
import { sleep } from '../../core/timing.js';
import type { Channel } from '../mcp/channel-peer.js';
import type { Dialer } from '../mcp/peer.js';
import { httpEvidence, secretsOf } from './evidence.js';
import { MAX_TOTAL, type Pace } from './pace.js';
import { NOTHING, type Received, type Reply, replyOf } from './reply.js';

/** The name of MCP in the header `Sec-WebSocket-Protocol`. */
const SUBPROTOCOL = 'mcp';
const NO_SUBPROTOCOL = 'Server sent no subprotocol';
/** Largest message that is read, in bytes. */
const MAX_MESSAGE = 4 * 1024 * 1024;
/** Largest body of a refused handshake that is read, in bytes. */
const MAX_BODY = 64 * 1024;
const MAX_STRAY = 20;
const MAX_HELD = 1_000;
/** Most pings of a server: each is answered. */
const MAX_PINGS = 1_000;
/** Time for the server to answer a close, in milliseconds. */
const CLOSE_TIME = 1_000;

type Headers = readonly (readonly [string, string])[];

export interface WebSocketOptions {
  readonly url: URL;
  readonly pace: Pace;
  /** Headers with credentials; each handshake carries them. No redirect is followed. */
  readonly credentials: Headers;
}

/** Opens WebSockets to one server. */
export class WebSocketDialer implements Dialer {
  readonly url: URL;
  readonly secrets: readonly string[];
  readonly pace: Pace;
  /** Some servers know no subprotocols. */
  private protocols: readonly string[] = [SUBPROTOCOL];

  constructor(private readonly options: WebSocketOptions) {
    ({ url: this.url, pace: this.pace } = options);
    this.secrets = secretsOf(options.credentials, options.url);
  }

  /** Opens a channel. Returns the reply instead if the server refuses the handshake. */
  async open(): Promise<Channel | Reply> {
    const { frames, reply } = await this.handshake([]);
    return frames === undefined ? reply : this.channel(frames);
  }

  async attempt(headers: Headers): Promise<Reply> {
    const { frames, reply } = await this.handshake(headers);
    await frames?.close();
    return reply;
  }

  private async handshake(more: Headers): Promise<{ readonly frames?: Frames; readonly reply: Reply }> {
    await this.pace.turn();
    const headers = [...this.options.credentials, ...more];
    const frames = new Frames(this.url, this.protocols, headers, this.pace);
    const received = await frames.opened;
    if (received.failure === NO_SUBPROTOCOL && this.protocols.length > 0) {
      this.protocols = [];
      return this.handshake(more);
    }
    if (received.failure !== undefined) this.pace.check();
    const path = `${this.url.pathname}${this.url.search}`;
    const shown = [...headers, ['Upgrade', 'websocket'] as const];
    const evidence = httpEvidence({ method: 'GET', path, headers: shown }, received, this.secrets);
    const reply = replyOf('', undefined, received, evidence);
    return received.status === OPENED ? { frames, reply } : { reply };
  }

  private channel(frames: Frames): Channel {
    return {
      transport: 'ws',
      dialer: this,
      secrets: this.secrets,
      send: async (text) => {
        frames.send(text);
        return {};
      },
      receive: (listener) => frames.receive(listener),
      onEnd: (listener) => frames.onEnd(listener),
      stray: () => frames.stray,
      close: async () => {
        await frames.close();
        return undefined;
      },
    };
  }
}

/** The status of a handshake that opened a WebSocket. */
const OPENED = 101;

/** One WebSocket, with limits of what it takes from the server. */
class Frames {
  /** The outcome of the handshake. */
  readonly opened: Promise<Received>;
  /** The beginnings of frames that are not text. */
  readonly stray: string[] = [];
  private readonly socket: WebSocket;
  private readonly held: string[] = [];
  private listener: ((text: string) => void) | undefined;
  private ended: ((why: string) => void) | undefined;
  private why: string | undefined;
  private bytes = 0;
  private pings = 0;

  constructor(url: URL, protocols: readonly string[], headers: Headers, pace: Pace) {
    this.socket = new WebSocket(url, [...protocols], {
      headers: Object.fromEntries(headers),
      followRedirects: false,
      perMessageDeflate: false,
      maxPayload: MAX_MESSAGE,
      // A probe judges text that is not UTF-8.
      skipUTF8Validation: true,
    });
    this.socket.on('message', (data, binary) => this.received(data as Buffer, binary));
    this.socket.on('ping', () => {
      if (++this.pings > MAX_PINGS) this.cut(`the server sent more than ${MAX_PINGS} pings`);
    });
    this.socket.on('error', ({ message }) => {
      this.why ??= message;
    });
    this.socket.on('close', (code) => this.end(`the server closed the WebSocket with the code ${code}`));
    this.opened = this.outcome(pace);
  }

  send(text: string): void {
    if (this.socket.readyState !== WebSocket.OPEN) throw new Error(this.why ?? 'the WebSocket is closed');
    this.socket.send(text);
  }

  receive(listener: (text: string) => void): void {
    this.listener = listener;
    for (const text of this.held.splice(0)) listener(text);
  }

  onEnd(listener: (why: string) => void): void {
    this.ended = listener;
    if (this.socket.readyState === WebSocket.CLOSED) listener(this.why ?? '');
  }

  async close(): Promise<void> {
    const { socket } = this;
    if (socket.readyState === WebSocket.CLOSED) return;
    const closed = new AbortController();
    socket.once('close', () => closed.abort());
    socket.close(1000);
    await sleep(CLOSE_TIME, { until: closed.signal });
    socket.terminate();
  }

  private received(data: Buffer, binary: boolean): void {
    this.bytes += data.length;
    if (this.bytes > MAX_TOTAL) this.cut(`the server sent more than ${MAX_TOTAL / 1024 / 1024} MiB`);
    else if (binary) {
      if (this.stray.length < MAX_STRAY) this.stray.push(data.toString('utf8', 0, 200));
    } else {
      const text = data.toString('utf8');
      if (this.listener) this.listener(text);
      else if (this.held.length < MAX_HELD) this.held.push(text);
    }
  }

  private cut(why: string): void {
    this.why ??= why;
    this.socket.terminate();
  }

  private end(why: string): void {
    this.why ??= why;
    this.ended?.(this.why);
  }

  private outcome(pace: Pace): Promise<Received> {
    const { socket } = this;
    const started = performance.now();
    const wait = pace.limit();
    return new Promise((resolve) => {
      let over = false;
      const done = (received: Partial<Received>): void => {
        if (over) return;
        over = true;
        clearTimeout(timer);
        resolve({ ...NOTHING, ...received, milliseconds: Math.round(performance.now() - started) });
      };
      const late = (): void => {
        done({ failure: `no WebSocket within ${Math.round(wait)} ms`, late: true });
        socket.terminate();
      };
      const timer = setTimeout(late, wait);
      socket.once('upgrade', ({ rawHeaders }) => {
        socket.once('open', () => done({ status: OPENED, headers: lowerNames(rawHeaders), ended: true }));
      });
      socket.once('unexpected-response', (request, response) => {
        void refusalOf(request, response, pace, wait).then(done);
      });
      socket.once('close', () => done({ failure: this.why ?? 'the server closed the connection' }));
    });
  }
}

/** Reads the response that refuses a handshake. */
function refusalOf(
  request: { destroy(): void },
  response: Readable & { readonly statusCode?: number; readonly rawHeaders: readonly string[] },
  pace: Pace,
  limit: number,
): Promise<Partial<Received>> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const done = (ended: boolean): void => {
      clearTimeout(timer);
      const body = Buffer.concat(chunks).toString('utf8');
      resolve({ status: response.statusCode, headers: lowerNames(response.rawHeaders), body, ended });
      request.destroy();
    };
    const timer = setTimeout(() => done(false), pace.limit(limit));
    response.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_BODY || !pace.received(chunk.length)) done(false);
      else chunks.push(chunk);
    });
    response.on('end', () => done(true)).on('error', () => done(false));
  });
}

const lowerNames = (headers: readonly string[]): string[] =>
  headers.map((each, i) => (i % 2 === 0 ? each.toLowerCase() : each));
