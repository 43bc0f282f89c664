import type { Id } from '../../../protocol/jsonrpc/message.js';

/** Receives the events of a stream while there is a connection. */
export interface EventSink {
  /** Whether the events go to another replica, and not to a connection of this replica. */
  readonly remote?: boolean;
  event(id: string, data: readonly Buffer[]): void;
  /**
   * The last event was sent. With `retry`, the client may ask for the remaining events after this many milliseconds.
   */
  end(retry?: number): void;
}

/** A copy of a stream that every replica can read. */
export interface StreamCopy {
  /** Resolves once other replicas can find the stream. Before that, no client may learn its id. */
  readonly opened: Promise<unknown>;
  /**
   * Resolves once the event is stored. Before that, the event is not sent. False if another replica has ended the
   * stream.
   */
  append(text: string): Promise<boolean>;
  finish(): Promise<boolean>;
}

/** A stream that can be sent over a connection from a given event on. */
export interface Resumable {
  /** Sends the events that follow event `after`. If `after` is absent, sends the events that were not sent yet. */
  connect(sink: EventSink, after?: number): void;
  disconnect(sink: EventSink): void;
}

/** The streams of sessions that other replicas must be able to find. */
export interface SharedStreams {
  /**
   * The prefix for the names of one session's streams at this replica. No other replica uses the prefix, and this
   * replica uses it only once.
   */
  prefix(): string;
  /**
   * `endedElsewhere` is called when another replica has ended the stream, even after all events were read. The events
   * that are kept here are then obsolete.
   */
  open(session: string, stream: string, request: Id | undefined, endedElsewhere: () => void): StreamCopy;
  /**
   * A stream that another replica produced; undefined if no replica has the requested events. `caller` is the caller
   * whose request names the stream. The name may be invented, so the searches of each caller are limited.
   */
  find(session: string, stream: string, after: number, caller?: string): Promise<Resumable | undefined>;
  /** Lets other replicas read streams produced here, including those that were not shared. */
  serve?(find: (session: string, stream: string) => Resumable | undefined): void;
}
