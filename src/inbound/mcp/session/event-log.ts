import { ProtocolError } from '../../../protocol/errors.js';

/** What one stream of a session may keep for a client that lost its connection. */
export interface LogLimits {
  readonly events: number;
  readonly bytes: number;
  readonly age: number;
}

export const LOG_LIMITS: LogLimits = { events: 1_000, bytes: 1024 * 1024, age: 10 * 60 * 1000 };

interface Logged {
  readonly seq: number;
  readonly data: readonly Buffer[];
  readonly size: number;
}

/** Receives the events of a stream while a connection is there. */
export interface EventSink {
  event(id: string, data: readonly Buffer[]): void;
  /** The last event was sent. */
  end(): void;
}

/** One stream of messages to a client: numbered, kept for a while, sent to one connection at a time. */
export class LoggedStream {
  private readonly events: Logged[] = [];
  private bytes = 0;
  private seq = 0;
  private sink: EventSink | undefined;
  private sent = 0;
  finished = false;
  /** When nothing more was added: from then on it is kept for its age only. */
  lastChange = Date.now();

  constructor(
    readonly id: string,
    private readonly limits: LogLimits,
  ) {}

  get size(): number {
    return this.bytes;
  }

  get connected(): boolean {
    return this.sink !== undefined;
  }

  /** The id of the point before the next event: what a stream that has sent nothing yet is resumed from. */
  get position(): string {
    return eventId(this.id, this.seq);
  }

  append(data: readonly Buffer[]): void {
    const seq = ++this.seq;
    const size = data.reduce((sum, part) => sum + part.length, 0);
    this.lastChange = Date.now();
    this.events.push({ seq, data, size });
    this.bytes += size;
    while (this.events.length > 1 && (this.events.length > this.limits.events || this.bytes > this.limits.bytes)) {
      this.bytes -= this.events.shift()!.size;
    }
    this.flush();
  }

  finish(): void {
    this.finished = true;
    this.lastChange = Date.now();
    this.flush();
  }

  /** Sends from here on to `sink`, starting behind event `after`. Throws where those events are no longer kept. */
  connect(sink: EventSink, after: number = this.sent): void {
    const oldest = this.events[0]?.seq ?? this.seq + 1;
    if (after > this.seq || after + 1 < oldest) {
      throw new ProtocolError(
        'event_not_found',
        'The events behind this Last-Event-ID are no longer kept; start again',
      );
    }
    this.sink = sink;
    this.sent = after;
    this.flush();
  }

  /** Everything was sent without a sink. */
  delivered(): void {
    this.sent = this.seq;
  }

  /** The connection is closed on purpose; the client comes back for the rest. */
  letGo(): void {
    this.sink = undefined;
  }

  disconnect(sink: EventSink): void {
    if (this.sink === sink) this.sink = undefined;
  }

  private flush(): void {
    const { sink } = this;
    if (!sink) return;
    for (const event of this.events) {
      if (event.seq <= this.sent) continue;
      this.sent = event.seq;
      sink.event(eventId(this.id, event.seq), event.data);
    }
    if (!this.finished) return;
    this.sink = undefined;
    sink.end();
  }
}

/** Finished replies a session keeps for a client that may have missed their end. */
const FINISHED_KEPT = 16;

const eventId = (stream: string, seq: number): string => `${stream}.${seq}`;

/** The streams of one session. An event id names its stream, so only that one is replayed (HL-10, HL-11). */
export class EventLog {
  private readonly streams = new Map<string, LoggedStream>();
  private next = 0;
  /** Messages that belong to no request wait here for a GET. */
  readonly general: LoggedStream;

  constructor(private readonly limits: LogLimits = LOG_LIMITS) {
    this.general = this.open();
  }

  open(): LoggedStream {
    this.sweep();
    const stream = new LoggedStream(`s${this.next++}`, this.limits);
    this.streams.set(stream.id, stream);
    return stream;
  }

  forget(stream: LoggedStream): void {
    if (stream !== this.general) this.streams.delete(stream.id);
  }

  /** The stream and number a `Last-Event-ID` stands for. */
  find(lastEventId: string): { readonly stream: LoggedStream; readonly seq: number } {
    const match = /^(s\d{1,9})\.(\d{1,9})$/.exec(lastEventId);
    const stream = match && this.streams.get(match[1]!);
    if (!stream) throw new ProtocolError('event_not_found', 'Nothing is known about this Last-Event-ID; start again');
    return { stream, seq: Number(match[2]) };
  }

  /** Finished replies are kept for their age, as many of the newest as fit. */
  private sweep(): void {
    const before = Date.now() - this.limits.age;
    let kept = 0;
    let bytes = 0;
    for (const stream of [...this.streams.values()].reverse()) {
      if (!stream.finished || stream.connected) continue;
      kept++;
      bytes += stream.size;
      if (stream.lastChange < before || kept > FINISHED_KEPT || bytes > this.limits.bytes)
        this.streams.delete(stream.id);
    }
  }
}
