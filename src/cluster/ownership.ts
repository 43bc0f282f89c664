import { performance } from 'node:perf_hooks';
import type { Cluster } from '../core/cluster.js';
import { sleep } from '../core/timing.js';
import type { Bus } from '../state/bus.js';
import { isStateError } from '../state/errors.js';
import { MEMBERSHIP_TIMES, type MembershipTimes } from './membership.js';
import { unreachable } from './unreachable.js';

/** The owner is looked up again after this long. */
const LOOK = 500;
const PAUSE = 100;
/** A failed renewal is repeated this soon. */
const RETRY = 200;
/** The part of its lease that an owner does not use: for clocks that run at different rates, and for the process to end. */
const MARGIN = 0.1;

export interface OwnershipEvents {
  taken(): void;
  /** This replica stops being the owner: its lease is over, or would be over before the bus answers. */
  lost(): void;
}

/**
 * Which replica owns something that only one may have. The owner holds a lease and acts on it until a deadline of its own
 * monotonic clock, measured from before each renewal was sent. That deadline lies before the end of the lease at the
 * engine, so an owner without a bus stops before another replica can take over.
 */
export class Ownership {
  /** Until when this replica is the owner; undefined where it is not. */
  private deadline: number | undefined;
  private term = 0;
  private known: { readonly replica: string; readonly at: number } | undefined;
  private looking: Promise<string> | undefined;
  /** The lease of the term before is being given back. */
  private releasing: Promise<unknown> = Promise.resolve();
  private renewal: NodeJS.Timeout | undefined;
  private expiry: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(
    private readonly key: string,
    private readonly cluster: Cluster,
    private readonly bus: Bus,
    private readonly events: OwnershipEvents,
    private readonly times: MembershipTimes = MEMBERSHIP_TIMES,
  ) {}

  /** Ask right before acting as the owner: a process that stood still may be past its deadline before a timer says so. */
  get held(): boolean {
    return this.deadline !== undefined && performance.now() < this.deadline;
  }

  /** The owner; this replica, if there was none. Throws where that cannot be found out at the moment. */
  async owner(): Promise<string> {
    if (this.held) return this.cluster.self;
    if (this.deadline !== undefined) this.lose();
    if (this.known && performance.now() - this.known.at < LOOK) return this.known.replica;
    this.looking ??= this.look().finally(() => {
      this.looking = undefined;
    });
    return this.looking;
  }

  /** The owner at the moment; undefined where there is none. Asking makes nobody the owner. */
  async holder(): Promise<string | undefined> {
    if (this.held) return this.cluster.self;
    try {
      const holder = await this.bus.holder(this.key);
      return holder && (await this.cluster.alive(holder.owner)) ? holder.owner : undefined;
    } catch (error) {
      throw isStateError(error) ? unreachable('not_executed') : error;
    }
  }

  /** The replica that was believed to be the owner is not. */
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
        // The owner is dead and its lease not over yet, or the engine took too long to answer.
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

  /** The lease was confirmed by an answer to a question asked at this time. */
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
      // The bus is away: the deadline stands.
    }
    if (term === this.term && this.deadline !== undefined) this.renewLater(term, pause);
  }

  private lose(): void {
    if (!this.stop()) return;
    // A renewal that was answered too late may have prolonged the lease: nobody should have to wait for its end.
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
