import { performance } from 'node:perf_hooks';
import type { Cluster } from '../core/cluster.js';
import type { Bus } from '../state/bus.js';
import { isStateError } from '../state/errors.js';
import { PRESENCE } from './presence.js';
import { unreachable } from './unreachable.js';

/** Who owns it is looked up again after so long. */
const LOOK = 500;
const PAUSE = 100;
/** So long an owner that is there may take to come back to its lease after the bus was away. */
const COMES_BACK = 2_500;

export interface OwnershipEvents {
  taken(): void;
  /** Another replica took it while this one was away. */
  lost(): void;
}

/**
 * Which replica owns something only one can have. The owner keeps it while the bus is away, because then nobody can take
 * it; it lets go when it comes back from a pause longer than its lease and finds another owner.
 */
export class Ownership {
  private mine = false;
  private ticked = 0;
  /** The last one known to be the owner. */
  private previous: string | undefined;
  private known: { readonly replica: string; readonly at: number } | undefined;
  private looking: Promise<string> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(
    private readonly key: string,
    private readonly cluster: Cluster,
    private readonly bus: Bus,
    private readonly events: OwnershipEvents,
  ) {}

  get held(): boolean {
    return this.mine;
  }

  /** The owner; this replica, if there was none. Throws where that cannot be found out at the moment. */
  async owner(): Promise<string> {
    if (this.mine && performance.now() - this.ticked > PRESENCE.lease) await this.renew();
    if (this.mine) return this.cluster.self;
    if (this.known && performance.now() - this.known.at < LOOK) return this.known.replica;
    this.looking ??= this.look().finally(() => {
      this.looking = undefined;
    });
    return this.looking;
  }

  /** What was known of the owner turned out to be wrong. */
  forget(): void {
    this.known = undefined;
  }

  private async look(): Promise<string> {
    const { bus, cluster, key } = this;
    const began = performance.now();
    const until = began + PRESENCE.lease + 1_000;
    try {
      while (!this.closed && performance.now() < until) {
        const holder = await bus.holder(key);
        if (holder && holder.owner !== cluster.self && (await cluster.alive(holder.owner))) {
          this.known = { replica: holder.owner, at: performance.now() };
          this.previous = holder.owner;
          return holder.owner;
        }
        if (!holder && performance.now() - began < COMES_BACK && (await this.mayComeBack())) {
          await new Promise((resolve) => setTimeout(resolve, PAUSE));
          continue;
        }
        if ((await bus.lease(key, cluster.self, PRESENCE.lease)) !== undefined) {
          this.take();
          return cluster.self;
        }
        // Its owner is dead, and the lease not over yet.
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    } catch (error) {
      throw isStateError(error) ? unreachable('not_executed') : error;
    }
    throw unreachable('not_executed');
  }

  private async mayComeBack(): Promise<boolean> {
    return this.previous !== undefined && (await this.cluster.alive(this.previous));
  }

  private take(): void {
    this.mine = true;
    this.previous = undefined;
    this.known = undefined;
    this.ticked = performance.now();
    this.timer = setInterval(() => void this.renew(), PRESENCE.renew).unref();
    this.events.taken();
  }

  private async renew(): Promise<void> {
    const { bus, cluster, key } = this;
    this.ticked = performance.now();
    try {
      if (await bus.renew(key, cluster.self, PRESENCE.lease)) return;
      if ((await bus.lease(key, cluster.self, PRESENCE.lease)) !== undefined) return;
    } catch {
      // The bus is away: nobody else can take it either.
      return;
    }
    if (!this.mine) return;
    this.mine = false;
    clearInterval(this.timer);
    this.events.lost();
  }

  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    if (this.mine) await this.bus.release(this.key, this.cluster.self).catch(() => {});
    this.mine = false;
  }
}
