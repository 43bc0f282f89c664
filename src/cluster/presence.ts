import { performance } from 'node:perf_hooks';
import type { Bus } from '../state/bus.js';

export interface PresenceOptions {
  /** A replica that has not been heard of for so long is gone. */
  readonly lease: number;
  readonly renew: number;
}

/** Renewed so often that a replica whose loop stands still for two seconds keeps its name (case 30). */
export const PRESENCE: PresenceOptions = { lease: 3_000, renew: 500 };

/** After a renewal failed, the next is tried sooner. */
const RETRY = 250;
/** What was just looked up is not looked up again. */
const REMEMBERED = 150;
/** So often somebody whose end matters is looked for: what is left of a second after the lease goes into ending its calls. */
const LOOK = 200;
/** When the bus was away every lease has lapsed; so long everybody has to come back before anybody is called dead. */
const GRACE = 2_000;
/** How long the name of a dead replica is kept from it, in which others speak in its place. */
const BURIED = 2_000;
const NOBODY = 'nobody';

const keyOf = (replica: string): string => `replica:${replica}`;

export interface Fence {
  readonly key: string;
  readonly fence: number;
}

/** Speaks in the place of a replica that is gone, under the fence of its name. */
type Mourner = (fence: Fence) => void;

/**
 * Who is there. Each replica holds a lease on its own name; its fence stands on everything it appends for others to
 * read, so a replica that was declared dead and wakes up again is refused (fault 25).
 */
export class Presence {
  private timer: NodeJS.Timeout | undefined;
  private current = 0;
  /** Since when the lease was renewed without a failure. */
  private steady: number | undefined;
  private renewing: Promise<void> | undefined;
  private left = false;
  /** When this process last showed that it runs, when it came back from a standstill, and when it asked what was answered. */
  private beat = performance.now();
  private woke = 0;
  private sure = performance.now();
  private readonly beating: NodeJS.Timeout;
  private readonly watched = new Map<string, { readonly mourners: Set<Mourner>; readonly timer: NodeJS.Timeout }>();
  private readonly known = new Map<string, { readonly alive: boolean; readonly at: number }>();

  private constructor(
    private readonly bus: Bus,
    readonly self: string,
    private readonly options: PresenceOptions,
    private readonly onLost: () => void,
  ) {
    this.beating = setInterval(() => this.tick(), options.renew).unref();
  }

  /** A bus that is away at the moment does not keep a replica from starting. */
  static async enter(bus: Bus, self: string, options: PresenceOptions, onLost: () => void): Promise<Presence> {
    const presence = new Presence(bus, self, options, onLost);
    await presence.renew();
    return presence;
  }

  private renew(): Promise<void> {
    this.renewing ??= this.renewOnce().finally(() => {
      this.renewing = undefined;
    });
    return this.renewing;
  }

  private async renewOnce(): Promise<void> {
    clearTimeout(this.timer);
    let pause = RETRY;
    const asked = performance.now();
    try {
      if (this.current === 0 || !(await this.bus.renew(keyOf(this.self), this.self, this.options.lease))) {
        if (this.current !== 0 && this.steady !== undefined) this.onLost();
        this.steady = undefined;
        // Undefined while others still speak in its place.
        const fence = await this.bus.lease(keyOf(this.self), this.self, this.options.lease);
        if (fence !== undefined) this.current = fence;
        else return;
      }
      this.steady ??= performance.now();
      this.sure = asked;
      pause = this.options.renew;
    } catch {
      this.steady = undefined;
    } finally {
      if (!this.left) this.timer = setTimeout(() => void this.renew(), pause).unref();
    }
  }

  /** Shows that this process runs, and notices where it did not for longer than its lease. */
  private tick(): void {
    const now = performance.now();
    if (now - this.beat > this.options.lease) this.woke = now;
    this.beat = now;
  }

  /**
   * This process stood still for longer than its lease, and has not heard yet whether others spoke in its place. What it
   * waited for meanwhile did not take long: it only looks so.
   */
  get dazed(): boolean {
    this.tick();
    return this.woke > this.sure;
  }

  /** What stands on appends of this replica. */
  get fence(): Fence {
    return { key: keyOf(this.self), fence: this.current };
  }

  /** The fence this replica holds after `old` was refused; `old` itself where there is none yet. */
  async renewed(old: Fence): Promise<Fence> {
    if (this.current === old.fence) await this.renew();
    return this.fence;
  }

  async alive(replica: string): Promise<boolean> {
    if (replica === this.self) return true;
    const known = this.known.get(replica);
    const now = performance.now();
    if (known && now - known.at < REMEMBERED) return known.alive;
    const alive = (await this.bus.holder(keyOf(replica)))?.owner === replica;
    if (!alive && (this.steady === undefined || now - this.steady < GRACE)) return true;
    this.known.set(replica, { alive, at: now });
    if (this.known.size > 1_000) this.known.clear();
    return alive;
  }

  /**
   * Calls when a replica is gone, and until it is called off: the name is taken once for all who have something to end,
   * so nothing the replica still sends is accepted.
   */
  whenGone(replica: string, mourner: Mourner): () => void {
    const found = this.watched.get(replica);
    const watch = found ?? { mourners: new Set(), timer: this.watch(replica) };
    if (!found) this.watched.set(replica, watch);
    watch.mourners.add(mourner);
    return () => {
      watch.mourners.delete(mourner);
      if (watch.mourners.size > 0 || this.watched.get(replica) !== watch) return;
      clearInterval(watch.timer);
      this.watched.delete(replica);
    };
  }

  private watch(replica: string): NodeJS.Timeout {
    let looking = false;
    const look = async (): Promise<void> => {
      if (looking) return;
      looking = true;
      try {
        const fence = (await this.alive(replica)) ? undefined : await this.bury(replica);
        if (fence) for (const mourner of [...(this.watched.get(replica)?.mourners ?? [])]) mourner(fence);
      } catch {
        // The bus is away: looked again.
      } finally {
        looking = false;
      }
    };
    return setInterval(() => void look(), LOOK).unref();
  }

  /** Takes the name of a replica that is gone; undefined if it came back. */
  private async bury(replica: string): Promise<Fence | undefined> {
    const fence = await this.bus.lease(keyOf(replica), NOBODY, BURIED);
    return fence === undefined ? undefined : { key: keyOf(replica), fence };
  }

  async leave(): Promise<void> {
    this.left = true;
    clearTimeout(this.timer);
    clearInterval(this.beating);
    for (const { timer } of this.watched.values()) clearInterval(timer);
    await this.bus.release(keyOf(this.self), this.self).catch(() => {});
  }
}
