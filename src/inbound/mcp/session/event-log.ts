import { randomBytes } from 'node:crypto';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Id } from '../../../protocol/jsonrpc/message.js';
import { lasting, lengthOf } from '../../../protocol/jsonrpc/pieces.js';
import { eventId, requestPart, streamOf } from './event-ids.js';
import { type Finished, FinishedReplies, noLongerKept, WholeReply } from './finished-replies.js';
import type { EventSink, Resumable, SharedStreams, StreamCopy } from './shared-streams.js';

/** What one stream of a session may keep for a client that lost its connection. */
export interface LogLimits {
  readonly events: number;
  readonly bytes: number;
  readonly age: number;
}

export const LOG_LIMITS: LogLimits = { events: 1_000, bytes: 1024 * 1024, age: 10 * 60 * 1000 };

/**
 * Finished replies are kept for a client that may have missed their end: so many of a session, together no larger than
 * one stream may be, and so many bytes of all sessions. The oldest go first, and before them what was read for sure.
 */
const FINISHED_KEPT = 16;
const FINISHED_IN_ALL = 16 * 1024 * 1024;

interface Logged {
  readonly seq: number;
  readonly data: readonly Buffer[];
  readonly size: number;
}

/** Hears what becomes of a stream. */
interface StreamHost {
  /** Nothing more is added: from here on it is kept for its age only. */
  ended(stream: LoggedStream): void;
  /** Another replica has ended the stream in this one's place. */
  endedElsewhere(stream: LoggedStream): void;
}

/** One stream of messages to a client: numbered, kept for a while, sent to one connection at a time. */
export class LoggedStream implements Resumable {
  private readonly events: Logged[] = [];
  private bytes = 0;
  private seq = 0;
  private sink: EventSink | undefined;
  private sent = 0;
  finished = false;
  /** When a client was last known to read, here or at another replica; by `performance.now()`. */
  leftAt = 0;
  /** What is shared goes out in order, however long the sharing takes. */
  private turn: Promise<void> | undefined;

  constructor(
    readonly id: string,
    private readonly limits: LogLimits,
    /** Where other replicas find the stream; its first entry there says whose it is. */
    private readonly copy?: StreamCopy,
    private readonly host?: StreamHost,
  ) {
    if (copy) {
      this.seq = 1;
      this.sent = 1;
      this.turn = copy.opened.then(() => {});
    }
  }

  /** Resolves when the stream may be told of; undefined where nobody else needs to know of it. */
  get opened(): Promise<unknown> | undefined {
    return this.copy?.opened;
  }

  get size(): number {
    return this.bytes;
  }

  get connected(): boolean {
    return this.sink !== undefined;
  }

  /** Whether a connection of this replica reads the stream. */
  get connectedHere(): boolean {
    return this.sink !== undefined && this.sink.remote !== true;
  }

  /** The number of the newest event. */
  get last(): number {
    return this.seq;
  }

  /** The id of the point before the next event: what a stream that has sent nothing yet is resumed from. */
  get position(): string {
    return eventId(this.id, this.unsent);
  }

  private get oldest(): number {
    return this.events[0]?.seq ?? this.seq + 1;
  }

  /** The number before the first event that is kept and was not sent. */
  private get unsent(): number {
    return Math.max(this.sent, this.oldest - 1);
  }

  append(data: readonly Buffer[]): void {
    const { copy } = this;
    if (!copy) {
      this.add(data);
      return;
    }
    // What a client has seen, every replica must know: it may come back to another one.
    // The copy has the event at once, because the copy bounds what may wait.
    const shared = copy.append(Buffer.concat(data).toString('utf8'));
    this.inTurn(async () => {
      if (await shared) this.add(data);
      else this.giveAway();
    });
  }

  private inTurn(share: () => Promise<void>): void {
    this.turn = (this.turn ?? Promise.resolve()).then(() => (this.finished ? undefined : share()));
  }

  private add(data: readonly Buffer[]): void {
    const seq = ++this.seq;
    const size = lengthOf(data);
    this.events.push({ seq, data: lasting(data, size), size });
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
    const shared = copy.finish();
    this.inTurn(async () => {
      if (await shared) this.close();
      else this.giveAway();
    });
  }

  private giveAway(): void {
    this.finished = true;
    this.host?.endedElsewhere(this);
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
    this.flush();
    this.host?.ended(this);
  }

  /**
   * Sends from here on to `sink`, starting behind event `after`; without it behind the last event sent, or at the oldest
   * that is kept. Throws where the events behind `after` are no longer kept.
   */
  connect(sink: EventSink, after?: number): void {
    const { oldest } = this;
    const from = after ?? this.unsent;
    if (from > this.seq || from + 1 < oldest) throw noLongerKept();
    const before = this.sink;
    this.sink = sink;
    this.sent = from;
    this.flush();
    // Who comes back has lost the connection it had, even where nobody told us.
    if (before !== sink) before?.end();
  }

  /** The connection is closed on purpose; the client comes back for the rest. */
  letGo(retry: number): void {
    const end = (): void => {
      const { sink } = this;
      this.sink = undefined;
      this.leftAt = performance.now();
      sink?.end(retry);
    };
    // Not before the client has what it comes back with.
    if (this.copy) this.inTurn(async () => end());
    else end();
  }

