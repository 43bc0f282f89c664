import { sleep } from '../core/timing.js';
import type { StreamCopy } from '../inbound/mcp/session/shared-streams.js';
import type { Id } from '../protocol/jsonrpc/message.js';
import { type Bus, parseId, START } from '../state/bus.js';
import { isStateError } from '../state/errors.js';
import { newId } from '../state/ids.js';
import type { Log } from '../telemetry/log.js';
import type { Fence, Membership } from './membership.js';
import { type EntryKind, KEPT, newestEntry, writeEntry } from './stream-entry.js';

/** How long clients wait for an event to reach the bus; when the bus is away they are served all the same. */
const PATIENCE = 5_000;
const PAUSE = 500;
const REMOVE_PAUSE = 2_000;

/** Bytes of one stream that wait for the bus at most, beside one event of any size. */
export const MOST_QUEUED = 4 * 1024 * 1024;
/** What an entry costs beside its text. */
const OVERHEAD = 256;

/** Bytes that wait for the bus in all streams of a replica. */
export class QueueBudget {
  private taken = 0;

  constructor(private readonly limit = 64 * 1024 * 1024) {}

  get used(): number {
    return this.taken;
  }

  take(bytes: number): boolean {
    if (this.taken > 0 && this.taken + bytes > this.limit) return false;
    this.taken += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.taken -= bytes;
  }
}

interface Queued {
  readonly text: string;
  readonly mark: string;
  readonly bytes: number;
}

export interface StreamWriterOptions {
  readonly bus: Bus;
  readonly membership: Membership;
  /** The stream on the Bus. */
  readonly name: string;
  readonly request: Id | undefined;
  readonly budget: QueueBudget;
  readonly log: Log;
  /** Another replica has ended the stream. */
  readonly endedElsewhere?: (() => void) | undefined;
}

/**
 * The copy of one stream that its maker keeps on the Bus: one event after the other, each once, under the maker's fence.
 * While the bus is away the copy falls behind and catches up later; who asks for more than it holds is told so. What waits
 * is bounded in bytes: beyond that the stream is known to its maker only.
 */
export class StreamWriter implements StreamCopy {
  private readonly bus: Bus;
  private readonly membership: Membership;
  private readonly name: string;
  private readonly queue: Queued[] = [];
  private queued = 0;
  private readonly waiting: { readonly length: number; resolve(): void }[] = [];
  readonly opened: Promise<unknown>;
  private fence: Fence;
  private last: string = START;
  private appended = 0;
  private added = 0;
  private state: 'well' | 'behind' | 'given up' | 'ended elsewhere' = 'well';
  private sending = false;
  private patience: NodeJS.Timeout | undefined;

  constructor(private readonly options: StreamWriterOptions) {
    this.bus = options.bus;
    this.membership = options.membership;
    this.name = options.name;
    this.fence = options.membership.fence;
    this.opened = this.add('h', '');
  }

  append(text: string): Promise<boolean> {
    return this.add('e', text);
  }

  async finish(): Promise<boolean> {
    return this.add('x', '');
  }

  private async add(kind: EntryKind, text: string): Promise<boolean> {
    if (this.state === 'well' || this.state === 'behind') {
      const length = ++this.added;
      if (!this.enqueue(writeEntry({ kind, request: this.options.request, text })))
        this.giveUp('too many events wait for the bus');
      else if (!this.sending) void this.send();
      if (this.state === 'well') await this.safe(length);
    }
    return this.state !== 'ended elsewhere';
  }

  private enqueue(text: string): boolean {
    const bytes = Buffer.byteLength(text) + OVERHEAD;
    const full = this.queued > 0 && this.queued + bytes > MOST_QUEUED;
    if (full || !this.options.budget.take(bytes)) return false;
    this.queue.push({ text, mark: newId(), bytes });
    this.queued += bytes;
    return true;
  }

  /** Takes the first entry off the queue, or all of them. */
  private dequeue(count: number): void {
    for (const { bytes } of this.queue.splice(0, count)) {
      this.queued -= bytes;
      this.options.budget.giveBack(bytes);
    }
  }

