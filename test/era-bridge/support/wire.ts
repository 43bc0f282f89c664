/** HTTP exchanges over connections that stay open, read as JSON-RPC. */
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { createParser } from 'eventsource-parser';
import { sleep } from '../../../src/core/timing.js';

export type Json = Readonly<Record<string, unknown>>;

/** A JSON-RPC message for tests. Any member may be missing; assertions check for it. */
export interface Message {
  readonly id?: string | number;
  readonly method?: string;
  // biome-ignore lint/suspicious/noExplicitAny: what is inside is what a test is about
  readonly params?: any;
  // biome-ignore lint/suspicious/noExplicitAny: what is inside is what a test is about
  readonly result?: any;
  // biome-ignore lint/suspicious/noExplicitAny: what is inside is what a test is about
  readonly error?: { readonly code: number; readonly message: string; readonly data?: any };
}

const agent = new Agent({ keepAlive: true, maxSockets: 2_000 });

/** A reply under way, with its messages as they arrive and its end. */
export class Exchange {
  readonly messages: Message[] = [];
  readonly opened: Promise<IncomingMessage>;
  /** Resolves with all messages once the reply has ended, also after a failure. */
  readonly ended: Promise<Message[]>;
  status = 0;
  aborted = false;
  lastEventId: string | undefined;
  private readonly listeners = new Set<(message: Message) => void>();
  private readonly req: ClientRequest;

  constructor(url: string, method: string, headers: Readonly<Record<string, string>>, body?: object | string) {
    const bytes = body && Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
    this.req = request(url, {
      method,
      agent,
      headers: {
        accept: 'application/json, text/event-stream',
        ...(bytes && { 'content-type': 'application/json', 'content-length': bytes.length }),
        ...headers,
      },
    });
    let end: (messages: Message[]) => void;
    this.ended = new Promise((resolve) => {
      end = resolve;
    });
    this.opened = new Promise((resolve, reject) => {
      this.req.on('error', (error) => {
        reject(error);
        end(this.messages);
      });
      this.req.on('response', (res) => {
        this.status = res.statusCode ?? 0;
        this.read(res, () => end(this.messages));
        resolve(res);
      });
    });
    this.opened.catch(() => {});
    this.req.end(bytes);
  }

  private read(res: IncomingMessage, end: () => void): void {
    const streamed = res.headers['content-type']?.startsWith('text/event-stream');
    const parser = createParser({
      onEvent: ({ id, data }) => {
        if (id !== undefined) this.lastEventId = id;
        if (data !== '') this.take(data);
      },
    });
    let text = '';
    res.setEncoding('utf8');
    res.on('data', (chunk: string) => {
      if (streamed) parser.feed(chunk);
      else text += chunk;
    });
    res.on('end', () => {
      if (!streamed && text !== '') this.take(text);
    });
    res.on('error', () => {});
    res.on('close', end);
  }

  private take(text: string): void {
    const message = JSON.parse(text) as Message;
    this.messages.push(message);
    for (const listener of [...this.listeners]) listener(message);
  }

  onMessage(listener: (message: Message) => void): void {
    for (const message of this.messages) listener(message);
    this.listeners.add(listener);
  }

  async until(holds: (message: Message) => boolean, patience = 15_000): Promise<Message> {
    return new Promise((resolve, reject) => {
      const give = (why: string): void => reject(new Error(`${why}; received: ${JSON.stringify(this.messages)}`));
      const timer = setTimeout(() => give('timeout'), patience);
      const done = (message: Message): void => {
        clearTimeout(timer);
        resolve(message);
      };
      this.onMessage((message) => {
        if (holds(message)) done(message);
      });
      void this.ended.then(() => {
        clearTimeout(timer);
        give(`the reply ended with status ${this.status}`);
      });
    });
  }

  abort(): void {
    this.aborted = true;
    this.req.destroy();
  }
}

export { eventually } from '../../support/eventually.js';
export { sleep };
