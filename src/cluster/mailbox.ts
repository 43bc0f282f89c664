import { Cancellation } from '../core/caller.js';
import { type Asked, type AskOptions, type Cluster, ReplicaGone } from '../core/cluster.js';
import { ProtocolError } from '../protocol/errors.js';
import type { JsonValue } from '../protocol/jsonrpc/raw.js';
import { type Bus, START } from '../state/bus.js';
import type { Presence } from './presence.js';

type Letter =
  | {
      readonly k: 'ask';
      readonly id: string;
      readonly from: string;
      readonly subject: string;
      readonly payload: JsonValue;
    }
  | { readonly k: 'answer'; readonly id: string; readonly value: JsonValue }
  | { readonly k: 'fault'; readonly id: string; readonly message: string }
  | { readonly k: 'event'; readonly id: string; readonly value: JsonValue }
  | { readonly k: 'cancel'; readonly id: string; readonly reason?: string }
  | { readonly k: 'told'; readonly from: string; readonly subject: string; readonly payload: JsonValue };

interface Pending {
  readonly replica: string;
  resolve(value: JsonValue): void;
  reject(error: Error): void;
  readonly onEvent: ((event: JsonValue) => void) | undefined;
}

const KEPT = { maxLen: 10_000, ttlMs: 60_000 };
const EVERYBODY = 'cluster';
const BATCH = 100;

/** Letters between replicas over the Bus: each has a box of its own, and there is one that everybody reads. */
export class Mailbox implements Cluster {
  private readonly pending = new Map<string, Pending>();
  private readonly serving = new Map<string, Cancellation>();
  private readonly handlers = new Map<string, (payload: JsonValue, asked: Asked) => Promise<JsonValue>>();
  private readonly listeners = new Map<string, ((payload: JsonValue) => void)[]>();
  private readonly stops: (() => void)[] = [];
  private next = 0;
  private closed = false;

  private constructor(
    private readonly bus: Bus,
    private readonly presence: Presence,
    private readonly log: { warn(fields: object, message: string): void },
  ) {}

  static async open(
    bus: Bus,
    presence: Presence,
    log: { warn(fields: object, message: string): void },
    watchEvery = 1_000,
  ): Promise<Mailbox> {
    const mailbox = new Mailbox(bus, presence, log);
    mailbox.tail(boxOf(presence.self), START);
    mailbox.tail(EVERYBODY, await bus.tail(EVERYBODY));
    const timer = setInterval(() => void mailbox.watch(), watchEvery);
    timer.unref();
    mailbox.stops.push(() => clearInterval(timer));
    return mailbox;
  }

  get self(): string {
    return this.presence.self;
  }

  alive(replica: string): Promise<boolean> {
    return this.presence.alive(replica);
  }

  /** Reads a stream to its end whenever there may be something new, one reader at a time. */
  private tail(stream: string, from: string): void {
    let cursor = from;
    let reading = false;
    let again = false;
    const pump = async (): Promise<void> => {
      again = reading;
      if (reading) return;
      reading = true;
      do {
        again = false;
        try {
          for (
            let letters = await this.bus.read(stream, cursor, BATCH);
            letters.length > 0;
            letters = await this.bus.read(stream, cursor, BATCH)
          ) {
            for (const [id, text] of letters) {
              cursor = id;
              this.receive(JSON.parse(text) as Letter);
            }
          }
        } catch (error) {
          if (this.closed) return;
          // What was cut off cannot be had again; go on with what comes.
          if ((error as { code?: string }).code === 'gap') cursor = await this.bus.tail(stream).catch(() => cursor);
          else this.log.warn({ stream, why: (error as Error).message }, 'letters of other replicas could not be read');
        }
      } while (again);
      reading = false;
    };
    this.stops.push(this.bus.wake(stream, () => void pump()));
    void pump();
  }

