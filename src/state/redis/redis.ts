import type { RedisOptions as ClientOptions, Cluster, Redis } from 'ioredis';
import { backoff, within } from '../../core/timing.js';
import { type Outcome, StateError } from '../errors.js';
import type { Script } from './scripts.js';

export interface RedisOptions {
  commandTimeoutMs?: number;
  connectTimeoutMs?: number;
}

type Arg = string | number;

/** What Redis answers when it is there and will not: full, loading, a replica, busy in a script, cut off from its disk. */
const REFUSED = /^(?:OOM|LOADING|READONLY|BUSY|MISCONF|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|TRYAGAIN)\b/;

export function redisError(error: unknown): StateError {
  if (error instanceof StateError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const cause = { cause: error };
  if (REFUSED.test(message)) return new StateError('unavailable', `Redis: ${message}`, cause);
  if ((error as { name?: string }).name === 'ReplyError') {
    return new StateError('internal', `Redis: ${message}`, cause);
  }
  // With no offline queue, a command given while there is no connection is never sent.
  const unsent = /isn't writeable|enableOfflineQueue|Connection is closed|startup nodes|slots cache/.test(message);
  const outcome: Outcome = unsent ? 'not_executed' : 'unknown';
  return new StateError('unavailable', `Redis: ${message}`, { ...cause, outcome });
}

/** The scheme of a Redis Cluster, known by the address of one of its nodes. */
const CLUSTER = /^redis(s?)\+cluster:\/\//;

/**
 * Connections that bound every wait: one for commands, one for the leases alone, so that no renewal waits behind a large
 * answer, and one that listens. The driver's defaults wait for ever on a frozen server and queue without end
 * for an absent one. A connection that owes an answer for twice the command's time is dropped and made anew.
 *
 * With a Redis Cluster the first two are connections to each of its nodes. What is published at one node reaches the
 * subscribers of all of them, so one connection listens there too, at any node that is up.
 */
export class RedisConnections {
  private constructor(
    readonly commands: Redis | Cluster,
    readonly leases: Redis | Cluster,
    readonly subscriber: Redis,
  ) {}

  static async open(url: string, options: RedisOptions = {}): Promise<RedisConnections> {
    const driver = await import('ioredis');
    const commandTimeout = options.commandTimeoutMs ?? 500;
    const connectTimeout = options.connectTimeoutMs ?? 2_000;
    const retryStrategy = (times: number): number => backoff(times, { first: 100, longest: 1_000, jitter: 0.5 });
    const shared = {
      lazyConnect: true,
      commandTimeout,
      connectTimeout,
      socketTimeout: commandTimeout * 2,
      maxRetriesPerRequest: 1,
      enableOfflineQueue: false,
      keepAlive: 5_000,
      retryStrategy,
    };
    const node = url.replace(CLUSTER, 'redis$1://');
    const client = (more: ClientOptions): Redis | Cluster => {
      if (node === url) return new driver.Redis(url, { ...shared, ...more });
      const { enableAutoPipelining = false, ...each } = more;
      const { host, port, ...access } = nodeOptions(node);
      return new driver.Cluster([{ host, port }], {
        redisOptions: { ...shared, ...each, ...access },
        lazyConnect: true,
        enableOfflineQueue: false,
        enableAutoPipelining,
        slotsRefreshTimeout: connectTimeout,
        clusterRetryStrategy: retryStrategy,
      });
    };
    const commands = client({ enableAutoPipelining: true, connectionName: 'parley' });
    const leases = client({ connectionName: 'parley-lease' });
    const subscriber: Redis = new driver.Redis(node, {
      ...shared,
      connectionName: 'parley-wake',
      autoResubscribe: false,
      retryStrategy: (times) => {
        const other = 'nodes' in commands ? pick(commands.nodes()) : undefined;
        // The next attempt goes to another node: this one may stay away.
        if (other) Object.assign(subscriber.options, { host: other.options.host, port: other.options.port });
        return retryStrategy(times);
      },
    });
    const all = [commands, leases, subscriber];
    for (const one of all) one.on('error', () => {});
    // A start while Redis is away is allowed: commands are refused until it is there.
    const connected = Promise.all(all.map((one) => one.connect().catch(() => {})));
    await within(connected, connectTimeout);
    return new RedisConnections(commands, leases, subscriber);
  }

  /** NOSCRIPT means that nothing ran: Redis was restarted since, or never saw the script. */
  async run(script: Script, keys: readonly string[], args: readonly Arg[], client = this.commands): Promise<unknown> {
    try {
      try {
        return await client.evalsha(script.sha, keys.length, ...keys, ...args);
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
        return await client.eval(script.text, keys.length, ...keys, ...args);
      }
    } catch (error) {
      throw redisError(error);
    }
  }

  /** Resolves when the server answers, or every node that holds a part of the keys. */
  async ping(): Promise<void> {
    const nodes = [this.commands, this.leases].flatMap((client) =>
      'nodes' in client ? client.nodes('master') : client,
    );
    if (nodes.length === 0) throw new StateError('unavailable', 'Redis: no node of the cluster can be reached');
    await Promise.all(nodes.map((one) => one.ping())).catch((error: unknown) => {
      throw redisError(error);
    });
  }

  close(): void {
    for (const client of [this.subscriber, this.leases, this.commands]) client.disconnect();
  }
}

const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(Math.random() * list.length)];

/** What the address says of one node, for all of them; its TLS certificate has to name the address it is reached by. */
function nodeOptions(url: string): ClientOptions & { host: string; port: number } {
  const { protocol, hostname, port, username, password } = new URL(url);
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? 6379 : Number(port),
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' && { tls: {} }),
  };
}
