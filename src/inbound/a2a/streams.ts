import type { Events, Passed } from '../../core/a2a/agent.js';
import type { EventWriter } from '../../protocol/a2a/dialect.js';
import type { StreamResponse } from '../../protocol/a2a/model.js';
import type { VersionBehavior } from '../../protocol/a2a/version-behavior.js';
import { onOneLine } from '../../protocol/jsonrpc/json-pieces.js';
import type { JsonValue } from '../../protocol/jsonrpc/raw.js';
import { EventResponse } from '../http/event-stream-response.js';
import type { InboundResponse } from '../http/response.js';
import { wireEvents } from './wire-events.js';

export interface StreamTimes {
  /** Interval of the comments that keep a quiet stream open. */
  readonly ping?: number;
  /** How long the first event may delay the start of the response. */
  readonly peek?: number;
  /** How long an event that may be the last is held back. */
  readonly hold?: number;
  /** How long a client may leave sent data unread (fault 13). */
  readonly stall?: number;
}

const PEEK = 5_000;
const STALL = 30_000;

/** An event's text and its optional name. */
export interface Framed {
  readonly text: string;
  readonly event?: string;
}

/** How a binding writes events. */
export interface StreamForm {
  readonly behavior: VersionBehavior;
  readonly writer: EventWriter;
  /** Wraps an event's JSON text in the form of the binding. */
  wrap(text: string): string;
  /** An error in the form of the binding, inside a stream. */
  error(error: unknown): Framed;
}

export interface StreamReply {
  readonly res: InboundResponse;
  readonly headers: readonly string[];
  /** One JSON text per line instead of server-sent events (C-29). */
  readonly lines: boolean;
}

const NDJSON = 'application/x-ndjson';

export const wantsLines = (accept: string | undefined): boolean => accept?.toLowerCase().includes(NDJSON) === true;

type Next = IteratorResult<Passed<StreamResponse>, unknown>;

/** The gateway's answer to a streaming operation. */
export interface Answered {
  readonly events: Events;
  readonly form: StreamForm;
  /** Headers known only after the answer; left out if the response had to begin earlier. */
  readonly headers: readonly string[];
}

/** A stream with its first event. A failure up to the first event is reported like that of any call (S-45). */
class Opening {
  private iterator: AsyncIterator<Passed<StreamResponse>> | undefined;
  private left = false;
  readonly done: Promise<Opened>;

  constructor(answering: Promise<Answered>) {
    this.done = this.open(answering);
  }

  private async open(answering: Promise<Answered>): Promise<Opened> {
    const answered = await answering;
    const iterator = answered.events[Symbol.asyncIterator]();
    this.iterator = iterator;
    if (this.left) this.leave();
    return { ...answered, iterator, first: await iterator.next() };
  }

  /** Releases the stream, now or as soon as it exists. */
  leave(): void {
    this.left = true;
    void Promise.resolve(this.iterator?.return?.()).catch(() => {});
  }
}

interface Opened extends Answered {
  readonly iterator: AsyncIterator<Passed<StreamResponse>>;
  readonly first: Next;
}

/** All open streams of the endpoint, so that they can be ended when the gateway stops. */
export class StreamHost {
  private readonly open = new Set<() => void>();

  constructor(private readonly times: StreamTimes = {}) {}

  get size(): number {
    return this.open.size;
  }

  /** Ends all streams; the tasks continue. */
  endAll(): void {
    for (const end of [...this.open]) end();
  }

  /**
   * Serves a stream until the agent ends it or the client disconnects, which does not affect the task (G-25). Throws
   * errors from opening the stream. If opening takes long, the response begins before the stream is open, and `late`
   * writes a later error into the response.
   */
  async serve(reply: StreamReply, answering: Promise<Answered>, late: (error: unknown) => Framed): Promise<void> {
    const { res, lines } = reply;
    const presence = new Presence(res);
    const opening = new Opening(answering);
    const early = await presence.within(opening.done, this.times.peek ?? PEEK);
    if (presence.gone) {
      opening.leave();
      return;
    }
    const headers = early ? [...reply.headers, ...early.headers] : reply.headers;
    const out = lines ? new LineResponse(res, headers) : new EventResponse(res, headers, pingOf(this.times));
    const sink = new Sink(res, out, lines, this.times.stall ?? STALL);
    const end = (): void => {
      presence.leave();
      out.end();
    };
    this.open.add(end);
    try {
      const stream = early ?? (await presence.during(opening.done));
      if (stream) await this.pump(stream, sink, presence);
    } catch (error) {
      const { text, event } = late(error);
      sink.event(text, event);
    } finally {
      this.open.delete(end);
      opening.leave();
      out.end();
    }
  }