  /** Resolves when so many entries are on the Bus, or when it makes no sense to wait for that. */
  private safe(length: number): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.push({ length, resolve });
      this.patience ??= this.beginPatience();
      this.release();
    });
  }

  /** Runs out when no entry reached the bus for so long, however many wait behind it. */
  private beginPatience(again = false): NodeJS.Timeout {
    return setTimeout(() => {
      // It was not the bus that took so long, and others may have gone on without us.
      if (!again && this.membership.stoodStill) this.patience = this.beginPatience(true);
      else this.fallBehind();
    }, PATIENCE).unref();
  }

  private release(): void {
    while (this.waiting[0] && (this.state !== 'well' || this.waiting[0].length <= this.appended))
      this.waiting.shift()?.resolve();
    if (this.waiting.length > 0) return;
    clearTimeout(this.patience);
    this.patience = undefined;
  }

  private fallBehind(): void {
    if (this.state === 'well') this.state = 'behind';
    this.release();
  }

  private async send(): Promise<void> {
    this.sending = true;
    while (this.queue.length > 0 && (this.state === 'well' || this.state === 'behind')) {
      try {
        await this.sendFirst();
      } catch (error) {
        if (isStateError(error, 'fenced')) await this.reclaim();
        else if (isStateError(error) && error.retryable) await this.pause();
        else this.giveUp((error as Error).message);
      }
    }
    this.sending = false;
    this.release();
  }

  private async sendFirst(): Promise<void> {
    const { text, mark } = this.queue[0]!;
    const id = await this.bus.append(this.name, text, { ...KEPT, mark, fence: this.fence });
    // Given up meanwhile: the copy is being removed.
    if (this.queue[0]?.mark !== mark) return;
    const before = parseId(this.last);
    const now = parseId(id);
    if (now?.seq !== this.appended + 1 || (before && before.epoch !== now.epoch)) {
      // It expired, or the engine lost it: what is there now is not this stream.
      this.giveUp('the copy was lost');
      return;
    }
    this.last = id;
    this.appended++;
    this.dequeue(1);
    if (this.state === 'behind' && this.queue.length === 0) this.state = 'well';
    clearTimeout(this.patience);
    this.patience = this.waiting.length > 0 ? this.beginPatience() : undefined;
    this.release();
  }

  /** The bus is away. What it would not say to a process that stood still is asked again before a client is served. */
  private async pause(): Promise<void> {
    if (!this.membership.stoodStill) this.fallBehind();
    await sleep(PAUSE, { ref: false });
  }

  /** The lease lapsed. Where nobody spoke in this replica's place meanwhile, the stream goes on under its new fence. */
  private async reclaim(): Promise<void> {
    try {
      const fence = await this.membership.renewed(this.fence);
      if (fence.fence === this.fence.fence) return await this.pause();
      const [next, more] = await this.bus.read(this.name, this.last, 2);
      // What no answer came to may be there all the same: that was nobody else. The new fence is good only from here on.
      if (!next || (!more && next[1] === this.queue[0]?.text)) {
        this.fence = fence;
        return;
      }
      this.state = 'ended elsewhere';
      this.dequeue(this.queue.length);
      this.options.endedElsewhere?.();
    } catch (error) {
      if (!isStateError(error)) throw error;
      if (isStateError(error, 'gap')) this.giveUp('the copy was lost');
      else await this.pause();
    }
  }

  /** From here on the stream is known to this replica only. */
  private giveUp(why: string): void {
    this.options.log.warn({ why }, 'a stream can no longer be shared with the other replicas');
    this.state = 'given up';
    this.dequeue(this.queue.length);
    this.release();
    void this.remove();
  }

  /** Who reads the copy elsewhere must not wait for what will never come. An end that others gave it stays. */
  private async remove(): Promise<void> {
    for (let tries = 0; tries < KEPT.ttlMs / REMOVE_PAUSE; tries++) {
      try {
        if ((await newestEntry(this.bus, this.name))?.kind !== 'x') await this.bus.drop(this.name);
        return;
      } catch (error) {
        if (!isStateError(error) || !error.retryable) return;
      }
      await sleep(REMOVE_PAUSE, { ref: false });
    }
  }
}
