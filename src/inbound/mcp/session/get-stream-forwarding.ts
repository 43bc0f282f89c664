import { ALONE, type Cluster } from '../../../core/cluster.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { streamOf } from './event-ids.js';
import type { LoggedStream } from './event-log.js';
import type { EventSink } from './shared-streams.js';

/** Sent to every replica: the GET stream of a session is open at a replica, and may be resumed from an event. */
const OPENED = 'session:get-opened';
/** Sent to every replica: there are messages for the GET stream of a session. */
const WANTED = 'session:get-wanted';
/** Sent to the replica with the open GET stream: send these messages. False if the stream is not open. */
const MESSAGES = 'session:get-messages';

const BATCH = 100;
/**
 * The maximum number of bytes that wait for another replica. Further messages stay at the replica that created them.
 */
const MOST_QUEUED = 1024 * 1024;

/** Every replica that serves the session watches lists and resources itself, so these messages need no forwarding. */
const MADE_EVERYWHERE =
  /^\{"jsonrpc":"2\.0","method":"notifications\/(?:(?:tools|prompts|resources)\/list_changed|resources\/updated)"/;

export const madeEverywhere = (message: string): boolean => MADE_EVERYWHERE.test(message);

/** Messages of a session that belong to no request. */
export interface GetHolder {
  /** Whether a GET stream is open at this replica. */
  readonly connected: boolean;
  /** The stream for messages that belong to no request, if there is one. */
  readonly messages: LoggedStream | undefined;
  unsolicited(message: Buffer): void;
}

/**
 * Forwards the messages of a session that belong to no request to the replica where its client has the GET stream open.
 * Messages wait at the replica that created them until there is such a replica.
 */
export class GetStreams {
  constructor(
    private readonly cluster: Cluster,
    private readonly find: (session: string) => GetHolder | undefined,
  ) {
    cluster.onTold(OPENED, (payload) => this.forward(payload as JsonObject));
    cluster.onTold(WANTED, (payload) => {
      const session = String((payload as JsonObject)['session']);
      if (this.find(session)?.connected) this.opened(session);
    });
    cluster.handle(MESSAGES, async (payload) => {
      const { session, messages } = payload as JsonObject;
      const holder = this.find(String(session));
      if (!holder?.connected) return false;
      for (const message of messages as string[]) holder.unsolicited(Buffer.from(message));
      return true;
    });
  }

  /**
   * Called when the GET stream of a session was opened at this replica, possibly resumed from an event of another
   * replica.
   */
  opened(session: string, last?: string): void {
    const { self } = this.cluster;
    this.tell(OPENED, session, { replica: self, ...(last !== undefined && { last }) });
  }

  /** Called when there are messages, and no GET stream is open at this replica. */
  wanted(session: string): void {
    this.tell(WANTED, session, {});
  }

  /** Only replicas that hold the session can have messages for the session, or its GET stream. */
  private tell(subject: string, session: string, more: JsonObject): void {
    if (this.cluster !== ALONE) this.cluster.tell(subject, { session, ...more }, session).catch(() => {});
  }

  private forward({ session, replica, last }: JsonObject): void {
    const holder = this.find(String(session));
    const messages = holder?.messages;
    if (!holder || !messages) return;
    const resumed = typeof last === 'string' ? streamOf(last) : undefined;
    const after = resumed?.stream === messages.id ? resumed.seq : undefined;
    // A client may have two open GET streams. A client that resumes a stream elsewhere has lost the stream that it had
    // here.
    if (holder.connected && after === undefined) return;
    const send = async (texts: string[]): Promise<boolean> =>
      (await this.cluster.ask(String(replica), MESSAGES, { session: String(session), messages: texts })) === true;
    new Forwarder(messages, send).start(after);
  }
}

interface Queued {
  readonly seq: number;
  readonly text: string;
}

/** Sends the messages of one stream to another replica, in order. */
class Forwarder implements EventSink {
  readonly remote = true;
  private readonly queue: Queued[] = [];
  private bytes = 0;
  private sending = false;
  private live = false;

  constructor(
    private readonly stream: LoggedStream,
    private readonly send: (texts: string[]) => Promise<boolean>,
  ) {}

  start(after: number | undefined): void {
    try {
      this.stream.connect(this, after);
    } catch {
      // Some messages after `after` are no longer kept. The stream continues with the messages that are kept.
      this.stream.connect(this);
    }
    this.live = true;
  }

  event(id: string, data: readonly Buffer[]): void {
    const text = Buffer.concat(data).toString('utf8');
    if (this.live && madeEverywhere(text)) return;
    this.queue.push({ seq: streamOf(id)?.seq ?? 0, text });
    this.bytes += text.length;
    if (this.bytes > MOST_QUEUED && this.live) this.giveUp();
    else if (!this.sending) void this.drain();
  }

  /** Another connection has taken over the stream; queued messages are still sent. */
  end(): void {}

  private async drain(): Promise<void> {
    this.sending = true;
    // Messages created in the same turn are sent together.
    await Promise.resolve();
    while (this.queue.length > 0) {
      const batch = this.queue.slice(0, BATCH);
      const taken = await this.send(batch.map(({ text }) => text)).catch(() => false);
      if (!taken) this.giveUp();
      // If the queue was given up in the meantime, it is empty, and nothing is removed here.
      for (const { text } of this.queue.splice(0, batch.length)) this.bytes -= text.length;
    }
    this.sending = false;
  }

  /** Returns messages that were not accepted to their stream, where they wait for the next GET. */
  private giveUp(): void {
    const [first] = this.queue;
    const left = this.queue.splice(0);
    this.bytes = 0;
    if (first && !this.stream.returnTo(this, first.seq - 1))
      for (const { text } of left) this.stream.append([Buffer.from(text)]);
  }
}
