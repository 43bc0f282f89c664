import type { RedisOptions as ClientOptions, Cluster, Redis } from 'ioredis';
import { backoff, within } from '../../core/timing.js';
import { type Outcome, StateError } from '../errors.js';
import type { Script } from './scripts.js';
import { Watchdog } from './watchdog.js';

export interface RedisOptions {
  commandTimeoutMs?: number;
  connectTimeoutMs?: number;
}

type Arg = string | number;

/** Errors of a running Redis that refuses a command: out of memory, loading, read-only, busy, or without its disk. */
const REFUSED = /^(?:OOM|LOADING|READONLY|BUSY|MISCONF|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|TRYAGAIN)\b/;

export function redisError(error: unknown): StateError {
  if (error instanceof StateError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const cause = { cause: error };
  if (REFUSED.test(message)) return new StateError('unavailable', `Redis: ${message}`, cause);
  if ((error as { name?: string }).name === 'ReplyError') {
    return new StateError('internal', `Redis: ${message}`, cause);
  }
  // Without an offline queue, the driver never sends a command that is given while it has no connection.
  const unsent = /isn't writeable|enableOfflineQueue|Connection is closed|startup nodes|slots cache/.test(message);
  const outcome: Outcome = unsent ? 'not_executed' : 'unknown';
  return new StateError('unavailable', `Redis: ${message}`, { ...cause, outcome });
}

/** The URL scheme of a Redis Cluster. The URL has the address of one node of the cluster. */
const CLUSTER = /^redis(s?)\+cluster:\/\//;

/**
 * Three kinds of connections, with a time limit for every wait: one for commands; one for leases only, so that no
 * renewal waits behind a large answer; and one that subscribes. With its defaults, the driver waits forever for a
 * frozen server and queues commands without limit for an absent one. The driver replaces a connection that has not
 * answered for twice the command timeout. The watchdog replaces a connection whose answers do not belong to its
 * commands.
 *
 * With a Redis Cluster, each of the first two has a connection to every node. A message published at one node reaches
 * the subscribers of all nodes, so one connection to any live node is enough to subscribe.
 */
export class RedisConnections {
  private readonly watchdog: Watchdog;

  private constructor(
    readonly commands: Redis | Cluster,
    readonly leases: Redis | Cluster,
    readonly subscriber: Redis,
    commandTimeout: number,
  ) {
    this.watchdog = new Watchdog(() => [...this.nodes(), subscriber], commandTimeout);
  }

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
      disconnectTimeout: commandTimeout,
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
        // The next attempt goes to another node, because the current node may stay away.
        if (other) Object.assign(subscriber.options, { host: other.options.host, port: other.options.port });
        return retryStrategy(times);
      },
    });
    const all = [commands, leases, subscriber];
    for (const one of all) one.on('error', () => {});
    // The gateway may start while Redis is away. Until Redis is back, commands are refused.
    const connected = Promise.all(all.map((one) => one.connect().catch(() => {})));
    await within(connected, connectTimeout);
    return new RedisConnections(commands, leases, subscriber, commandTimeout);
  }

  /** Sends the script text after NOSCRIPT: Redis does not have the script, as after a restart, and ran nothing. */
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

  /** Resolves when the server answers; with a Redis Cluster, when all master nodes answer. */
  async ping(): Promise<void> {
    const nodes = this.nodes('master');
    if (nodes.length === 0) throw new StateError('unavailable', 'Redis: no node of the cluster can be reached');
    await Promise.all(nodes.map((one) => one.ping())).catch((error: unknown) => {
      throw redisError(error);
    });
  }

  /** The connections to single servers, except the one that subscribes. */
  private nodes(role: 'master' | 'all' = 'all'): Redis[] {
    return [this.commands, this.leases].flatMap((client) => ('nodes' in client ? client.nodes(role) : client));
  }

  close(): void {
    this.watchdog.close();
    for (const client of [this.subscriber, this.leases, this.commands]) client.disconnect();
  }
}

const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(Math.random() * list.length)];

/** The options of the URL, used for all nodes. The TLS certificate of each node must name the address of that node. */
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
