import { type AppendOptions, type Bus, fenced, gap, parseId, START, type StreamEvent } from '../bus.js';
import { newId } from '../ids.js';
import { Wakes } from '../wakes.js';
import { RedisConnections, type RedisOptions, redisError } from './redis.js';
import { APPEND, INCR, LEASE, READ, RELEASE, RENEW, TAILS } from './scripts.js';

export interface RedisBusOptions extends RedisOptions {
  /** Before every key and channel. */
  prefix?: string;
  pollMs?: number;
}

const HEARTBEAT_MS = 5_000;

/** Redis or Valkey, 6.2 and newer: streams, leases and counters, with one subscriber connection for all wake-ups. */
export class RedisBus implements Bus {
  readonly #redis: RedisConnections;
  readonly #prefix: string;
  readonly #wakes: Wakes;
  readonly #heartbeat: NodeJS.Timeout;

  private constructor(redis: RedisConnections, options: RedisBusOptions) {
    this.#redis = redis;
    this.#prefix = options.prefix ?? 'parley:';
    this.#wakes = new Wakes({ pollMs: options.pollMs ?? 5_000, tails: (streams) => this.#tails(streams) });
    const { subscriber } = redis;
    subscriber.on('message', (_channel, stream) => this.#wakes.fire(stream));
    const listen = (): void => {
      subscriber.subscribe(this.#channel).then(
        () => this.#wakes.fireAll(), // what was published while nobody listened
        () => subscriber.disconnect(true),
      );
    };
    subscriber.on('ready', listen);
    if (subscriber.status === 'ready') listen();
    // A connection whose other end is gone without a word shows only when asked; the driver then drops it.
    this.#heartbeat = setInterval(() => void subscriber.ping().catch(() => {}), HEARTBEAT_MS).unref();
  }

  static async open(url: string, options: RedisBusOptions = {}): Promise<RedisBus> {
    return new RedisBus(await RedisConnections.open(url, options), options);
  }

  get #channel(): string {
    return `${this.#prefix}wake`;
  }

  async append(stream: string, data: string, options: AppendOptions): Promise<string> {
    const { maxLen, maxBytes = Number.MAX_SAFE_INTEGER, ttlMs, fence, mark = newId() } = options;
    const keys = [this.#stream(stream), this.#lease(fence?.key ?? '')];
    const args = [data, maxLen, maxBytes, ttlMs, fence?.fence ?? '', mark, this.#channel, stream];
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
    return this.#wakes.add(stream, fn);
  }

  hint(topic: string): void {
    this.#wakes.fire(topic);
    this.#redis.commands.publish(this.#channel, topic).catch(() => {});
  }

  onHint(topic: string, fn: () => void): () => void {
    return this.#wakes.addHinted(topic, fn);
  }

  async lease(key: string, owner: string, ttlMs: number): Promise<number | undefined> {
    const keys = [this.#lease(key), `${this.#prefix}fence`];
    const fence = await this.#redis.run(LEASE, keys, [owner, ttlMs], this.#redis.leases);
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

  async incr(key: string, n: number, ttlMs: number): Promise<number> {
    return Number(await this.#redis.run(INCR, [`${this.#prefix}n:${key}`], [n, ttlMs]));
  }

  async ping(): Promise<void> {
    const { commands, leases } = this.#redis;
    await Promise.all([commands.ping(), leases.ping()]).catch(rethrow);
  }

  async close(): Promise<void> {
    clearInterval(this.#heartbeat);
    this.#wakes.close();
    this.#redis.close();
  }

  async #tails(streams: readonly string[]): Promise<Map<string, string>> {
    const ids = (await this.#redis.run(
      TAILS,
      streams.map((s) => this.#stream(s)),
      [],
    )) as string[];
    const pairs = streams.map((stream, i): [string, string] => [stream, ids[i] ?? '']);
    return new Map(pairs.filter(([, id]) => id !== ''));
  }

  #stream(stream: string): string {
    return `${this.#prefix}s:${stream}`;
  }

  #lease(key: string): string {
    return `${this.#prefix}l:${key}`;
  }
}

function rethrow(error: unknown): never {
  throw redisError(error);
}
