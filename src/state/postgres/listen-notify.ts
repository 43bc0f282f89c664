import type { Socket } from 'node:net';
import type { Client } from 'pg';
import { Backoff, within } from '../../core/timing.js';
import { channelOf, ListenedChannels, type Wakeups } from '../bus-listeners.js';
import type { Db } from '../db.js';
import type { Hints } from '../sql-bus.js';
import { connectionConfig, type PostgresOptions } from './postgres.js';

const CHANNEL = 'parley_wake_';
/** Maximum number of notifications in one statement. */
const BATCH = 200;
const NOTIFY = 'SELECT pg_notify(n->>0, n->>1) FROM json_array_elements(CAST($1 AS json)) AS n';
/** PostgreSQL refuses payloads of 8,000 bytes and more. */
const MAX_PAYLOAD = 7_000;
const HEARTBEAT_MS = 5_000;

/**
 * Hints by LISTEN and NOTIFY. LISTEN uses a separate connection, for the channels of the streams that this replica
 * waits for. NOTIFY runs outside the transactions of appends, because a commit with a notification holds a lock that
 * all other such commits wait for, which would prevent group commit. Streams that change within a short time share one
 * notification.
 */
export class PostgresHints implements Hints {
  readonly #url: string;
  readonly #db: Db;
  readonly #options: PostgresOptions;
  #changed = new Set<string>();
  #sending = false;
  #closed = false;
  #listening: Promise<void> | undefined;
  /** The channels of the current connection. */
  #channels: ListenedChannels | undefined;
  #stop: () => void = () => {};
  readonly #stopped = new Promise<void>((resolve) => {
    this.#stop = resolve;
  });

  constructor(url: string, db: Db, options: PostgresOptions = {}) {
    this.#url = url;
    this.#db = db;
    this.#options = options;
  }

  send(name: string): void {
    this.#changed.add(name);
    if (!this.#sending) void this.#flush();
  }

  listen(wakeups: Wakeups): void {
    this.#listening = this.#keepListening(wakeups);
  }

  update(): void {
    void this.#channels?.update();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stop();
    await this.#listening;
  }

  async #flush(): Promise<void> {
    this.#sending = true;
    while (this.#changed.size > 0 && !this.#closed) {
      // Hints are lost while the server is away. The polls of the listeners then find the events.
      await this.#db.q(NOTIFY, [JSON.stringify(this.#nextBatch())]).catch(() => {});
    }
    this.#sending = false;
  }

  /** Returns pairs of channel and payload. Names of the same channel share a notification. */
  #nextBatch(): [channel: string, payload: string][] {
    const payloads = new Map<number, string>();
    for (const name of this.#changed) {
      const channel = channelOf(name);
      const before = payloads.get(channel);
      const full =
        before === undefined
          ? payloads.size === BATCH
          : Buffer.byteLength(before) + Buffer.byteLength(name) > MAX_PAYLOAD;
      if (full) continue;
      payloads.set(channel, before === undefined ? name : `${before}\n${name}`);
      this.#changed.delete(name);
    }
    return [...payloads].map(([channel, payload]) => [`${CHANNEL}${channel}`, payload]);
  }

  async #keepListening(wakeups: Wakeups): Promise<void> {
    const pg = await import('pg');
    for (const pauses = new Backoff({ first: 50, longest: 2_000, jitter: 0.5 }); !this.#closed; ) {
      const client = new pg.default.Client(connectionConfig(this.#url, this.#options, pg));
      const ended = new Promise<void>((resolve) => client.once('end', resolve));
      client.on('error', () => {});
      client.on('notification', ({ payload }) => {
        for (const name of payload?.split('\n') ?? []) wakeups.fire(name);
      });
      try {
        await Promise.race([client.connect(), this.#stopped]);
        if (this.#closed) break;
        const channels = listenedBy(client, wakeups);
        this.#channels = channels;
        await channels.update();
        pauses.reset();
        await this.#beat(client, channels, ended);
      } catch {
        // The loop tries again. Each pause is longer than the one before.
      } finally {
        this.#channels = undefined;
        await hangUp(client);
      }
      await within(this.#stopped, pauses.next());
    }
  }

  /** Queries regularly, to detect a connection whose other end disappeared silently. Returns when it has ended. */
  async #beat(client: Client, channels: ListenedChannels, ended: Promise<void>): Promise<void> {
    let over = false;
    void ended.then(() => {
      over = true;
    });
    while (!over && !this.#closed) {
      await within(Promise.race([ended, this.#stopped]), HEARTBEAT_MS);
      if (over || this.#closed) return;
      await client.query('SELECT 1');
      await channels.update({ trim: true });
    }
  }
}

function listenedBy(client: Client, wakeups: Wakeups): ListenedChannels {
  const each = (verb: string, channels: readonly number[]): Promise<unknown> =>
    client.query(channels.map((channel) => `${verb} ${CHANNEL}${channel}`).join('; '));
  return new ListenedChannels({
    wakeups,
    listen: (channels) => each('LISTEN', channels),
    unlisten: (channels) => each('UNLISTEN', channels),
    failed: () => void hangUp(client),
  });
}

/** Closes the connection. Waits only a short time for a server that does not respond. */
async function hangUp(client: Client): Promise<void> {
  await within(
    client.end().catch(() => {}),
    500,
  );
  (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
}
