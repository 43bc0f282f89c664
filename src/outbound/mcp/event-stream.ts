import { isEventStream, SseOverflow, SseReader } from '../../protocol/sse/reader.js';
import { EVENT_STREAM } from '../../protocol/sse/writer.js';
import { connectionProblem } from '../http/connection-problem.js';
import {
  type Abortable,
  type HttpClient,
  type HttpHeaders,
  type HttpReply,
  type HttpTarget,
  headerOf,
} from '../http/index.js';

export interface EventStreamEvents {
  open?(headers: HttpHeaders): void;
  event(name: string, data: Buffer): void;
  eventId?(id: string): void;
  retry?(milliseconds: number): void;
  /** The server answered, but not with an event stream. */
  refused(status: number): void;
  /** The stream ended. `error` is set if the connection could not be opened or broke. */
  end(why: string, error?: Error): void;
}

/**
 * Maximum bytes of an error body that are read to keep the connection usable. The connection of a longer body is
 * closed.
 */
const BODY_LIMIT = 64 * 1024;
/** Time limit for reading that body. */
const DRAIN_MS = 1_000;

/** A GET request for an event stream: the messages of a session outside of its calls, a resumed reply, or HTTP+SSE. */
export class EventStream implements HttpReply {
  private reader: SseReader | undefined;
  private exchange: Abortable | undefined;
  private over = false;
  private refusedWith = 0;
  private unread = 0;
  private drain: NodeJS.Timeout | undefined;

  private constructor(
    private readonly events: EventStreamEvents,
    private readonly limit: number,
  ) {}

  static open(
    http: HttpClient,
    target: HttpTarget,
    headers: readonly string[],
    events: EventStreamEvents,
    limit: number,
  ): EventStream {
    const stream = new EventStream(events, limit);
    stream.exchange = http.request(target, { method: 'GET', headers: ['accept', EVENT_STREAM, ...headers] }, stream);
    return stream;
  }

  close(): void {
    this.finish();
    this.exchange?.abort();
  }

  private finish(): void {
    this.over = true;
    clearTimeout(this.drain);
  }

  private refuse(): void {
    this.close();
    this.events.refused(this.refusedWith);
  }

  start(status: number, headers: HttpHeaders): void {
    if (status >= 300 || !isEventStream(headerOf(headers, 'content-type'))) {
      this.refusedWith = status;
      this.drain = setTimeout(() => this.refuse(), DRAIN_MS);
      return;
    }
    const { events } = this;
    events.open?.(headers);
    this.reader = new SseReader(
      {
        event: ({ event, data, id }) => {
          if (this.over) return;
          if (id !== undefined) events.eventId?.(id);
          if (data.length > 0) events.event(event, data);
        },
        retry: (milliseconds) => events.retry?.(milliseconds),
      },
      this.limit,
    );
  }

  data(chunk: Buffer): void {
    if (this.over) return;
    if (!this.reader) {
      this.unread += chunk.length;
      if (this.unread > BODY_LIMIT) this.refuse();
      return;
    }
    try {
      this.reader.push(chunk);
    } catch (error) {
      if (!(error instanceof SseOverflow)) throw error;
      this.close();
      this.events.end(error.message);
    }
  }

  end(): void {
    if (this.over) return;
    this.finish();
    if (this.refusedWith) this.events.refused(this.refusedWith);
    else this.events.end('its stream ended');
  }

  fail({ error }: { error: Error }): void {
    if (this.over) return;
    this.finish();
    if (this.refusedWith) this.events.refused(this.refusedWith);
    else this.events.end(connectionProblem(error), error);
  }
}
