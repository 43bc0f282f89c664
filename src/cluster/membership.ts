import { performance } from 'node:perf_hooks';
import type { Bus } from '../state/bus.js';

export interface MembershipTimes {
  /** A replica that has not renewed its lease for this long is gone. */
  readonly lease: number;
  readonly renew: number;
}

/** Renewed so often that a replica whose event loop is blocked for two seconds keeps its lease (case 30). */
export const MEMBERSHIP_TIMES: MembershipTimes = { lease: 3_000, renew: 500 };

/** The members are read once in so many renewals: once per second. */
const RENEWALS_PER_READ = 2;
/** After a failed renewal the next attempt comes sooner. */
const RETRY = 250;
/** A lease that was looked up is not looked up again for this long. */
const LOOKED_UP = 150;
/** How often replicas whose end matters are checked: what is left of a second after the lease goes into ending calls. */
const CHECK = 200;
/** While the bus was away every lease has lapsed: this long all replicas have to come back before one is called gone. */
const GRACE = 2_000;
/** How long the lease of a dead replica is taken, in which the others end its streams. */
const TAKEN = 2_000;
const NOBODY = 'nobody';
const GROUP = 'replica';

const keyOf = (replica: string): string => `${GROUP}:${replica}`;

/** The name of a stream that a replica appends to under its fence: it stays in the shard of that replica's lease. */
export const streamOfReplica = (replica: string, name: string): string => `{${keyOf(replica)}}${name}`;

export interface Fence {
  readonly key: string;
  readonly fence: number;
}

/** Called with the fence under which streams of the dead replica can be ended. */
type GoneListener = (fence: Fence) => void;

/**
 * Which replicas are alive. Each replica holds a lease on its own name; the fence of that lease is on every event it
 * appends for others, so a replica that was declared dead and wakes up again is refused (fault 25).
 *
 * Every replica reads the list of members once per second, in one statement for all of them. A replica on the list is alive
 * for the time that its lease had left when the list was read. Only for a replica that is not on the list, or whose time is
 * over, its lease is looked up: that lease decides.
 *
 * On the death of a replica, stream readers end its streams, other replicas take over its programs and webhooks by their
 * own leases, and its hosted tasks fail.
 */
export class Membership {
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
  /** Until when each replica on the list is alive for certain. */
  private members = new Map<string, number>();
  private reading: Promise<void> | undefined;
  private readAgain = false;
  private readonly reader: NodeJS.Timeout;
  private readonly unlisten: () => void;
  private readonly watched = new Map<string, Set<GoneListener>>();
  private checker: NodeJS.Timeout | undefined;
  private readonly checking = new Set<string>();
  private readonly lookedUp = new Map<string, { readonly alive: boolean; readonly at: number }>();

  private constructor(
    private readonly bus: Bus,
    readonly self: string,
    private readonly times: MembershipTimes,
    private readonly onLost: () => void,
  ) {
    this.beating = setInterval(() => this.tick(), times.renew).unref();
    this.reader = setInterval(() => void this.read(), times.renew * RENEWALS_PER_READ).unref();
    // A replica that leaves says so.
    this.unlisten = bus.onHint(GROUP, () => void this.read());
  }

