import type { Cancellation } from '../../core/caller.js';
import { type CallOutcome, ProtocolError } from '../../protocol/errors.js';
import { BodyBuffer } from '../../protocol/http/body-buffer.js';
import { isEventStream, SseOverflow, SseReader } from '../../protocol/sse/reader.js';
import {
  type Abortable,
  type HttpClient,
  type HttpFailure,
  type HttpHeaders,
  type HttpReply,
  type HttpRequest,
  type HttpTarget,
  headerOf,
} from '../http/index.js';
import { Deadline } from '../mcp/deadline.js';
import { type AgentRef, invalidReply, lost, problemOf, timedOut, unavailable } from './agent-errors.js';

/** One HTTP request, with the limits for the time and the size of its reply. */
export interface HttpCall extends HttpRequest {
  readonly http: HttpClient;
  readonly target: HttpTarget;
  /** The agent, for errors. */
  readonly agent: AgentRef;
  /** Maximum milliseconds without data, and in total. */
  readonly idle: number;
  readonly total: number;
  /** Maximum bytes of one event or of the whole reply. */
  readonly limit: number;
  readonly cancellation?: Cancellation;
}

export interface WholeReply {
  readonly status: number;
  readonly headers: HttpHeaders;
  readonly body: Buffer;
}

/** Receives an event stream. `end` or `fail` comes last. */
export interface EventSink {
  /** Called first, with the handle that closes the stream. */
  open(stream: Abortable): void;
  event(name: string, data: Buffer): void;
  end(): void;
  fail(error: Error): void;
}

/**
 * Sends a request and resolves with the whole reply. If the reply is an event stream and there is a `sink`, resolves
 * with undefined when the stream begins. Rejects with a `ProtocolError` that says whether the agent may have executed
 * the request.
 */
export function exchange(call: HttpCall, sink?: EventSink): Promise<WholeReply | undefined> {
  if (call.cancellation?.cancelled) return Promise.reject(cancelled('not_executed'));
  return new Promise((resolve, reject) => new Running(call, sink, resolve, reject));
}

const cancelled = (outcome: CallOutcome): ProtocolError =>
  new ProtocolError('cancelled', 'The request was cancelled', { outcome });

class Running implements HttpReply, Abortable {
  private status = 0;
  private headers: HttpHeaders = [];
  private readonly parts = new BodyBuffer();
  private size = 0;
  private reader: SseReader | undefined;
  private over = false;
  private readonly http: Abortable;
  private readonly deadline: Deadline;
  private readonly forget: (() => void) | undefined;

  constructor(
    private readonly call: HttpCall,
    private readonly sink: EventSink | undefined,
    private readonly resolve: (reply: WholeReply | undefined) => void,
    private readonly reject: (error: Error) => void,
  ) {
    const { http, target, agent, idle, total, cancellation } = call;
    this.deadline = new Deadline(idle, total, () => this.stop(timedOut(agent, idle)));
    this.http = http.request(target, call, this);
    this.forget = cancellation?.onCancel(() => this.stop(cancelled('unknown')));
    if (this.over) this.finish();
  }

  /** Stops reading. The task of the agent continues. */
  abort(): void {
    if (this.over) return;
    this.finish();
    this.http.abort();
  }

  private finish(): void {
    this.over = true;
    this.deadline.clear();
    this.forget?.();
  }

  private stop(error: Error): void {
    if (this.over) return;
    this.finish();
    this.http?.abort();
    this.failWith(error);
  }

  private failWith(error: Error): void {
    if (this.reader) this.sink!.fail(error);
    else this.reject(error);
  }

  start(status: number, headers: HttpHeaders): void {
    if (this.over) return;
    this.status = status;
    this.headers = headers;
    if (status >= 300 || !isEventStream(headerOf(headers, 'content-type'))) return;
    const { sink } = this;
    if (!sink) {
      this.stop(
        invalidReply(this.call.agent, 'answered with an event stream to a request that does not allow a stream'),
      );
      return;
    }
    this.reader = new SseReader(
      {
        event: ({ event, data }) => {
          if (!this.over && data.length > 0) sink.event(event, data);
        },
      },
      this.call.limit,
    );
    sink.open(this);
    this.resolve(undefined);
  }

  data(chunk: Buffer): void {
    if (this.over) return;
    if (this.reader) {
      this.deadline.extend();
      try {
        this.reader.push(chunk);
      } catch (error) {
        this.stop(error instanceof SseOverflow ? this.tooLarge() : (error as Error));
      }
      return;
    }
    // The first chunk does not extend the time limit, because most replies have only one chunk.
    if (this.size > 0) this.deadline.extend();
    this.size += chunk.length;
    if (this.size > this.call.limit) this.stop(this.tooLarge());
    else this.parts.add(chunk);
  }

  private tooLarge(): ProtocolError {
    return invalidReply(this.call.agent, `sent more than ${this.call.limit} bytes at once`);
  }

  end(): void {
    if (this.over) return;
    this.finish();
    if (this.reader) this.sink!.end();
    else this.resolve({ status: this.status, headers: this.headers, body: this.parts.take() });
  }

  fail({ sent, error }: HttpFailure): void {
    if (this.over) return;
    this.finish();
    const { agent } = this.call;
    this.failWith(sent ? lost(agent, problemOf(error)) : unavailable(agent, problemOf(error)));
  }

  pause(): void {
    // The gateway paused the stream, so the missing data is not the fault of the agent.
    this.deadline.clear();
    this.http.pause?.();
  }

  resume(): void {
    if (this.over) return;
    this.deadline.extend();
    this.http.resume?.();
  }
}