  private receive(letter: Letter): void {
    switch (letter.k) {
      case 'ask':
        void this.serve(letter);
        break;
      case 'answer':
        this.settle(letter.id)?.resolve(letter.value);
        break;
      case 'fault':
        this.settle(letter.id)?.reject(new ProtocolError('internal', letter.message));
        break;
      case 'event':
        this.pending.get(letter.id)?.onEvent?.(letter.value);
        break;
      case 'cancel':
        this.serving.get(letter.id)?.cancel(letter.reason);
        break;
      case 'told':
        if (letter.from !== this.self)
          for (const listener of this.listeners.get(letter.subject) ?? []) listener(letter.payload);
    }
  }

  private settle(id: string): Pending | undefined {
    const pending = this.pending.get(id);
    this.pending.delete(id);
    return pending;
  }

  private async serve({ id, from, subject, payload }: Letter & { k: 'ask' }): Promise<void> {
    const cancellation = new Cancellation();
    this.serving.set(id, cancellation);
    const send = (letter: Letter): void => void this.post(from, letter).catch(() => {});
    try {
      const handler = this.handlers.get(subject);
      if (!handler) throw new ProtocolError('internal', `No replica knows what "${subject}" means`);
      const value = await handler(payload, {
        from,
        cancellation,
        emit: (event) => send({ k: 'event', id, value: event }),
      });
      send({ k: 'answer', id, value });
    } catch (error) {
      send({ k: 'fault', id, message: error instanceof ProtocolError ? error.message : 'The other replica failed' });
    } finally {
      this.serving.delete(id);
    }
  }

  private async post(replica: string, letter: Letter): Promise<void> {
    await this.bus.append(boxOf(replica), JSON.stringify(letter), KEPT);
  }

  async ask(replica: string, subject: string, payload: JsonValue, options: AskOptions = {}): Promise<JsonValue> {
    if (!(await this.presence.alive(replica))) throw new ReplicaGone(replica);
    const id = `${this.self}/${++this.next}`;
    const answer = new Promise<JsonValue>((resolve, reject) => {
      this.pending.set(id, { replica, resolve, reject, onEvent: options.onEvent });
    });
    const stop = options.cancellation?.onCancel((reason) => {
      void this.post(replica, { k: 'cancel', id, ...(reason !== undefined && { reason }) }).catch(() => {});
    });
    try {
      await this.post(replica, { k: 'ask', id, from: this.self, subject, payload });
      return await answer;
    } finally {
      stop?.();
      this.pending.delete(id);
    }
  }

  /** Whoever waits for a replica that is gone hears so. */
  private async watch(): Promise<void> {
    const replicas = new Set([...this.pending.values()].map(({ replica }) => replica));
    for (const replica of replicas) {
      if (await this.presence.alive(replica).catch(() => true)) continue;
      for (const [id, pending] of [...this.pending]) {
        if (pending.replica !== replica) continue;
        this.pending.delete(id);
        pending.reject(new ReplicaGone(replica));
      }
    }
  }

  handle(subject: string, handler: (payload: JsonValue, asked: Asked) => Promise<JsonValue>): void {
    this.handlers.set(subject, handler);
  }

  tell(subject: string, payload: JsonValue): void {
    const letter: Letter = { k: 'told', from: this.self, subject, payload };
    this.bus.append(EVERYBODY, JSON.stringify(letter), KEPT).catch((error: unknown) => {
      this.log.warn({ subject, why: (error as Error).message }, 'the other replicas could not be told');
    });
  }

  onTold(subject: string, listener: (payload: JsonValue) => void): void {
    this.listeners.set(subject, [...(this.listeners.get(subject) ?? []), listener]);
  }

  close(): void {
    this.closed = true;
    for (const stop of this.stops) stop();
    for (const [id] of this.pending) this.settle(id)?.reject(new ReplicaGone('closed'));
  }
}

const boxOf = (replica: string): string => `inbox:${replica}`;
