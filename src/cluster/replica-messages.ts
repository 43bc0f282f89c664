import { performance } from 'node:perf_hooks';
import { Cancellation } from '../core/caller.js';
import { type Asked, type AskOptions, type Cluster, ReplicaGone } from '../core/cluster.js';
import { readFault, writeFault } from '../core/era-bridge/outcome-json.js';
import { within } from '../core/timing.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import type { JsonObject, JsonValue } from '../protocol/jsonrpc/raw.js';
import { type Bus, bucketOf } from '../state/bus.js';
import { isStateError } from '../state/errors.js';
import type { Log } from '../telemetry/log.js';
import { unreachable } from './bus-unreachable.js';
import { Incoming } from './incoming-messages.js';
import type { Membership } from './membership.js';
import { type Envelope, Outgoing } from './outgoing-messages.js';
import { QueueBudget } from './session-streams/stream-writer.js';

type ReplicaMessage =
  | { readonly k: 'ask'; readonly id: string; readonly subject: string; readonly payload: JsonValue }
  | { readonly k: 'answer'; readonly id: string; readonly value: JsonValue }
  | { readonly k: 'fault'; readonly id: string; readonly fault: JsonObject }
  | { readonly k: 'event'; readonly id: string; readonly value: JsonValue }
  | { readonly k: 'cancel'; readonly id: string; readonly reason?: string }
  | { readonly k: 'told'; readonly subject: string; readonly payload: JsonValue };

interface Pending {
  readonly replica: string;
  resolve(value: JsonValue): void;
  reject(error: Error): void;
  readonly onEvent: ((event: JsonValue) => void) | undefined;
}

interface Serving {
  readonly from: string;
  readonly cancellation: Cancellation;
}

type Handler = (payload: JsonValue, asked: Asked) => Promise<JsonValue>;

/** The stream for messages to all replicas, without a key. */
const EVERYBODY = 'cluster';
/** The number of streams for messages under keys. Every key belongs to one of these streams. */
const TOLD_STREAMS = 256;
const toldStream = (key: string): string => `${EVERYBODY}:${bucketOf(key, TOLD_STREAMS)}`;
/** How long a request may wait for the bus. */
const ASK_PATIENCE = 2_000;
/** How long an answer may wait for the bus: longer, because another replica waits for it. */
const ANSWER_PATIENCE = 60_000;
/** Maximum bytes of messages that wait for the bus, to all replicas. */
const MOST_WAITING_BYTES = 128 * 1024 * 1024;

export interface ReplicaMessagesOptions {
  /** Interval of the checks whether the replicas of pending requests are alive. */
  readonly watchEvery?: number;
  /** The state of an outgoing stream is dropped when this replica has sent nothing to the stream for this long. */
  readonly outgoingIdle?: number;
  /** Maximum bytes of messages that wait for the bus. */
  readonly waitingBytes?: number;
  /**
   * The state of a sender is dropped when this replica has received nothing from the sender for this long. Must be
   * longer than the time for which a sender repeats an envelope.
   */
  readonly senderIdle?: number;
}

/**
 * Messages between replicas over the Bus. Each replica has an inbox, and all replicas read one common stream. Messages
 * under keys have a fixed number of further streams; a replica reads only the streams of the keys it follows.
 */
export class ReplicaMessages implements Cluster {
  private readonly pending = new Map<string, Pending>();
  private readonly serving = new Map<string, Serving>();
  private readonly handlers = new Map<string, Handler>();
  private readonly listeners = new Map<string, Set<(payload: JsonValue) => void>>();
  private readonly outgoing = new Map<string, Outgoing<ReplicaMessage>>();
  /** Bounds the bytes of messages that wait while the bus is slow or away. */
  private readonly budget: QueueBudget;
  /** The number of the last envelope of each sender in each stream, and the time it was read. */
  private readonly read = new Map<string, { readonly n: number; readonly at: number }>();
  private readonly incoming: Incoming[];
  /** The streams of the keys that this replica follows, each with the number of its followed keys. */
  private readonly followed = new Map<string, { readonly incoming: Incoming; keys: number }>();
  private readonly timer: NodeJS.Timeout;
  private next = 0;
  private sent = 0;
  private watching = false;
  private readonly outgoingIdle: number;
  private readonly senderIdle: number;

  private constructor(
    private readonly bus: Bus,
    private readonly membership: Membership,
    private readonly log: Log,
    {
      watchEvery = 500,
      outgoingIdle = 60_000,
      senderIdle = 10 * ANSWER_PATIENCE,
      waitingBytes = MOST_WAITING_BYTES,
    }: ReplicaMessagesOptions,
  ) {
    this.budget = new QueueBudget(waitingBytes);
    this.outgoingIdle = outgoingIdle;
    this.senderIdle = senderIdle;
    this.incoming = [this.open(inboxOf(membership.self), 'start'), this.open(EVERYBODY, 'end')];
    this.timer = setInterval(() => void this.watch(), watchEvery).unref();
  }

