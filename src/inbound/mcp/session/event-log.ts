import { randomBytes } from 'node:crypto';
import { ProtocolError } from '../../../protocol/errors.js';
import { lasting, lengthOf } from '../../../protocol/jsonrpc/json-pieces.js';
import type { Id } from '../../../protocol/jsonrpc/message.js';
import { eventId, requestPart, streamOf } from './event-ids.js';
import { type Finished, FinishedReplies, noLongerKept, WholeReply } from './finished-replies.js';
import { LatestReaders } from './latest-readers.js';
import type { EventSink, Resumable, SharedStreams, StreamCopy } from './shared-streams.js';

/** The limits of one stream of a session, kept for a client that lost its connection. */
export interface LogLimits {
  readonly events: number;
  readonly bytes: number;
  readonly age: number;
}

export const LOG_LIMITS: LogLimits = { events: 1_000, bytes: 1024 * 1024, age: 10 * 60 * 1000 };

/**
 * Finished replies are kept for a client that may have missed their end: a number per session, together no larger than
 * one stream may be, and a number of bytes for all sessions. Replies known to be read are dropped first, then the
 * oldest.
 */
const FINISHED_KEPT = 16;
const FINISHED_IN_ALL = 16 * 1024 * 1024;

interface Logged {
  readonly seq: number;
  readonly data: readonly Buffer[];
  readonly size: number;
}

/** Observes the end of a stream. */
interface StreamHost {
  /** Called when the stream is complete. From now on the stream is only kept until it expires. */
  ended(stream: LoggedStream): void;
  /** Called when another replica has ended the stream in place of this replica. */
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
  /** When a client was last known to read, at any replica; by `performance.now()`. */
  leftAt = 0;
  /**
   * Resolves when the earlier shared events were sent, so that events are sent in order, however long it takes to share
   * them.
   */
  private turn: Promise<void> | undefined;

  constructor(
    readonly id: string,
    private readonly limits: LogLimits,
    /** The copy in which other replicas find the stream. The first entry of the copy names the owner. */
    private readonly copy?: StreamCopy,
    private readonly host?: StreamHost,
  ) {
    if (copy) {
      this.seq = 1;
      this.sent = 1;
      this.turn = copy.opened.then(() => {});
    }
  }

  /** Resolves when the client may learn the stream's id; undefined if the stream is not shared. */
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

  /** The id before the next event, from which a stream without sent events is resumed. */
  get position(): string {
    return eventId(this.id, this.unsent);
  }

  private get oldest(): number {
    return this.events[0]?.seq ?? this.seq + 1;
  }

  /** The number before the first kept event that was not sent. */
  private get unsent(): number {
    return Math.max(this.sent, this.oldest - 1);
  }

  append(data: readonly Buffer[]): void {
    const { copy } = this;
    if (!copy) {
      this.add(data);
      return;
    }
    // Every event that a client has seen must be known to all replicas, because the client may reconnect to another
    // replica. The copy gets the event at once, because the copy limits the waiting events.
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

  /** Called when the stream continues elsewhere. The connected client gets the remaining events from `rest`. */
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
   * Sends all further events to `sink`, starting after event `after`. If `after` is absent, starts after the last event
   * sent, or at the oldest event kept. Throws if the events after `after` are no longer kept.
   */
  connect(sink: EventSink, after?: number): void {
    const { oldest } = this;
    const from = after ?? this.unsent;
    if (from > this.seq || from + 1 < oldest) throw noLongerKept();
    const before = this.sink;
    this.sink = sink;
    this.sent = from;
    this.flush();
    // A client that reconnects has lost its previous connection, even if the gateway has not noticed the loss.
    if (before !== sink) before?.end();
  }

  /** Closes the connection although the stream continues. The client reconnects to get the remaining events. */
  closeForReconnect(retry: number): void {
    const end = (): void => {
      const { sink } = this;
      this.sink = undefined;
      this.leftAt = performance.now();
      sink?.end(retry);
    };
    // The connection is not closed before the client has received the event id with which it reconnects.
    if (this.copy) this.inTurn(async () => end());
    else end();
  }

  /** Takes back the events after `seq`, which `sink` could not send. False if `sink` is no longer connected. */
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

/**
 * Distinguishes this process. A session may outlive its process, but streams in memory do not: event ids from before a
 * restart are invalid.
 */
const PROCESS = `${randomBytes(4).toString('hex')}-`;

const finishedReplies = new FinishedReplies(FINISHED_IN_ALL);

/** The streams of one session. An event id names its stream, so that only this stream is replayed (HL-10, HL-11). */
export class EventLog implements StreamHost {
  /** The open streams. */
  private readonly streams = new Map<string, LoggedStream>();
  /** The finished replies, in the order of their end. */
  private readonly finished: Finished[] = [];
  private held = 0;
  private readonly readers = new LatestReaders();
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

  /** The stream for messages without a request, which wait for a GET. */
  get general(): LoggedStream {
    this.waiting ??= this.add('g', undefined);
    return this.waiting;
  }

  /** The stream for messages without a request; undefined before the first message or GET. */
  get messages(): LoggedStream | undefined {
    return this.waiting;
  }

  /** Whether a GET is open; does not create the general stream. */
  get hasGet(): boolean {
    return this.waiting?.connectedHere === true;
  }

  private name(kind: 'g' | 'r' | 's', request: Id | undefined): string {
    return `${this.prefix}${requestPart(request)}${kind}${this.next++}`;
  }

  /** A stream for the reply to a request; shared if it may be resumed at another replica. */
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

  /**
   * A reply that was sent whole over `connection`. The reply is not shared; other replicas ask this replica for it.
   */
  whole(message: readonly Buffer[], connection?: object, request?: Id): WholeReply {
    const size = lengthOf(message);
    const reply = new WholeReply(this, this.name('s', request), lasting(message, size), size, this.until(), connection);
    this.keep(reply);
    return reply;
  }

  /**
   * Called when the client sent its next message over this connection, so that it has read the earlier replies that
   * were sent whole over it.
   */
  read(connection: object): void {
    for (let i = this.finished.length - 1; i >= 0; i--) {
      const reply = this.finished[i]!;
      if (reply.connection === connection) this.drop(reply);
    }
  }

  /** Called when a client reads this stream at another replica. */
  followed(id: string): void {
    const stream = this.streams.get(id);
    if (stream) stream.leftAt = performance.now();
  }

  /** Called when the session has ended, so that no client will reconnect. */
  close(): void {
    this.closed = true;
    for (const reply of this.finished.slice()) this.drop(reply);
  }

  ended(stream: LoggedStream): void {
    // Another replica may already have taken the stream over.
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
    // A single reply that exceeds the limit stays until the next reply.
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

  /** The stream and the event number of a `Last-Event-ID` that this caller sent, at any replica. */
  async find(lastEventId: string, caller: string): Promise<{ readonly stream: Resumable; readonly seq: number }> {
    const event = streamOf(lastEventId);
    const found = event && (this.here(event.stream) ?? (await this.elsewhere(event.stream, event.seq, caller)));
    if (!found)
      throw new ProtocolError('event_not_found', 'No events are kept after this Last-Event-ID; the session continues');
    return { stream: found, seq: event.seq };
  }

  private async elsewhere(stream: string, after: number, caller: string): Promise<Resumable | undefined> {
    const found = await this.shared?.find(this.session, stream, after, caller);
    return found && this.readers.limited(stream, found);
  }

  /** A stream that this replica produces. */
  here(id: string): Resumable | undefined {
    return this.streams.get(id) ?? this.finished.find((reply) => reply.id === id)?.stream;
  }
}
