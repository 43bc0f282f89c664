import { sleep } from '../../core/timing.js';
import type { StreamCopy } from '../../inbound/mcp/session/shared-streams.js';
import type { Id } from '../../protocol/jsonrpc/message.js';
import { type Bus, parseId, START } from '../../state/bus.js';
import { isStateError } from '../../state/errors.js';
import { newId } from '../../state/ids.js';
import type { Log } from '../../telemetry/log.js';
import type { Fence, Membership } from '../membership.js';
import type { KeptCopies } from './kept-copies.js';
import { type EntryKind, KEPT, newestEntry, readEntry, writeEntry } from './stream-entry.js';

/** How long clients wait for an event to reach the bus. After that they get events that are not on the bus yet. */
const PATIENCE = 5_000;
const PAUSE = 500;
const REMOVE_PAUSE = 2_000;

/** Maximum bytes of one stream that wait for the bus. A single event may be larger. */
export const MOST_QUEUED = 4 * 1024 * 1024;
/** Memory of an entry in addition to its text, in bytes. */
const OVERHEAD = 256;

/** Limits the bytes that wait for the bus in all streams of a replica. */
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
  /** The finished streams of this replica on the Bus. */
  readonly copies: KeptCopies;
  readonly log: Log;
  /** Called when another replica has ended the stream. */
  readonly endedElsewhere?: (() => void) | undefined;
}

/**
 * Writes the copy of one stream that its maker keeps on the Bus: events in order, each once, under the maker's fence.
 * While the bus is away the copy falls behind, and it catches up later. A reader that asks for more events than the
 * copy holds is not served from the copy. The waiting events are limited in bytes. Above the limit the copy is removed,
 * and only the maker has the stream.
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
  /** Bytes of the copy on the Bus. */
  private copied = 0;
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

  /** Removes the first `count` entries from the queue. */
  private dequeue(count: number): void {
    for (const { bytes } of this.queue.splice(0, count)) {
      this.queued -= bytes;
      this.options.budget.giveBack(bytes);
    }
  }

  /** Resolves when `length` entries are on the Bus, or when the copy falls behind, is given up or was ended. */
  private safe(length: number): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.push({ length, resolve });
      this.patience ??= this.beginPatience();
      this.release();
    });
  }

  /** Starts the timer that fires if no entry reaches the bus for `PATIENCE`. Every appended entry restarts it. */
  private beginPatience(again = false): NodeJS.Timeout {
    return setTimeout(() => {
      // This process stood still. The bus is perhaps not slow, and other replicas may have ended the stream.
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
    const { text, mark, bytes } = this.queue[0]!;
    const id = await this.bus.append(this.name, text, { ...KEPT, mark, fence: this.fence });
    // The writer has given the copy up meanwhile, so the copy is removed.
    if (this.queue[0]?.mark !== mark) return;
    const before = parseId(this.last);
    const now = parseId(id);
    if (now?.seq !== this.appended + 1 || (before && before.epoch !== now.epoch)) {
      // The copy expired or the engine lost it: this append has started a new stream of the same name.
      this.giveUp('the copy was lost');
      return;
    }
    this.last = id;
    this.appended++;
    // The bus trims older events and keeps at least the newest one.
    this.copied = Math.max(bytes, Math.min(this.copied + bytes, KEPT.maxBytes));
    this.dequeue(1);
    if (readEntry(text).kind === 'x') this.finished();
    if (this.state === 'behind' && this.queue.length === 0) this.state = 'well';
    clearTimeout(this.patience);
    this.patience = this.waiting.length > 0 ? this.beginPatience() : undefined;
    this.release();
  }

  /**
   * Waits for a bus that is away. After a standstill clients wait too, because another replica may have ended the
   * stream.
   */
  private async pause(): Promise<void> {
    if (!this.membership.stoodStill) this.fallBehind();
    await sleep(PAUSE, { ref: false });
  }

  /** After the lease expired, continues the stream under a new fence, unless another replica has appended to it. */
  private async reclaim(): Promise<void> {
    try {
      const fence = await this.membership.renewed(this.fence);
      if (fence.fence === this.fence.fence) return await this.pause();
      const [next, more] = await this.bus.read(this.name, this.last, 2);
      // The answer to an append of this writer may have been lost although the append succeeded. The entry at the head
      // of the queue therefore does not count as an entry of another replica. The writer uses the new fence only after
      // this check.
      if (!next || (!more && next[1] === this.queue[0]?.text)) {
        this.fence = fence;
        return;
      }
      this.state = 'ended elsewhere';
      this.dequeue(this.queue.length);
      this.finished();
      this.options.endedElsewhere?.();
    } catch (error) {
      if (!isStateError(error)) throw error;
      if (isStateError(error, 'gap')) this.giveUp('the copy was lost');
      else await this.pause();
    }
  }

  private finished(): void {
    void this.options.copies.finished(this.name, this.copied);
  }

  /** Gives the copy up. From now on only this replica has the stream. */
  private giveUp(why: string): void {
    this.options.log.warn({ why }, 'a stream can no longer be shared with the other replicas');
    this.state = 'given up';
    this.dequeue(this.queue.length);
    this.release();
    void this.remove();
  }

  /** Removes the copy, so that its readers do not wait for events that never come. Keeps a copy that has an end. */
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