  static async open(
    bus: Bus,
    membership: Membership,
    log: Log,
    options: ReplicaMessagesOptions = {},
  ): Promise<ReplicaMessages> {
    const messages = new ReplicaMessages(bus, membership, log, options);
    await within(Promise.all(messages.incoming.map(({ ready }) => ready)), ASK_PATIENCE);
    return messages;
  }

  /** The number of outgoing streams and of senders that this replica keeps state for. */
  get remembered(): { readonly outgoing: number; readonly senders: number } {
    return { outgoing: this.outgoing.size, senders: this.read.size };
  }

  get self(): string {
    return this.membership.self;
  }

  async alive(replica: string): Promise<boolean> {
    try {
      return await this.membership.alive(replica);
    } catch (error) {
      throw isStateError(error) ? unreachable('not_executed') : error;
    }
  }

  private open(stream: string, from: 'start' | 'end'): Incoming {
    return new Incoming({
      bus: this.bus,
      stream,
      from,
      receive: (text) => this.unpack(stream, JSON.parse(text) as Envelope<ReplicaMessage>),
      missed: () => {
        this.log.warn({ stream }, 'messages of other replicas were cut off before they were read');
        // The missed messages may include answers.
        if (stream === inboxOf(this.self))
          for (const id of [...this.pending.keys()]) this.settle(id)?.reject(unreachable('unknown'));
      },
      failed: (error) =>
        this.log.warn({ stream, why: error.message }, 'messages of other replicas cannot be read at the moment'),
    });
  }

  private unpack(stream: string, { from, n, messages }: Envelope<ReplicaMessage>): void {
    const sender = `${stream} ${from}`;
    if (n <= (this.read.get(sender)?.n ?? 0)) return;
    this.read.set(sender, { n, at: performance.now() });
    for (const message of messages) {
      try {
        this.receive(message, from);
      } catch (error) {
        this.log.warn({ err: error }, 'ignored a message from another replica: it could not be processed');
      }
    }
  }

  private receive(message: ReplicaMessage, from: string): void {
    switch (message.k) {
      case 'ask':
        void this.serve(message, from);
        break;
      case 'answer':
        this.settle(message.id)?.resolve(message.value);
        break;
      case 'fault':
        this.settle(message.id)?.reject(readFault(message.fault));
        break;
      case 'event':
        this.pending.get(message.id)?.onEvent?.(message.value);
        break;
      case 'cancel':
        this.serving.get(message.id)?.cancellation.cancel(message.reason);
        break;
      case 'told':
        if (from === this.self) return;
        for (const listener of [...(this.listeners.get(message.subject) ?? [])]) listener(message.payload);
    }
  }

  private settle(id: string): Pending | undefined {
    const pending = this.pending.get(id);
    this.pending.delete(id);
    return pending;
  }

  private async serve({ id, subject, payload }: ReplicaMessage & { k: 'ask' }, from: string): Promise<void> {
    const cancellation = new Cancellation();
    this.serving.set(id, { from, cancellation });
    const notSent = (error: Error): void =>
      this.log.warn({ subject, why: error.message }, 'an answer did not reach the replica that asked');
    const send = (message: ReplicaMessage): void => void this.post(from, message, ANSWER_PATIENCE).catch(notSent);
    try {
      const handler = this.handlers.get(subject);
      if (!handler)
        throw new ProtocolError('not_found', `The other replica does not know "${subject}"`, {
          outcome: 'not_executed',
        });
      const emit = (value: JsonValue): void => send({ k: 'event', id, value });
      const value = await handler(payload, { from, cancellation, emit });
      await this.post(from, { k: 'answer', id, value }, ANSWER_PATIENCE).catch((error: Error) => {
        if (!isStateError(error, 'overloaded')) return notSent(error);
        // Without room for the answer, the replica that asked still learns that its request has ended.
        const fault = new ProtocolError('overloaded', 'Too many answers to other replicas are waiting', {
          outcome: 'unknown',
        });
        send({ k: 'fault', id, fault: writeFault(fault) });
      });
    } catch (error) {
      const known = error instanceof ProtocolError || error instanceof UpstreamRpcError;
      if (!known) this.log.warn({ subject, err: error }, 'a request of another replica failed');
      const fault = known ? error : new ProtocolError('internal', 'The other replica failed');
      send({ k: 'fault', id, fault: writeFault(fault) });
    } finally {
      this.serving.delete(id);
    }
  }