  /** Takes back the events behind `seq`, which `sink` could not send. False where `sink` is no longer connected. */
  returnTo(sink: EventSink, seq: number): boolean {
    if (this.sink !== sink) return false;
    this.disconnect(sink);
    this.sent = Math.min(this.sent, seq);
    return true;
  }

  disconnect(sink: EventSink): void {
    if (this.sink !== sink) return;
    this.sink = undefined;
    this.leftAt = performance.now();
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

const finishedReplies = new FinishedReplies(FINISHED_IN_ALL);

/** The streams of one session. An event id names its stream, so only that one is replayed (HL-10, HL-11). */
export class EventLog implements StreamHost {
  /** Those that go on. */
  private readonly streams = new Map<string, LoggedStream>();
  /** Those that are over, by the time they ended. */
  private readonly finished: Finished[] = [];
  private held = 0;
  private readonly prefix: string;
  private next = 0;
  private waiting: LoggedStream | undefined;
  private closed = false;

  constructor(
    private readonly session: string,
    private readonly shared?: SharedStreams,
    private readonly limits: LogLimits = LOG_LIMITS,
    private readonly inAll: FinishedReplies = finishedReplies,
  ) {
    this.prefix = shared?.prefix() ?? PROCESS;
  }

  /** Messages that belong to no request wait here for a GET. */
  get general(): LoggedStream {
    this.waiting ??= this.add('g', undefined);
    return this.waiting;
  }

  /** The same stream, where there was a message or a GET before. */
  get messages(): LoggedStream | undefined {
    return this.waiting;
  }

  /** Whether a GET is open; one that never was costs nothing. */
  get hasGet(): boolean {
    return this.waiting?.connectedHere === true;
  }

  private name(kind: 'g' | 'r' | 's', request: Id | undefined): string {
    return `${this.prefix}${requestPart(request)}${kind}${this.next++}`;
  }

  /** A stream for the reply to a request; one that may be resumed elsewhere is shared. */
  open(request?: Id, share = false): LoggedStream {
    const shared = share ? this.shared : undefined;
    return this.add(shared ? 'r' : 's', request, shared);
  }

  private add(kind: 'g' | 'r' | 's', request: Id | undefined, shared?: SharedStreams): LoggedStream {
    const id = this.name(kind, request);
    const copy = shared?.open(this.session, id, request, () => this.endedElsewhere(stream));
    const stream: LoggedStream = new LoggedStream(id, this.limits, copy, this);
    this.streams.set(id, stream);
    return stream;
  }

  /** A reply that leaves in one piece over `connection`. It is not shared: other replicas ask this one for it. */
  whole(message: readonly Buffer[], connection?: object, request?: Id): WholeReply {
    const size = lengthOf(message);
    const reply = new WholeReply(this, this.name('s', request), lasting(message, size), size, this.until(), connection);
    this.keep(reply);
    return reply;
  }

  /** The session's next message came over this connection: whoever sent it has read what was sent whole on it before. */
  read(connection: object): void {
    for (let i = this.finished.length - 1; i >= 0; i--) {
      const reply = this.finished[i]!;
      if (reply.connection === connection) this.drop(reply);
    }
  }

  /** A client reads this stream at another replica. */
  followed(id: string): void {
    const stream = this.streams.get(id);
    if (stream) stream.leftAt = performance.now();
  }

  /** The session is over, and nobody comes back. */
  close(): void {
    this.closed = true;
    for (const reply of this.finished.slice()) this.drop(reply);
  }

  ended(stream: LoggedStream): void {
    // Another replica may have taken it over before.
    if (!this.streams.delete(stream.id)) return;
    const { id, size } = stream;
    this.keep({ id, stream, size, until: this.until(), owner: this });
  }

  endedElsewhere(stream: LoggedStream): void {
    const kept = this.finished.find(({ id }) => id === stream.id);
    if (kept) this.drop(kept);
    else if (!this.streams.delete(stream.id)) return;
    void this.handOver(stream);
  }

  private async handOver(stream: LoggedStream): Promise<void> {
    stream.handOver(await this.shared?.find(this.session, stream.id, stream.last).catch(() => undefined));
  }

  private until(): number {
    return performance.now() + this.limits.age;
  }

  private keep(reply: Finished): void {
    if (this.closed) return;
    this.finished.push(reply);
    this.held += reply.size;
    this.inAll.add(reply);
    // One that is too large alone is there until the next.
    while (this.finished.length > 1 && (this.finished.length > FINISHED_KEPT || this.held > this.limits.bytes))
      this.drop(this.finished[0]!);
  }

  private drop(reply: Finished): void {
    this.inAll.remove(reply);
    this.forget(reply);
  }

  forget(reply: Finished): void {
    const index = this.finished.indexOf(reply);
    if (index < 0) return;
    this.finished.splice(index, 1);
    this.held -= reply.size;
  }

  /** The stream and number a `Last-Event-ID` stands for, wherever the stream is made. */
  async find(lastEventId: string): Promise<{ readonly stream: Resumable; readonly seq: number }> {
    const event = streamOf(lastEventId);
    const found =
      event && (this.here(event.stream) ?? (await this.shared?.find(this.session, event.stream, event.seq)));
    if (!found)
      throw new ProtocolError('event_not_found', 'Nothing is kept behind this Last-Event-ID; the session goes on');
    return { stream: found, seq: event.seq };
  }

  /** A stream that is made here. */
  here(id: string): Resumable | undefined {
    return this.streams.get(id) ?? this.finished.find((reply) => reply.id === id)?.stream;
  }
}
