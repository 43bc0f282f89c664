import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const EVERY_MS = 1_000;
/**
 * Consecutive probes without an answer after which a connection is replaced. One probe alone may fall into a pause of
 * the server.
 */
const MOST_UNANSWERED = 2;

/**
 * Replaces connections whose answers are missing, or belong to other commands. The driver assigns answers to commands
 * by their order. If a command is lost on the way, for example in a proxy, each later command gets the answer of the
 * next one, for as long as the connection lives. The driver replaces silent connections only, and a connection with
 * frequent commands is never silent. A probe therefore sends a text that only its own answer contains.
 */
export class Watchdog {
  private readonly timer: NodeJS.Timeout;
  /** Probes without an answer, in a row. */
  private readonly unanswered = new WeakMap<Redis, number>();
  private readonly probing = new WeakSet<Redis>();

  constructor(
    private readonly connections: () => readonly Redis[],
    /** The time limit of a command, in milliseconds. */
    private readonly commandTimeout: number,
    every = EVERY_MS,
  ) {
    this.timer = setInterval(() => {
      for (const connection of this.connections()) void this.probe(connection);
    }, every).unref();
  }

  close(): void {
    clearInterval(this.timer);
  }

  private async probe(connection: Redis): Promise<void> {
    if (connection.status !== 'ready' || this.probing.has(connection)) return;
    this.probing.add(connection);
    const sent = randomUUID();
    const began = performance.now();
    let foreign = false;
    let answered = true;
    try {
      // A subscriber of the older protocol gets the text as one of two elements.
      foreign = ![await connection.ping(sent)].flat().includes(sent);
    } catch (error) {
      // An error that the server sends is an answer too. If the time limit ended late, this process stood still, and
      // the answer may have arrived meanwhile.
      const late = performance.now() - began > 1.5 * this.commandTimeout;
      answered = late || (error as Error).name === 'ReplyError';
    }
    this.probing.delete(connection);
    const missed = answered ? 0 : (this.unanswered.get(connection) ?? 0) + 1;
    this.unanswered.set(connection, missed);
    if (!foreign && missed < MOST_UNANSWERED) return;
    this.unanswered.delete(connection);
    connection.disconnect(true);
  }
}
