import { performance } from 'node:perf_hooks';
import type { Cluster } from '../../core/cluster.js';
import { sleep } from '../../core/timing.js';
import type { Bus } from '../../state/bus.js';
import { isStateError } from '../../state/errors.js';
import { unreachable } from '../bus-unreachable.js';
import { MEMBERSHIP_TIMES, type MembershipTimes } from '../membership.js';

/** How long the result of an owner lookup is reused, in milliseconds. */
const LOOK = 500;
const PAUSE = 100;
/** Pause after a failed renewal, in milliseconds. */
const RETRY = 200;
/**
 * The part of a lease that the owner does not use: a margin for clocks of different rates, and for the time that the
 * process needs to end.
 */
const MARGIN = 0.1;

export interface OwnerLeaseEvents {
  taken(): void;
  /** This replica is no longer the owner: its lease has expired, or its deadline passed without a renewal. */
  lost(): void;
}

/**
 * Decides which replica owns a resource that only one may own, such as the process of a shared server, and when another
 * replica takes over. The owner holds a lease and acts as the owner until a deadline of its own monotonic clock, counted
 * from the time just before it sent the last renewal. The deadline is before the end of the lease at the engine, so an
 * owner that cannot reach the bus stops before another replica can take over.
 */
export class OwnerLease {
  /** End of this replica's ownership; undefined if this replica is not the owner. */
  private deadline: number | undefined;
  private term = 0;
  private known: { readonly replica: string; readonly at: number } | undefined;
  private looking: Promise<string> | undefined;
  /** Settles when the lease of the previous term is released. */
  private releasing: Promise<unknown> = Promise.resolve();
  private renewal: NodeJS.Timeout | undefined;
  private expiry: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(
    private readonly key: string,
    private readonly cluster: Cluster,
    private readonly bus: Bus,
    private readonly events: OwnerLeaseEvents,
    private readonly times: MembershipTimes = MEMBERSHIP_TIMES,
  ) {}

  /** To be read right before acting as the owner: after a standstill the deadline may pass before its timer fires. */
  get held(): boolean {
    return this.deadline !== undefined && performance.now() < this.deadline;
  }

  /** Returns the owner. Without an owner, this replica becomes the owner. Throws if the owner cannot be determined. */
  async owner(): Promise<string> {
    if (this.held) return this.cluster.self;
    if (this.deadline !== undefined) this.lose();
    if (this.known && performance.now() - this.known.at < LOOK) return this.known.replica;
    this.looking ??= this.look().finally(() => {
      this.looking = undefined;
    });
    return this.looking;
  }

  /** Returns the current owner, or undefined if no replica is the owner. Does not take ownership. */
  async holder(): Promise<string | undefined> {
    if (this.held) return this.cluster.self;
    try {
      const holder = await this.bus.holder(this.key);
      return holder && (await this.cluster.alive(holder.owner)) ? holder.owner : undefined;
    } catch (error) {
      throw isStateError(error) ? unreachable('not_executed') : error;
    }
  }

  /** Discards the last lookup, because the replica it named is not the owner. */
  forget(): void {
    this.known = undefined;
  }

  private async look(): Promise<string> {
    const { bus, cluster, key } = this;
    const until = performance.now() + this.times.lease + 1_000;
    try {
      await this.releasing;
      while (!this.closed && performance.now() < until) {
        const holder = await bus.holder(key);
        if (holder && holder.owner !== cluster.self && (await cluster.alive(holder.owner))) {
          this.known = { replica: holder.owner, at: performance.now() };
          return holder.owner;
        }
        const asked = performance.now();
        if ((await bus.lease(key, cluster.self, this.times.lease)) !== undefined && this.take(asked))
          return cluster.self;
        // The owner is dead but its lease has not expired yet, or the engine took too long to answer.
        await sleep(PAUSE);
      }
    } catch (error) {
      throw isStateError(error) ? unreachable('not_executed') : error;
    }
    throw unreachable('not_executed');
  }

  private take(asked: number): boolean {
    if (this.closed || !this.extend(asked)) return false;
    this.known = undefined;
    this.renewLater(++this.term, this.times.renew);
    this.events.taken();
    return true;
  }

  /** Extends the deadline after the bus confirmed the lease. `asked` is the time at which the request was sent. */
  private extend(asked: number): boolean {
    const deadline = Math.max(this.deadline ?? 0, asked + this.times.lease * (1 - MARGIN));
    const left = deadline - performance.now();
    if (left <= 0) return false;
    this.deadline = deadline;
    clearTimeout(this.expiry);
    this.expiry = setTimeout(() => this.lose(), left).unref();
    return true;
  }

  private renewLater(term: number, pause: number): void {
    this.renewal = setTimeout(() => void this.renew(term), pause).unref();
  }

  private async renew(term: number): Promise<void> {
    const asked = performance.now();
    let pause = RETRY;
    try {
      const renewed = await this.bus.renew(this.key, this.cluster.self, this.times.lease);
      if (term !== this.term || this.deadline === undefined) return;
      if (renewed) this.extend(asked);
      else this.lose();
      pause = this.times.renew;
    } catch {
      // The bus is away: the deadline stays as it is.
    }
    if (term === this.term && this.deadline !== undefined) this.renewLater(term, pause);
  }

  private lose(): void {
    if (!this.stop()) return;
    // A renewal whose answer came too late may have extended the lease. The release lets other replicas take over now.
    this.releasing = this.bus.release(this.key, this.cluster.self).catch(() => {});
    this.events.lost();
  }

  private stop(): boolean {
    const was = this.deadline !== undefined;
    this.deadline = undefined;
    this.term++;
    clearTimeout(this.renewal);
    clearTimeout(this.expiry);
    return was;
  }

  async close(): Promise<void> {
    this.closed = true;
    if (this.stop()) await this.bus.release(this.key, this.cluster.self).catch(() => {});
  }
}
