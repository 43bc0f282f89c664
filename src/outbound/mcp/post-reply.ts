import { BodyBuffer } from '../../protocol/http/body-buffer.js';
import { GappedReader, type GappedText } from '../../protocol/jsonrpc/gapped-message.js';
import { JsonSyntaxError } from '../../protocol/jsonrpc/scan.js';
import { isEventStream, SseOverflow, SseReader } from '../../protocol/sse/reader.js';
import {
  type Abortable,
  type HttpClient,
  type HttpFailure,
  type HttpHeaders,
  type HttpReply,
  type HttpTarget,
  headerOf,
} from '../http/index.js';

/** Events of the reply to a POST, for both content types (JSON and event stream). */
export interface PostEvents {
  /** The reply begins, with a status of 2xx. */
  accepted?(status: number, headers: HttpHeaders): void;
  /** One JSON text: the whole body, or the data of one event. */
  message(text: Buffer | GappedText): void;
  /** The id of an event. The stream can be resumed after this event. */
  eventId?(id: string): void;
  retry?(milliseconds: number): void;
  /** The status is not 2xx. `body` is the start of the response body. */
  refused(status: number, headers: HttpHeaders, body: Buffer): void;
  end(): void;
  fail(failure: HttpFailure): void;
}

const REFUSAL_LIMIT = 64 * 1024;
const EMPTY = Buffer.alloc(0);

export class ReplyTooLarge extends Error {
  override readonly name = 'ReplyTooLarge';
}

/** Reads a reply of either content type with limited memory. */
export class PostReply implements HttpReply {
  private status = 0;
  private headers: HttpHeaders = [];
  private sse: SseReader | undefined;
  /** The first chunk of a body. Most bodies have only one chunk. */
  private first: Buffer | undefined;
  private parts: GappedReader | undefined;
  /** The start of the body of an error response. */
  private refusal: BodyBuffer | undefined;
  private size = 0;
  private total = 0;
  exchange: Abortable | undefined;
  private over = false;

  constructor(
    private readonly events: PostEvents,
    private readonly limits: { readonly event: number; readonly reply: number },
  ) {}

  start(status: number, headers: HttpHeaders): void {
    this.status = status;
    if (status >= 300) {
      this.headers = headers;
      return;
    }
    this.events.accepted?.(status, headers);
    if (isEventStream(headerOf(headers, 'content-type'))) {
      const { events } = this;
      this.sse = new SseReader(
        {
          event: ({ data, id }) => {
            if (id !== undefined) events.eventId?.(id);
            if (data.length > 0 && !this.over) events.message(data);
          },
          retry: (milliseconds) => events.retry?.(milliseconds),
        },
        this.limits.event,
      );
    }
  }

  data(chunk: Buffer): void {
    if (this.over) return;
    if (this.sse) {
      this.total += chunk.length;
      if (this.total > this.limits.reply) {
        this.overflow(`a reply exceeds ${this.limits.reply} bytes`);
        return;
      }
      try {
        this.sse.push(chunk);
      } catch (error) {
        if (error instanceof SseOverflow) this.overflow(error.message);
        else if (error instanceof JsonSyntaxError) this.stop({ sent: true, error });
        else throw error;
      }
      return;
    }
    this.size += chunk.length;
    if (this.status >= 300) {
      if (this.size <= REFUSAL_LIMIT) {
        this.refusal ??= new BodyBuffer();
        this.refusal.add(chunk);
      } else {
        this.exchange?.abort();
        this.end();
        this.over = true;
      }
    } else if (this.size > this.limits.event) this.overflow(`a message exceeds ${this.limits.event} bytes`);
    else this.keep(chunk);
  }

  private keep(chunk: Buffer): void {
    if (chunk.length === 0) return;
    if (this.parts) this.parts.add(chunk);
    else if (this.first) {
      this.parts = new GappedReader();
      this.parts.add(this.first);
      this.parts.add(chunk);
    } else this.first = chunk;
  }

  private overflow(message: string): void {
    this.stop({ sent: true, error: new ReplyTooLarge(message) });
  }

  private stop(failure: HttpFailure): void {
    this.over = true;
    this.first = undefined;
    this.parts = undefined;
    this.exchange?.abort();
    this.events.fail(failure);
  }

  end(): void {
    if (this.over) return;
    if (this.status >= 300) {
      this.events.refused(this.status, this.headers, this.refusal?.take() ?? EMPTY);
      return;
    }
    const body = this.parts?.take() ?? this.first;
    if (body) this.events.message(body);
    this.events.end();
  }

  fail(failure: HttpFailure): void {
    if (!this.over) this.events.fail(failure);
  }
}

export function post(
  http: HttpClient,
  target: HttpTarget,
  headers: readonly string[],
  body: Buffer,
  events: PostEvents,
  limits: { readonly event: number; readonly reply: number },
): Abortable {
  const reply = new PostReply(events, limits);
  const exchange = http.request(target, { method: 'POST', headers, body }, reply);
  reply.exchange = exchange;
  return exchange;
}
