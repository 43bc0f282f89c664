import type { JsonValue } from '../protocol/jsonrpc/raw.js';
import type { Cancellation } from './caller.js';

/** What another replica asked of this one, and how to answer in parts. */
export interface Asked {
  readonly from: string;
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
  /** Rejects with `ReplicaGone` when the other one is not there, or dies before it has answered. */
  ask(replica: string, subject: string, payload: JsonValue, options?: AskOptions): Promise<JsonValue>;
  handle(subject: string, handler: (payload: JsonValue, asked: Asked) => Promise<JsonValue>): void;
  /** Tells every other replica. */
  tell(subject: string, payload: JsonValue): void;
  onTold(subject: string, listener: (payload: JsonValue) => void): void;
}

export class ReplicaGone extends Error {
  override readonly name = 'ReplicaGone';

  constructor(readonly replica: string) {
    super('the replica that held this is gone');
  }
}

/** A gateway of one process. */
export const ALONE: Cluster = {
  self: 'alone',
  alive: async (replica) => replica === 'alone',
  ask: async (replica) => {
    throw new ReplicaGone(replica);
  },
  handle: () => {},
  tell: () => {},
  onTold: () => {},
};
