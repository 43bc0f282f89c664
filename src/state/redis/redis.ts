import type { Redis } from 'ioredis';
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
  const unsent = /isn't writeable|enableOfflineQueue|Connection is closed/.test(message);
  const outcome: Outcome = unsent ? 'not_executed' : 'unknown';
  return new StateError('unavailable', `Redis: ${message}`, { ...cause, outcome });
}

/**
 * Connections that bound every wait: one for commands, one for the leases alone, so that no renewal waits behind a large
 * answer, and one that listens. The driver's defaults wait for ever on a frozen server and queue without end
 * for an absent one. A connection that owes an answer for twice the command's time is dropped and made anew.
 */
export class RedisConnections {
  private constructor(
    readonly commands: Redis,
    readonly leases: Redis,
    readonly subscriber: Redis,
  ) {}

  static async open(url: string, options: RedisOptions = {}): Promise<RedisConnections> {
    const { Redis: Client } = await import('ioredis');
    const commandTimeout = options.commandTimeoutMs ?? 500;
    const connectTimeout = options.connectTimeoutMs ?? 2_000;
    const shared = {
      lazyConnect: true,
      commandTimeout,
      connectTimeout,
      socketTimeout: commandTimeout * 2,
      maxRetriesPerRequest: 1,
      enableOfflineQueue: false,
      keepAlive: 5_000,
      retryStrategy: (times: number) => backoff(times, { first: 100, longest: 1_000, jitter: 0.5 }),
    };
    const commands = new Client(url, { ...shared, enableAutoPipelining: true, connectionName: 'parley' });
    const leases = new Client(url, { ...shared, connectionName: 'parley-lease' });
    const subscriber = new Client(url, { ...shared, connectionName: 'parley-wake', autoResubscribe: false });
    const all = [commands, leases, subscriber];
    for (const client of all) client.on('error', () => {});
    // A start while Redis is away is allowed: commands are refused until it is there.
    const connected = Promise.all(all.map((client) => client.connect().catch(() => {})));
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

  close(): void {
    for (const client of [this.subscriber, this.leases, this.commands]) client.disconnect();
  }
}