  /** A bus that is away at the moment does not keep a replica from starting. */
  static async join(bus: Bus, self: string, times: MembershipTimes, onLost: () => void): Promise<Membership> {
    const membership = new Membership(bus, self, times, onLost);
    await membership.renew();
    await membership.read();
    return membership;
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
      if (this.current === 0 || !(await this.bus.renew(keyOf(this.self), this.self, this.times.lease))) {
        if (this.current !== 0 && this.steady !== undefined) this.onLost();
        this.steady = undefined;
        // Undefined while others still end this replica's streams.
        const fence = await this.bus.lease(keyOf(this.self), this.self, this.times.lease);
        if (fence !== undefined) this.current = fence;
        else return;
      }
      this.steady ??= performance.now();
      this.sure = asked;
      pause = this.times.renew;
    } catch {
      this.steady = undefined;
    } finally {
      if (!this.left) this.timer = setTimeout(() => void this.renew(), pause).unref();
    }
  }

  /** Reads the list of members; at most one read at a time, and one more for all that asked meanwhile. */
  private read(): Promise<void> {
    this.readAgain = true;
    this.reading ??= this.readList().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  private async readList(): Promise<void> {
    while (this.readAgain && !this.left) {
      this.readAgain = false;
      // A replica without its lease is no member.
      if (this.steady === undefined) return;
      const asked = performance.now();
      try {
        const members = await this.bus.members(GROUP, this.self, this.times.lease);
        this.members = new Map([...members].map(([replica, left]) => [replica, asked + left]));
      } catch {
        // The bus is away: the list holds as long as the leases on it.
      }
    }
  }

  /** Shows that this process runs, and notices where it did not for longer than its lease. */
  private tick(): void {
    const now = performance.now();
    if (now - this.beat > this.times.lease) this.woke = now;
    this.beat = now;
  }

  /**
   * This process stood still for longer than its lease, and does not know yet whether others ended its streams. Answers
   * that seem to be late may have been there in time.
   */
  get stoodStill(): boolean {
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
    if (replica === this.self || this.listed(replica)) return true;
    const known = this.lookedUp.get(replica);
    const now = performance.now();
    if (known && now - known.at < LOOKED_UP) return known.alive;
    const alive = (await this.bus.holder(keyOf(replica)))?.owner === replica;
    if (!alive && (this.steady === undefined || now - this.steady < GRACE)) return true;
    this.lookedUp.set(replica, { alive, at: now });
    if (this.lookedUp.size > 1_000) this.lookedUp.clear();
    return alive;
  }

  private listed(replica: string): boolean {
    return (this.members.get(replica) ?? 0) > performance.now();
  }

  /**
   * Calls the listener when a replica is gone, repeatedly until it is removed. The lease of the dead replica is taken
   * first, so no append of that replica is accepted any more.
   */
  whenGone(replica: string, listener: GoneListener): () => void {
    const listeners = this.watched.get(replica) ?? new Set();
    this.watched.set(replica, listeners.add(listener));
    this.checker ??= setInterval(() => this.check(), CHECK).unref();
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.watched.get(replica) === listeners) this.watched.delete(replica);
      if (this.watched.size === 0) this.stopChecking();
    };
  }

  private stopChecking(): void {
    clearInterval(this.checker);
    this.checker = undefined;
  }

  private check(): void {
    for (const replica of this.watched.keys()) if (!this.listed(replica)) void this.checkOne(replica);
  }

  private async checkOne(replica: string): Promise<void> {
    if (this.checking.has(replica)) return;
    this.checking.add(replica);
    try {
      const fence = (await this.alive(replica)) ? undefined : await this.takeLease(replica);
      if (fence) for (const listener of [...(this.watched.get(replica) ?? [])]) listener(fence);
    } catch {
      // The bus is away: checked again.
    } finally {
      this.checking.delete(replica);
    }
  }

  /** Takes the lease of a replica that is gone; undefined if it came back. */
  private async takeLease(replica: string): Promise<Fence | undefined> {
    const fence = await this.bus.lease(keyOf(replica), NOBODY, TAKEN);
    return fence === undefined ? undefined : { key: keyOf(replica), fence };
  }

  async leave(): Promise<void> {
    this.left = true;
    clearTimeout(this.timer);
    clearInterval(this.beating);
    clearInterval(this.reader);
    this.stopChecking();
    this.unlisten();
    await this.reading;
    await this.bus.release(keyOf(this.self), this.self).catch(() => {});
    await this.bus.members(GROUP, this.self, 0).catch(() => {});
    this.bus.hint(GROUP);
  }
}
