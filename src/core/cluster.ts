import type { JsonValue } from '../protocol/jsonrpc/raw.js';
import type { Cancellation } from './caller.js';

/** What another replica asked of this one, and how to answer in parts. */
export interface Asked {
  readonly from: string;
  /** Cancelled by whoever asked, and when that replica is gone. */
  readonly cancellation: Cancellation;
  /** Sends something ahead of the answer. */
  emit(event: JsonValue): void;
}

export interface AskOptions {
  readonly cancellation?: Cancellation;
  readonly onEvent?: (event: JsonValue) => void;
}

/** The replicas of one gateway. What cannot leave the process that holds it is reached through here. */
export interface Cluster {
  /** This replica. */
  readonly self: string;
  alive(replica: string): Promise<boolean>;
  /**
   * Rejects with `ReplicaGone` when the other one is not there, or dies before it has answered; with a `ProtocolError`
   * when that one threw it, or nobody can be reached at the moment.
   */
  ask(replica: string, subject: string, payload: JsonValue, options?: AskOptions): Promise<JsonValue>;
  /** Answers what is asked under a subject; returns how to stop. */
  handle(subject: string, handler: (payload: JsonValue, asked: Asked) => Promise<JsonValue>): () => void;
  /**
   * Tells every other replica, or with a key those that follow that key; resolves once they cannot miss it, and rejects
   * with a `ProtocolError` otherwise.
   */
  tell(subject: string, payload: JsonValue, key?: string): Promise<void>;
  /**
   * Hears what is told under a key from now on, until `unfollow` was called as often. Keys share a number of streams:
   * listeners hear of other keys too. Resolves once nothing is missed any more; with the bus away that may be later.
   */
  follow(key: string): Promise<void>;
  unfollow(key: string): void;
  onTold(subject: string, listener: (payload: JsonValue) => void): () => void;
}

export class ReplicaGone extends Error {
  override readonly name = 'ReplicaGone';

  constructor(
    readonly replica: string,
    /** Whether it may have read what it was asked. */
    readonly sent: boolean,
  ) {
    super('the replica that held this is gone');
  }
}

const nothing = (): void => {};

/** A gateway of one process. */
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
