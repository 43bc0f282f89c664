import { randomBytes } from 'node:crypto';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Id } from '../../../protocol/jsonrpc/message.js';
import type { EventSink, Resumable, SharedStreams, StreamCopy } from './shared-streams.js';

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

/** One stream of messages to a client: numbered, kept for a while, sent to one connection at a time. */
export class LoggedStream implements Resumable {
  private readonly events: Logged[] = [];
  private bytes = 0;
  private seq = 0;
  private sink: EventSink | undefined;
  private sent = 0;
  finished = false;
  /** When nothing more was added: from then on it is kept for its age only. */
  lastChange = performance.now();

  private turn: Promise<void> = Promise.resolve();

  constructor(
    readonly id: string,
    private readonly limits: LogLimits,
    /** Where other replicas find the stream; its first entry there says whose it is. */
    private readonly copy?: StreamCopy,
    /** Another replica has ended the stream in this one's place. */
    private readonly endedElsewhere: () => void = () => {},
  ) {
    if (copy) {
      this.seq = 1;
      this.sent = 1;
    }
  }

  get size(): number {
    return this.bytes;
  }

  get connected(): boolean {
    return this.sink !== undefined;
  }

  /** The number of the newest event. */
  get last(): number {
    return this.seq;
  }

  /** The id of the point before the next event: what a stream that has sent nothing yet is resumed from. */
  get position(): string {
    return eventId(this.id, this.seq);
  }

  append(data: readonly Buffer[]): void {
    const { copy } = this;
    if (!copy) {
      this.add(data);
      return;
    }
    // What a client has seen, every replica must know: it may come back to another one.
    const text = Buffer.concat(data).toString('utf8');
    this.turn = this.turn.then(async () => {
      if (this.finished) return;
      if (await copy.append(text)) this.add(data);
      else this.giveAway();
    });
  }

  private add(data: readonly Buffer[]): void {
    const seq = ++this.seq;
    const size = data.reduce((sum, part) => sum + part.length, 0);
    this.lastChange = performance.now();
    this.events.push({ seq, data, size });
    this.bytes += size;
    while (this.events.length > 1 && (this.events.length > this.limits.events || this.bytes > this.limits.bytes)) {
      this.bytes -= this.events.shift()!.size;
    }
    this.flush();
  }

  finish(): void {
    const { copy } = this;
    if (!copy) {
      this.close();
      return;
    }
    this.turn = this.turn.then(async () => {
      if (this.finished) return;
      if (await copy.finish()) this.close();
      else this.giveAway();
    });
  }

  private giveAway(): void {
    this.finished = true;
    this.endedElsewhere();
  }

  /** Whoever is connected hears the rest from the copy. */
  handOver(rest: Resumable | undefined): void {
    const { sink } = this;
    this.sink = undefined;
    if (!sink) return;
    if (rest) rest.connect(sink, this.sent);
    else sink.end();
  }

  private close(): void {
    this.finished = true;
    this.lastChange = performance.now();
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
    const before = this.sink;
    this.sink = sink;
    this.sent = after;
    this.flush();
    // Who comes back has lost the connection it had, even where nobody told us.
    if (before !== sink) before?.end();
  }

  /** Everything was sent without a sink. */
  delivered(): void {
    this.sent = this.seq;
  }

  /** The connection is closed on purpose; the client comes back for the rest. */
  letGo(retry: number): void {
    const { sink } = this;
    this.sink = undefined;
    sink?.end(retry);
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

/** A session may outlive its process, a stream in memory does not: an id from before a restart means nothing after it. */
const PROCESS = `${randomBytes(4).toString('hex')}-`;

/** Finished replies a session keeps for a client that may have missed their end. */
const FINISHED_KEPT = 16;

const eventId = (stream: string, seq: number): string => `${stream}.${seq}`;

/** The streams of one session. An event id names its stream, so only that one is replayed (HL-10, HL-11). */
export class EventLog {
  private readonly streams = new Map<string, LoggedStream>();
  private readonly prefix: string;
  private next = 0;
  private messages: LoggedStream | undefined;

  constructor(
    private readonly session: string,
    private readonly shared?: SharedStreams,
    private readonly limits: LogLimits = LOG_LIMITS,
  ) {
    this.prefix = shared?.prefix() ?? PROCESS;
  }

  /** Messages that belong to no request wait here for a GET. */
  get general(): LoggedStream {
    this.messages ??= this.make();
    return this.messages;
  }

  /** Whether a GET is open; one that never was costs nothing. */
  get hasGet(): boolean {
    return this.messages?.connected === true;
  }

  private make(request?: Id, share = false): LoggedStream {
    const shared = share ? this.shared : undefined;
    const id = `${this.prefix}${shared ? 'r' : 's'}${this.next++}`;
    const giveAway = (): void => void this.giveAway(stream);
    const copy = shared?.open(this.session, id, request, giveAway);
    const stream: LoggedStream = new LoggedStream(id, this.limits, copy, giveAway);
    this.streams.set(id, stream);
    return stream;
  }

  private async giveAway(stream: LoggedStream): Promise<void> {
    if (!this.streams.delete(stream.id)) return;
    stream.handOver(await this.shared?.find(this.session, stream.id, stream.last).catch(() => undefined));
  }

  /** A stream for the reply to a request. One whose answer is there already is not shared: there is nothing to miss. */
  open(request?: Id, share = false): LoggedStream {
    this.sweep();
    return this.make(request, share);
  }

  /** The stream and number a `Last-Event-ID` stands for, wherever the stream is made. */
  async find(lastEventId: string): Promise<{ readonly stream: Resumable; readonly seq: number }> {
    const match = /^([A-Za-z0-9-]{1,64})\.(\d{1,9})$/.exec(lastEventId);
    const seq = Number(match?.[2]);
    const stream = match && (this.streams.get(match[1]!) ?? (await this.shared?.find(this.session, match[1]!, seq)));
    if (!stream) throw new ProtocolError('event_not_found', 'Nothing is known about this Last-Event-ID; start again');
    return { stream, seq };
  }

  /** Finished replies are kept for their age, as many of the newest as fit. */
  private sweep(): void {
    const before = performance.now() - this.limits.age;
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
