import { StateError } from './errors.js';

/** The cursor before a stream's first event. */
export const START = '0';

export interface AppendOptions {
  /** Maximum number of events that the stream keeps. Older events are trimmed. */
  maxLen: number;
  /** Maximum number of bytes that the stream keeps. The newest event is always kept. */
  maxBytes?: number;
  /** The stream expires this long after its last event. */
  ttlMs: number;
  /** Throws `fenced` unless the lease is still held under this fence. Stream and lease share a shard (`shardOf`). */
  fence?: { key: string; fence: number };
  /**
   * Makes a retry safe: if the last event of the stream has the same mark, the append returns the id of that event and
   * adds nothing. For a stream with one writer, after an append without an answer.
   */
  mark?: string;
}

export type StreamEvent = readonly [id: string, data: string];

/**
 * Communication between replicas: event logs, wake-ups, leases, counters. An event id is `<epoch>-<seq>`: `epoch`
 * distinguishes a stream from an expired one of the same name, `seq` counts 1, 2, 3 without gaps, so that a reader
 * notices missing events.
 */
export interface Bus {
  /** Appends an event, which is durable when the promise resolves. Returns the id of the event. */
  append(stream: string, data: string, options: AppendOptions): Promise<string>;

  /**
   * The events after a cursor, oldest first. Throws `gap` if events after the cursor were trimmed or have expired, or
   * if the stream never had that id: no event is left out silently.
   */
  read(stream: string, after: string, limit: number): Promise<StreamEvent[]>;

  /** The id of the newest event; `START` if there is none. */
  tail(stream: string): Promise<string>;

  drop(stream: string): Promise<void>;

  /** Calls `fn` when the stream may have new events. Only a hint: it may come late or twice, so `read` decides. */
  wake(stream: string, fn: () => void): () => void;

  /** Notifies the listeners of a topic at every replica. Nothing is stored: a hint may be lost or come twice. */
  hint(topic: string): void;
  /** Calls `fn` on hints, and when hints may have been lost. A listener that must not miss a change also polls. */
  onHint(topic: string, fn: () => void): () => void;

  /**
   * Takes or renews a lease. Returns its fence, or undefined if another owner holds it. Each new holder gets a higher
   * fence, also an owner that returns after its lease expired.
   */
  lease(key: string, owner: string, ttlMs: number): Promise<number | undefined>;
  /** Returns false if the lease has expired or belongs to another owner. */
  renew(key: string, owner: string, ttlMs: number): Promise<boolean>;
  release(key: string, owner: string): Promise<boolean>;
  holder(key: string): Promise<{ owner: string; fence: number } | undefined>;

  /**
   * Returns the members of a group with the remaining milliseconds of their leases. A member `<name>` holds the lease
   * `<group>:<name>` as the owner `<name>`. One statement returns any number of members. `self` must be a member. An
   * engine that cannot list its leases keeps a list of the callers of this method instead; with a `ttlMs` of 0, it
   * removes `self` from that list.
   */
  members(group: string, self: string, ttlMs: number): Promise<Map<string, number>>;

  /** Adds to a counter that starts at 0 and expires `ttlMs` after its first addition. Returns the new value. */
  incr(key: string, n: number, ttlMs: number): Promise<number>;

  /** Resolves when the engine answers. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface EventId {
  epoch: number;
  seq: number;
}

export function formatId({ epoch, seq }: EventId): string {
  return `${epoch}-${seq}`;
}

export function parseId(id: string): EventId | undefined {
  const match = /^(\d{1,15})-(\d{1,15})$/.exec(id);
  return match ? { epoch: Number(match[1]), seq: Number(match[2]) } : undefined;
}

/**
 * The part of a name by which an engine with several nodes selects the node: the part in braces at the start of the
 * name, or the whole name. All names of one operation must have the same shard.
 */
export function shardOf(name: string): string {
  return /^\{([^{}]+)\}/.exec(name)?.[1] ?? name;
}

/** Maps a name to a number below `count`, the same in every process: FNV-1a over the UTF-16 units of the name. */
export function bucketOf(name: string, count: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % count;
}

export function checkShard(stream: string, lease: string): void {
  if (shardOf(stream) === shardOf(lease)) return;
  throw new StateError('internal', `stream ${stream} and lease ${lease} are in different shards`);
}

export function gap(stream: string, after: string): StateError {
  const shown = after.length > 40 ? `${after.slice(0, 40)}…` : after;
  return new StateError('gap', `stream ${stream} no longer has all events after ${shown}`);
}

export function fenced(stream: string, key: string): StateError {
  return new StateError('fenced', `the lease ${key} is not held under this fence: nothing was appended to ${stream}`);
}
