import type { Id } from '../../../protocol/jsonrpc/message.js';

/** Receives the events of a stream while a connection is there. */
export interface EventSink {
  /** Events go to another replica, and not to a connection of this one. */
  readonly remote?: boolean;
  event(id: string, data: readonly Buffer[]): void;
  /** The last event was sent; with `retry`, the rest is to be had after so many milliseconds. */
  end(retry?: number): void;
}

/** A copy of a stream where every replica can read it. */
export interface StreamCopy {
  /** Resolves once other replicas can find the stream; only then may a client hear of it. */
  readonly opened: Promise<unknown>;
  /** Resolves once the event is safe; only then is it sent. False where another replica has ended the stream. */
  append(text: string): Promise<boolean>;
  finish(): Promise<boolean>;
}

/** A stream that can be sent over a connection from a certain event on. */
export interface Resumable {
  /** From behind event `after`; without it from where it was left. */
  connect(sink: EventSink, after?: number): void;
  disconnect(sink: EventSink): void;
}

/** The streams of sessions, as far as they have to be found by other replicas. */
export interface SharedStreams {
  /** Begins the names of the streams of one session made here: no other replica uses it, nor this one again. */
  prefix(): string;
  /** `endedElsewhere` is called even after everything was taken: what was kept of the stream here no longer counts. */
  open(session: string, stream: string, request: Id | undefined, endedElsewhere: () => void): StreamCopy;
  /** A stream that another replica made; undefined where nobody holds what is asked for. */
  find(session: string, stream: string, after: number): Promise<Resumable | undefined>;
  /** Lets other replicas read streams made here, also those that were not shared. */
  serve?(find: (session: string, stream: string) => Resumable | undefined): void;
}
