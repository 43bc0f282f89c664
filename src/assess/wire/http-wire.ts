import { type Abortable, HttpClient, type HttpTarget, headerOf, httpTarget } from '../../outbound/http/index.js';
import type { HttpHeaders } from '../../protocol/http/headers.js';
import { isEventStream, SseReader } from '../../protocol/sse/reader.js';
import { parseJson } from '../json.js';
import { httpEvidence, secretsOf } from './evidence.js';
import type { Pace } from './pace.js';
import { type Received, type Reply, replyOf, type StreamEvent } from './reply.js';

/** Largest body that is read of one reply, in bytes. */
const MAX_BODY = 4 * 1024 * 1024;
/** Time that a server has to end a stream after its last message, in milliseconds. */
const STREAM_END = 400;
const CONNECT_TIMEOUT = 5_000;

export type WireClient = Pick<HttpClient, 'request' | 'close'>;

export interface HttpWireOptions {
  readonly pace: Pace;
  /** The target; credentials are sent to its origin only. */
  readonly url: URL;
  /** Headers with the credentials. */
  readonly credentials: readonly (readonly [string, string])[];
  /** Replaces the connection, for servers in this process. */
  readonly client?: WireClient | undefined;
}

export interface HttpSend {
  readonly method: 'GET' | 'POST' | 'DELETE' | 'OPTIONS';
  readonly url?: URL;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** JSON to send; `text` sends other bytes. */
  readonly json?: unknown;
  readonly text?: string;
  /** False to send no credentials. */
  readonly credentials?: boolean;
  /** Ends the reading of a stream when it returns true. The default is the response to the request. */
  readonly enough?: (messages: readonly unknown[], events: readonly StreamEvent[]) => boolean;
  /** True to read the head of the reply only, for streams that stay open. */
  readonly headOnly?: boolean;
  /** Time for the whole reply. */
  readonly limit?: number;
  /** Most bytes of the reply. */
  readonly most?: number;
  /** Called with the reply while it is open: for streams that stay open. Returns a function that ends the stream. */
  readonly opened?: (stop: () => void) => void;
  /** Called with the head of the reply. */
  readonly onHead?: (status: number) => void;
  /** Called for each event of a stream. */
  readonly onEvent?: (event: StreamEvent) => void;
}

/**
 * Sends any request over HTTP, also a wrong one, and keeps the request and the reply. A redirect to another origin is
 * not followed.
 */
export class HttpWire {
  readonly url: URL;
  readonly secrets: readonly string[];
  private readonly client: WireClient;
  readonly pace: Pace;

  constructor(private readonly options: HttpWireOptions) {
    this.url = options.url;
    this.pace = options.pace;
    this.client = options.client ?? new HttpClient({ connectTimeout: CONNECT_TIMEOUT });
    this.secrets = secretsOf(options.credentials, options.url);
  }

  async send(request: HttpSend): Promise<Reply> {
    await this.pace.turn();
    const url = request.url ?? this.url;
    const own = url.origin === this.url.origin && request.credentials !== false ? this.options.credentials : [];
    const body = request.text ?? (request.json === undefined ? undefined : JSON.stringify(request.json));
    const headers: (readonly [string, string])[] = [
      ...own,
      ...Object.entries(request.headers ?? {}).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value] as const],
      ),
    ];
    const id = (request.json as { id?: unknown } | undefined)?.id;
    const enough = request.enough ?? ((messages) => id !== undefined && messages.some((each) => answers(each, id)));
    const received = await this.exchange(
      httpTarget(url),
      {
        // The client's type lists the methods of the data path; the connection writes any of them.
        method: request.method as 'GET',
        headers: headers.flat(),
        ...(body !== undefined && { body: Buffer.from(body) }),
      },
      { ...request, enough },
    );
    if (received.failure !== undefined) this.pace.check();
    const sent = { method: request.method, path: `${url.pathname}${url.search}`, headers, body };
    const method = (request.json as { method?: unknown } | undefined)?.method;
    return replyOf(
      typeof method === 'string' ? method : '',
      request.json,
      received,
      httpEvidence(sent, received, this.secrets),
    );
  }

  async close(): Promise<void> {
    await this.client.close();
  }

  private exchange(
    target: HttpTarget,
    request: { method: 'GET'; headers: string[]; body?: Buffer },
    {
      enough,
      limit,
      most = MAX_BODY,
      opened,
      onHead,
      onEvent,
      headOnly,
    }: HttpSend & { enough: NonNullable<HttpSend['enough']> },
  ): Promise<Received> {
    return new Promise((resolve) => {
      const started = performance.now();
      const chunks: Buffer[] = [];
      const messages: unknown[] = [];
      const events: StreamEvent[] = [];
      let size = 0;
      let status: number | undefined;
      let headers: HttpHeaders = [];
      let reader: SseReader | undefined;
      let over = false;
      let wire: Abortable | undefined;
      let timer: NodeJS.Timeout | undefined;
      const finish = (ended: boolean, failure?: string, late = false): void => {
        if (over) return;
        over = true;
        clearTimeout(timer);
        if (!ended) wire?.abort();
        const bytes = Buffer.concat(chunks);
        const body = bytes.toString('utf8');
        if (reader === undefined && body !== '') {
          const value = parseJson(body);
          if (value !== undefined) messages.push(value);
        }
        const utf8 = Buffer.from(body).equals(bytes);
        const milliseconds = Math.round(performance.now() - started);
        const stream = reader !== undefined;
        resolve({ status, headers, body, utf8, messages, events, stream, ended, failure, late, milliseconds });
      };
      const after = (milliseconds: number, failure?: string): void => {
        clearTimeout(timer);
        timer = setTimeout(() => finish(false, failure, failure !== undefined), milliseconds);
      };
      const wait = this.pace.limit(limit);
      after(wait, `no complete answer within ${seconds(wait)} s`);
      opened?.(() => finish(false));
      const take = (event: StreamEvent): void => {
        if (over) return;
        events.push(event);
        const value = event.data === '' ? undefined : parseJson(event.data);
        if (value !== undefined) messages.push(value);
        onEvent?.(event);
        if (enough(messages, events)) after(STREAM_END);
      };
      wire = this.client.request(target, request, {
        start: (given, replied) => {
          status = given;
          headers = replied;
          if (isEventStream(headerOf(replied, 'content-type')))
            reader = new SseReader(
              { event: ({ event, id, data }) => take({ event, id, data: data.toString('utf8') }) },
              MAX_BODY,
            );
          onHead?.(given);
          if (headOnly) finish(false);
        },
        data: (chunk) => {
          if (over) return;
          size += chunk.length;
          if (size > most || !this.pace.received(chunk.length)) {
            finish(false, `the answer is longer than ${most} bytes`);
            return;
          }
          chunks.push(chunk);
          try {
            reader?.push(chunk);
          } catch (error) {
            finish(false, (error as Error).message);
          }
        },
        end: () => finish(true),
        fail: ({ error }) => finish(false, error.message),
      });
      if (over) wire.abort();
    });
  }
}

const answers = (message: unknown, id: unknown): boolean =>
  (Array.isArray(message) ? message : [message]).some(
    (each: { id?: unknown; method?: unknown }) =>
      each !== null && typeof each === 'object' && each.method === undefined && each.id === id,
  );

const seconds = (milliseconds: number): string => (milliseconds / 1000).toFixed(1).replace(/\.0$/, '');
