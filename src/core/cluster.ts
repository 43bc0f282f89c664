import type { JsonValue } from '../protocol/jsonrpc/raw.js';
import type { Cancellation } from './caller.js';

/** A request from another replica. */
export interface Asked {
  readonly from: string;
  /** Cancelled when the asking replica cancels the request or is gone. */
  readonly cancellation: Cancellation;
  /** Sends an event before the answer. */
  emit(event: JsonValue): void;
}

export interface AskOptions {
  readonly cancellation?: Cancellation;
  readonly onEvent?: (event: JsonValue) => void;
}

/** The replicas of one gateway. State that exists in one process only is reached through its replica. */
export interface Cluster {
  /** The id of this replica. */
  readonly self: string;
  alive(replica: string): Promise<boolean>;
  /**
   * Rejects with `ReplicaGone` if the replica is not there or dies before it answers. Rejects with a `ProtocolError` if
   * the replica threw that error, or if no replica can be reached at the moment.
   */
  ask(replica: string, subject: string, payload: JsonValue, options?: AskOptions): Promise<JsonValue>;
  /** Answers requests with this subject. Returns the function that removes the handler. */
  handle(subject: string, handler: (payload: JsonValue, asked: Asked) => Promise<JsonValue>): () => void;
  /**
   * Sends a message to every other replica, or with a key to the replicas that follow the key. Resolves once no
   * receiver can miss the message; otherwise rejects with a `ProtocolError`.
   */
  tell(subject: string, payload: JsonValue, key?: string): Promise<void>;
  /**
   * Receives messages with this key until each `follow` of the key has had its `unfollow`. Several keys share a stream,
   * so listeners also get messages with other keys. Resolves once no message can be missed, which takes longer while
   * the bus is unavailable.
   */
  follow(key: string): Promise<void>;
  unfollow(key: string): void;
  onTold(subject: string, listener: (payload: JsonValue) => void): () => void;
}

export class ReplicaGone extends Error {
  override readonly name = 'ReplicaGone';

  constructor(
    readonly replica: string,
    /** Whether the replica may have received the request. */
    readonly sent: boolean,
  ) {
    super('the replica that held this state is gone');
  }
}

const nothing = (): void => {};

/** The cluster of a gateway that runs as a single process. */
export const ALONE: Cluster = {
  self: 'alone',
  alive: async (replica) => replica === 'alone',
  ask: async (replica) => {
    throw new ReplicaGone(replica, false);
  },
  handle: () => nothing,
  tell: async () => {},
  follow: async () => {},
  unfollow: nothing,
  onTold: () => nothing,
};