  private async pump({ iterator, first, form }: Opened, sink: Sink, presence: Presence): Promise<void> {
    const { writer, behavior } = form;
    const wires = wireEvents(iterator, first, writer, behavior, this.times.hold);
    try {
      for (;;) {
        const next = await presence.during(wires.next());
        if (!next || next.done) return;
        const { wire, text } = next.value;
        if (text !== undefined) sink.event(form.wrap(onOneLine(text)));
        else sink.event(form.wrap(JSON.stringify(wire)), behavior.namesEvents ? nameOf(wire) : undefined);
        if (sink.full) await sink.drained();
      }
    } catch (error) {
      const { text, event } = form.error(error);
      sink.event(text, event);
    }
  }
}

/** Whether the client is still connected. When the client disconnects, all waiting for events of its stream ends. */
class Presence {
  gone: boolean;
  private wake = (): void => {};

  constructor(res: InboundResponse) {
    this.gone = res.closed;
    res.onClose(() => this.leave());
  }

  leave(): void {
    this.gone = true;
    this.wake();
  }

  /** The value of the promise; undefined if the client disconnected first. */
  during<T>(coming: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.wake = () => resolve(undefined);
      coming.then(resolve, reject);
      if (this.gone) resolve(undefined);
    });
  }

  /** Like `during`, but also returns undefined after `ms` milliseconds. */
  async within<T>(coming: Promise<T>, ms: number): Promise<T | undefined> {
    const timer = setTimeout(() => this.wake(), ms);
    try {
      return await this.during(coming);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Sends a stream that contains only an error. */
export function sendRefusedStream({ res, headers, lines }: StreamReply, text: string): void {
  const out = lines ? new LineResponse(res, headers) : new EventResponse(res, headers);
  new Sink(res, out, lines, STALL).event(text);
  out.end();
}

interface Out {
  write(chunk: string): void;
  allow(bytes: number): void;
  end(): void;
}

/** Writes to one client, no faster than it reads. */
class Sink {
  constructor(
    private readonly res: InboundResponse,
    private readonly out: Out,
    private readonly lines: boolean,
    private readonly stall: number,
  ) {}

  event(text: string, name?: string): void {
    const chunk = this.lines ? `${text}\n` : `${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`;
    if (chunk.length > LARGE) this.out.allow(Buffer.byteLength(chunk));
    this.out.write(chunk);
  }

  get full(): boolean {
    return this.res.full;
  }

  /** Resolves when the client has read enough. A client that stops reading is disconnected. */
  async drained(): Promise<void> {
    const { res } = this;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => res.destroy(), this.stall);
      const done = (): void => {
        clearTimeout(timer);
        res.offDrain(done);
        res.offClose(done);
        resolve();
      };
      res.onDrain(done);
      res.onClose(done);
    });
  }
}

const LARGE = 128 * 1024;

class LineResponse implements Out {
  constructor(
    private readonly res: InboundResponse,
    headers: readonly string[],
  ) {
    res.open(200, [
      ...headers,
      'Content-Type',
      NDJSON,
      'Cache-Control',
      'no-cache, no-transform',
      'X-Accel-Buffering',
      'no',
    ]);
  }

  write(chunk: string): void {
    this.res.write(chunk);
  }

  allow(): void {}

  end(): void {
    this.res.end();
  }
}

const nameOf = (wire: JsonValue): string =>
  typeof wire === 'object' && wire !== null && 'artifact' in wire ? 'task-artifact-update' : 'task-status-update';

const pingOf = ({ ping }: StreamTimes): { ping?: number } => (ping === undefined ? {} : { ping });
