import { performance } from 'node:perf_hooks';
import type { Bus } from '../state/bus.js';

export interface MembershipTimes {
  /** A replica that has not renewed its lease for this long is dead. */
  readonly lease: number;
  readonly renew: number;
}

/** Renewals are so frequent that a replica whose event loop blocks for two seconds keeps its lease (case 30). */
export const MEMBERSHIP_TIMES: MembershipTimes = { lease: 3_000, renew: 500 };

/** Renewals per read of the member list: the list is read once per second. */
const RENEWALS_PER_READ = 2;
/** Pause after a failed renewal, in milliseconds: shorter than the usual interval. */
const RETRY = 250;
/** How long the result of a lease lookup is reused, in milliseconds. */
const LOOKED_UP = 150;
/** Interval of the checks for dead replicas: short, because their calls must end within a second after the lease. */
const CHECK = 200;
/**
 * Time for all replicas to renew their leases after the bus returns. Every lease expires while the bus is away, so no
 * replica counts as dead during this time.
 */
const GRACE = 2_000;
/** How long `NOBODY` holds the lease of a dead replica. During this time the other replicas end its streams. */
const TAKEN = 2_000;
const NOBODY = 'nobody';
const GROUP = 'replica';

const keyOf = (replica: string): string => `${GROUP}:${replica}`;

/** The name of a stream that a replica appends to under its fence. The name is in the shard of that replica's lease. */
export const streamOfReplica = (replica: string, name: string): string => `{${keyOf(replica)}}${name}`;

export interface Fence {
  readonly key: string;
  readonly fence: number;
}

/** Called with the fence under which streams of the dead replica can be ended. */
type GoneListener = (fence: Fence) => void;

/**
 * Knows which replicas are alive. Each replica holds a lease on its own name and appends events for other replicas
 * under the fence of that lease. The bus therefore refuses events from a replica that resumes after it was declared
 * dead (fault 25).
 *
 * Every replica reads the list of all members once per second, in one statement. A replica on the list is alive for the
 * remaining time of its lease at that read. If a replica is not on the list, or if this time is over, a lookup of its
 * lease decides.
 *
 * On the death of a replica, stream readers end its streams, requests that wait for it are rejected and work for it is
 * cancelled (`ReplicaMessages`), other replicas take over its programs and webhooks by their own leases, and its hosted
 * tasks fail.
 */
export class Membership {
  private timer: NodeJS.Timeout | undefined;
  private current = 0;
  /** Start of the current period without a failed renewal. */
  private steady: number | undefined;
  private renewing: Promise<void> | undefined;
  private left = false;
  /** Time of the last tick. */
  private beat = performance.now();
  /** Time at which this process resumed after a standstill. */
  private woke = 0;
  /** Time at which the last successful renewal was sent. */
  private sure = performance.now();
  private readonly beating: NodeJS.Timeout;
  /** Time until which each replica on the list is certainly alive. */
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
    // A replica that leaves sends a hint, so other replicas need not wait for the next interval.
    this.unlisten = bus.onHint(GROUP, () => void this.read());
  }

  /** This replica also starts if the bus is away. */
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
        // Undefined while other replicas still end the streams of this replica.
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

  /** Reads the list of members. Runs one read at a time; all calls during a read share one further read. */
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
      // A replica without its lease is not a member.
      if (this.steady === undefined) return;
      const asked = performance.now();
      try {
        const members = await this.bus.members(GROUP, this.self, this.times.lease);
        this.members = new Map([...members].map(([replica, left]) => [replica, asked + left]));
      } catch {
        // The bus is away: each entry of the old list stays valid until its lease expires.
      }
    }
  }

  /** Records that this process runs, and detects a standstill longer than the lease. */
  private tick(): void {
    const now = performance.now();
    if (now - this.beat > this.times.lease) this.woke = now;
    this.beat = now;
  }

  /**
   * True if this process stood still for longer than its lease and has not renewed the lease since. Other replicas may
   * have ended its streams. An answer that seems late may have arrived in time, during the standstill.
   */
  get stoodStill(): boolean {
    this.tick();
    return this.woke > this.sure;
  }

  /** The fence that guards appends of this replica. */
  get fence(): Fence {
    return { key: keyOf(this.self), fence: this.current };
  }

  /** The new fence of this replica after the bus refused `old`; `old` itself if this replica has no new fence yet. */
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

  /** The number of live replicas, including this one. */
  get count(): number {
    const now = performance.now();
    let others = 0;
    for (const [replica, until] of this.members) if (replica !== this.self && until > now) others++;
    return others + 1;
  }

  private listed(replica: string): boolean {
    return (this.members.get(replica) ?? 0) > performance.now();
  }

  /**
   * Calls the listener when a replica is dead, repeatedly until the listener is removed. Takes the lease of the dead
   * replica first, so the bus refuses all further appends of that replica.
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
      // The bus is away: the next check tries again.
    } finally {
      this.checking.delete(replica);
    }
  }

  /** Takes the lease of a dead replica. Returns undefined if the replica came back. */
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
