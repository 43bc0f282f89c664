import type { Socket } from 'node:net';
import type { Client } from 'pg';
import { Backoff, within } from '../../core/timing.js';
import type { Db } from '../db.js';
import type { Hints } from '../sql-bus.js';
import { connectionConfig, type PostgresOptions } from './postgres.js';

const CHANNEL = 'parley_wake';
/** PostgreSQL refuses payloads of 8,000 bytes and more. */
const MAX_PAYLOAD = 7_000;
const HEARTBEAT_MS = 5_000;

/**
 * LISTEN on one connection of its own. NOTIFY is sent beside the transactions, not inside them: a commit that notifies
 * holds a lock all other notifying commits wait for, which would end group commit; and streams that changed meanwhile
 * share one notification.
 */
export class PostgresHints implements Hints {
  readonly #url: string;
  readonly #db: Db;
  readonly #options: PostgresOptions;
  #changed = new Set<string>();
  #sending = false;
  #closed = false;
  #listening: Promise<void> | undefined;
  #stop: () => void = () => {};
  readonly #stopped = new Promise<void>((resolve) => {
    this.#stop = resolve;
  });

  constructor(url: string, db: Db, options: PostgresOptions = {}) {
    this.#url = url;
    this.#db = db;
    this.#options = options;
  }

  send(stream: string): void {
    this.#changed.add(stream);
    if (!this.#sending) void this.#flush();
  }

  listen(heard: (stream: string | undefined) => void): void {
    this.#listening = this.#keepListening(heard);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stop();
    await this.#listening;
  }

  async #flush(): Promise<void> {
    this.#sending = true;
    while (this.#changed.size > 0 && !this.#closed) {
      let payload = '';
      for (const stream of this.#changed) {
        if (payload && Buffer.byteLength(payload) + Buffer.byteLength(stream) > MAX_PAYLOAD) break;
        payload += payload ? `\n${stream}` : stream;
        this.#changed.delete(stream);
      }
      // Lost when the server is away: the listeners' poll finds the events.
      await this.#db.q('SELECT pg_notify($1, $2)', [CHANNEL, payload]).catch(() => {});
    }
    this.#sending = false;
  }

  async #keepListening(heard: (stream: string | undefined) => void): Promise<void> {
    const pg = await import('pg');
    for (const pauses = new Backoff({ first: 50, longest: 2_000, jitter: 0.5 }); !this.#closed; ) {
      const client = new pg.default.Client(connectionConfig(this.#url, this.#options, pg));
      const ended = new Promise<void>((resolve) => client.once('end', resolve));
      client.on('error', () => {});
      client.on('notification', ({ payload }) => {
        for (const stream of payload?.split('\n') ?? []) heard(stream);
      });
      try {
        await Promise.race([client.connect(), this.#stopped]);
        if (this.#closed) break;
        await client.query(`LISTEN ${CHANNEL}`);
        pauses.reset();
        heard(undefined); // what happened while nobody listened
        await this.#beat(client, ended);
      } catch {
        // It is tried again below, after a longer pause each time.
      } finally {
        await hangUp(client);
      }
      await within(this.#stopped, pauses.next());
    }
  }

  /** A connection whose other end is gone without a word shows only when asked. Returns when it has ended. */
  async #beat(client: Client, ended: Promise<void>): Promise<void> {
    let over = false;
    void ended.then(() => {
      over = true;
    });
    while (!over && !this.#closed) {
      await within(Promise.race([ended, this.#stopped]), HEARTBEAT_MS);
      if (!over && !this.#closed) await client.query('SELECT 1');
    }
  }
}

/** Says goodbye, but does not wait for a server that does not listen. */
async function hangUp(client: Client): Promise<void> {
  await within(
    client.end().catch(() => {}),
    500,
  );
  (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
}
