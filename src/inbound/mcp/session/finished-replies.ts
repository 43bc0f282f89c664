import { ProtocolError } from '../../../protocol/errors.js';
import { eventId } from './event-ids.js';
import type { EventSink, Resumable } from './shared-streams.js';

/** A finished reply, kept for a client that may have missed its end. */
export interface Finished {
  readonly id: string;
  readonly stream: Resumable;
  readonly size: number;
  /** When the reply expires, by `performance.now()`. */
  readonly until: number;
  /** The connection on which the reply was sent whole, if it was. */
  readonly connection?: object | undefined;
  readonly owner: { forget(reply: Finished): void };
}

export const noLongerKept = (): ProtocolError =>
  new ProtocolError('event_not_found', 'The events after this Last-Event-ID are no longer kept; the session continues');

/**
 * A reply of one event that was sent whole. Most replies are of this kind, so this class keeps only the text of the
 * reply.
 */
export class WholeReply implements Finished, Resumable {
  constructor(
    readonly owner: Finished['owner'],
    readonly id: string,
    private readonly data: readonly Buffer[],
    readonly size: number,
    readonly until: number,
    readonly connection: object | undefined,
  ) {}

  get stream(): Resumable {
    return this;
  }

  /** The id before its event, from which the whole reply can be resumed. */
  get before(): string {
    return eventId(this.id, 0);
  }

  get event(): string {
    return eventId(this.id, 1);
  }

  connect(sink: EventSink, after = 1): void {
    if (after > 1) throw noLongerKept();
    if (after < 1) sink.event(this.event, this.data);
    sink.end();
  }

  disconnect(): void {}
}

/**
 * The finished replies of all sessions, in the order of their end. They have a common limit, because many sessions
 * together could exceed the memory.
 */
export class FinishedReplies {
  private readonly replies = new Set<Finished>();
  private held = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly most: number) {}

  get bytes(): number {
    return this.held;
  }

  add(reply: Finished): void {
    this.replies.add(reply);
    this.held += reply.size;
    for (const oldest of this.replies) {
      // The newest reply stays, whatever its size, because its client has not had time to reconnect.
      if (this.held <= this.most || oldest === reply) break;
      this.drop(oldest);
    }
    this.watch();
  }

  remove(reply: Finished): void {
    if (this.replies.delete(reply)) this.held -= reply.size;
  }

  private drop(reply: Finished): void {
    this.remove(reply);
    reply.owner.forget(reply);
  }

  /** Drops expired replies even if no new replies are added. */
  private watch(): void {
    if (this.timer) return;
    const [oldest] = this.replies;
    if (!oldest) return;
    const wait = Math.max(oldest.until - performance.now(), LEAST_WAIT);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      const now = performance.now();
      for (const reply of this.replies) {
        if (reply.until > now) break;
        this.drop(reply);
      }
      this.watch();
    }, wait).unref();
  }
}

const LEAST_WAIT = 100;
