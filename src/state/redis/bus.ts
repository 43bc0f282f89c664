import {
  type AppendOptions,
  type Bus,
  checkShard,
  fenced,
  gap,
  parseId,
  START,
  type StreamEvent,
  shardOf,
} from '../bus.js';
import { channelOf, ListenedChannels, Wakeups } from '../bus-listeners.js';
import { newId } from '../ids.js';
import { RedisConnections, type RedisOptions, redisError } from './redis.js';
import { APPEND, INCR, LEASE, MEMBERS, READ, RELEASE, RENEW } from './scripts.js';

export interface RedisBusOptions extends RedisOptions {
  /** The prefix of every key and channel. */
  prefix?: string;
  pollMs?: number;
}

const HEARTBEAT_MS = 5_000;
/**
 * How long the fence counter of a lease is kept. Without a counter, new fences are higher because they start at the
 * current time.
 */
const FENCE_KEPT_MS = 24 * 3_600_000;

/** Redis or Valkey, 6.2 and newer: streams, leases and counters, with one subscriber connection for all wake-ups. */
export class RedisBus implements Bus {
  readonly #redis: RedisConnections;
  readonly #prefix: string;
  readonly #wakeups: Wakeups;
  readonly #heartbeat: NodeJS.Timeout;

  private constructor(redis: RedisConnections, options: RedisBusOptions) {
    this.#redis = redis;
    this.#prefix = options.prefix ?? 'parley:';
    const { subscriber } = redis;
    let channels: ListenedChannels | undefined;
    this.#wakeups = new Wakeups({
      pollMs: options.pollMs ?? 5_000,
      tails: (streams) => this.#tails(streams),
      needed: () => void channels?.update(),
    });
    subscriber.on('message', (_channel, name) => this.#wakeups.fire(name));
    const listen = (): void => {
      channels = new ListenedChannels({
        wakeups: this.#wakeups,
        listen: (added) => subscriber.subscribe(...added.map((channel) => this.#channel(channel))),
        unlisten: (left) => subscriber.unsubscribe(...left.map((channel) => this.#channel(channel))),
        failed: () => subscriber.disconnect(true),
      });
      void channels.update();
    };
    subscriber.on('ready', listen);
    subscriber.on('close', () => {
      channels = undefined;
    });
    if (subscriber.status === 'ready') listen();
    this.#heartbeat = setInterval(() => void channels?.update({ trim: true }), HEARTBEAT_MS).unref();
  }

  static async open(url: string, options: RedisBusOptions = {}): Promise<RedisBus> {
    return new RedisBus(await RedisConnections.open(url, options), options);
  }

  #channel(channel: number): string {
    return `${this.#prefix}wake:${channel}`;
  }

  async append(stream: string, data: string, options: AppendOptions): Promise<string> {
    const { maxLen, maxBytes = Number.MAX_SAFE_INTEGER, ttlMs, fence, mark = newId() } = options;
    if (fence) checkShard(stream, fence.key);
    // Without a fence the script ignores the second key. The key must still be in the slot of the first one, because
    // Redis Cluster requires one slot.
    const keys = [this.#stream(stream), fence ? this.#lease(fence.key) : this.#stream(stream)];
    const args = [data, maxLen, maxBytes, ttlMs, fence?.fence ?? '', mark, this.#channel(channelOf(stream)), stream];
    const id = await this.#redis.run(APPEND, keys, args);
    if (typeof id !== 'string') throw fenced(stream, fence?.key ?? '');
    return id;
  }

  async read(stream: string, after: string, limit: number): Promise<StreamEvent[]> {
    if (after !== START && !parseId(after)) throw gap(stream, after);
    const flat = await this.#redis.run(READ, [this.#stream(stream)], [after, limit]);
    if (!Array.isArray(flat)) throw gap(stream, after);
    const events: StreamEvent[] = [];
    for (let i = 0; i < flat.length; i += 2) events.push([String(flat[i]), String(flat[i + 1])]);
    return events;
  }

  async tail(stream: string): Promise<string> {
    return (await this.#tails([stream])).get(stream) ?? START;
  }

  async drop(stream: string): Promise<void> {
    await this.#redis.commands.del(this.#stream(stream)).catch(rethrow);
  }

  wake(stream: string, fn: () => void): () => void {
    return this.#wakeups.add(stream, fn);
  }

  hint(topic: string): void {
    this.#wakeups.fire(topic);
    this.#redis.commands.publish(this.#channel(channelOf(topic)), topic).catch(() => {});
  }

  onHint(topic: string, fn: () => void): () => void {
    return this.#wakeups.addHinted(topic, fn);
  }

  async lease(key: string, owner: string, ttlMs: number): Promise<number | undefined> {
    const keys = [this.#lease(key), this.#key('f', key)];
    const fence = await this.#redis.run(LEASE, keys, [owner, ttlMs, FENCE_KEPT_MS], this.#redis.leases);
    return fence === null ? undefined : Number(fence);
  }

  async renew(key: string, owner: string, ttlMs: number): Promise<boolean> {
    return (await this.#redis.run(RENEW, [this.#lease(key)], [owner, ttlMs], this.#redis.leases)) === 1;
  }

  async release(key: string, owner: string): Promise<boolean> {
    return (await this.#redis.run(RELEASE, [this.#lease(key)], [owner], this.#redis.leases)) === 1;
  }

  async holder(key: string): Promise<{ owner: string; fence: number } | undefined> {
    const [owner, fence] = await this.#redis.leases.hmget(this.#lease(key), 'owner', 'fence').catch(rethrow);
    return owner == null ? undefined : { owner, fence: Number(fence) };
  }

  async members(group: string, self: string, ttlMs: number): Promise<Map<string, number>> {
    const flat = await this.#redis.run(MEMBERS, [this.#key('m', group)], [self, ttlMs], this.#redis.leases);
    const members = new Map<string, number>();
    const list = flat as string[];
    for (let i = 0; i < list.length; i += 2) members.set(list[i]!, Number(list[i + 1]));
    return members;
  }

  async incr(key: string, n: number, ttlMs: number): Promise<number> {
    return Number(await this.#redis.run(INCR, [this.#key('n', key)], [n, ttlMs]));
  }

  async ping(): Promise<void> {
    await this.#redis.ping();
  }

  async close(): Promise<void> {
    clearInterval(this.#heartbeat);
    this.#wakeups.close();
    this.#redis.close();
  }

  /** Uses one command per stream, because streams may be on different nodes. The driver sends the commands together. */
  async #tails(streams: readonly string[]): Promise<Map<string, string>> {
    const newest = await Promise.all(
      streams.map((stream) => this.#redis.commands.xrevrange(this.#stream(stream), '+', '-', 'COUNT', 1)),
    ).catch(rethrow);
    return new Map(
      streams.flatMap((stream, i): [string, string][] => (newest[i]?.[0] ? [[stream, newest[i][0][0]]] : [])),
    );
  }

  #stream(stream: string): string {
    return this.#key('s', stream);
  }

  #lease(key: string): string {
    return this.#key('l', key);
  }

  /** The hash tag keeps all keys of one shard in one slot of a Redis Cluster. */
  #key(kind: 's' | 'l' | 'f' | 'm' | 'n', name: string): string {
    return `${this.#prefix}${kind}:{${shardOf(name).replace(/[{}]/g, '_')}}:${name}`;
  }
}

function rethrow(error: unknown): never {
  throw redisError(error);
}