  private post(replica: string, message: ReplicaMessage, patience: number): Promise<void> {
    return this.outgoingTo(inboxOf(replica)).post(message, patience);
  }

  private outgoingTo(stream: string): Outgoing<ReplicaMessage> {
    let outgoing = this.outgoing.get(stream);
    if (!outgoing) {
      outgoing = new Outgoing(this.bus, stream, this.self, () => ++this.sent, this.budget);
      this.outgoing.set(stream, outgoing);
    }
    return outgoing;
  }

  async ask(replica: string, subject: string, payload: JsonValue, options: AskOptions = {}): Promise<JsonValue> {
    if (!(await this.alive(replica))) throw new ReplicaGone(replica, false);
    const id = `${this.self}/${++this.next}`;
    const answer = new Promise<JsonValue>((resolve, reject) => {
      this.pending.set(id, { replica, resolve, reject, onEvent: options.onEvent });
    });
    // The answer may reject before the request is in the stream, while no code awaits it yet.
    answer.catch(() => {});
    const cancel = (reason: string | undefined): void =>
      void this.post(replica, { k: 'cancel', id, ...(reason !== undefined && { reason }) }, ANSWER_PATIENCE).catch(
        () => {},
      );
    let stop: (() => void) | undefined;
    try {
      await this.post(replica, { k: 'ask', id, subject, payload }, ASK_PATIENCE).catch((error: unknown) => {
        throw isStateError(error) ? unreachable(error.outcome) : error;
      });
      stop = options.cancellation?.onCancel(cancel);
      return await answer;
    } finally {
      stop?.();
      this.pending.delete(id);
    }
  }

  /** Rejects requests that wait for a dead replica, and cancels work done for a dead replica. */
  private async watch(): Promise<void> {
    this.prune();
    if (this.watching) return;
    this.watching = true;
    const replicas = new Set([...this.pending.values()].map(({ replica }) => replica));
    for (const { from } of this.serving.values()) replicas.add(from);
    for (const replica of replicas) {
      if (await this.membership.alive(replica).catch(() => true)) continue;
      for (const [id, pending] of [...this.pending])
        if (pending.replica === replica) this.settle(id)?.reject(new ReplicaGone(replica, true));
      for (const { from, cancellation } of [...this.serving.values()])
        if (from === replica) cancellation.cancel('the replica that asked is gone');
    }
    this.watching = false;
  }

  /**
   * Drops the state of idle streams and senders. Every new replica has a new name, so without this the state would grow
   * without limit.
   */
  private prune(): void {
    for (const [stream, { idle }] of this.outgoing) if (idle > this.outgoingIdle) this.outgoing.delete(stream);
    const heard = performance.now() - this.senderIdle;
    for (const [sender, { at }] of this.read) if (at < heard) this.read.delete(sender);
  }

  handle(subject: string, handler: Handler): () => void {
    this.handlers.set(subject, handler);
    return () => {
      if (this.handlers.get(subject) === handler) this.handlers.delete(subject);
    };
  }

  async tell(subject: string, payload: JsonValue, key?: string): Promise<void> {
    try {
      await this.outgoingTo(key === undefined ? EVERYBODY : toldStream(key)).post(
        { k: 'told', subject, payload },
        ASK_PATIENCE,
      );
    } catch (error) {
      this.log.warn({ subject, why: (error as Error).message }, 'could not send a message to the other replicas');
      throw isStateError(error) ? unreachable(error.outcome) : error;
    }
  }

  async follow(key: string): Promise<void> {
    const stream = toldStream(key);
    const found = this.followed.get(stream) ?? { incoming: this.open(stream, 'end'), keys: 0 };
    found.keys++;
    this.followed.set(stream, found);
    await within(found.incoming.ready, ASK_PATIENCE);
  }

  unfollow(key: string): void {
    const stream = toldStream(key);
    const found = this.followed.get(stream);
    if (!found || --found.keys > 0) return;
    found.incoming.close();
    this.followed.delete(stream);
  }

  onTold(subject: string, listener: (payload: JsonValue) => void): () => void {
    const listeners = this.listeners.get(subject) ?? new Set();
    this.listeners.set(subject, listeners);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  close(): void {
    clearInterval(this.timer);
    for (const incoming of this.incoming) incoming.close();
    for (const { incoming } of this.followed.values()) incoming.close();
    for (const outgoing of this.outgoing.values()) outgoing.close();
    for (const [id, { replica }] of [...this.pending]) this.settle(id)?.reject(new ReplicaGone(replica, true));
  }
}

const inboxOf = (replica: string): string => `inbox:${replica}`;
