import { backoff } from '../../core/timing.js';

/**
 * Limits concurrent deliveries per receiving host. After repeated errors a host is paused; after the pause one delivery
 * tests it. Deliveries to other hosts never wait for it.
 */
export interface HostLimits {
  /** Deliveries to one host at the same time. */
  readonly perHost: number;
  /** Failures in a row after which a host is paused. */
  readonly failures: number;
  /** The first pause. It doubles with each further failure. */
  readonly restMs: number;
  readonly longestRestMs: number;
}

interface Host {
  active: number;
  readonly waiting: ((entered: boolean) => void)[];
  /** Failures in a row. */
  failures: number;
  /** Pauses in a row. */
  rests: number;
  restsUntil: number;
}

/** Maximum number of remembered hosts. The oldest is forgotten first. */
const MOST_REMEMBERED = 10_000;

export class Hosts {
  private readonly known = new Map<string, Host>();

  constructor(
    private readonly limits: HostLimits,
    private readonly now: () => number,
  ) {}

  /** Hosts that accept no delivery at the moment. */
  busy(): string[] {
    const busy: string[] = [];
    for (const [origin, host] of this.known) if (host.active >= this.room(host) || this.rests(host)) busy.push(origin);
    return busy;
  }

  /** Waits for a free place. False while the host is paused. */
  enter(origin: string): Promise<boolean> | boolean {
    let host = this.known.get(origin);
    if (!host) {
      host = { active: 0, waiting: [], failures: 0, rests: 0, restsUntil: 0 };
      this.known.set(origin, host);
      if (this.known.size > MOST_REMEMBERED) this.forget();
    }
    if (this.rests(host)) return false;
    if (host.active < this.room(host)) {
      host.active += 1;
      return true;
    }
    return new Promise((resolve) => host.waiting.push(resolve));
  }

  /** `answered` is true after a proper answer, false after a failure, and undefined if nothing was sent. */
  leave(origin: string, answered: boolean | undefined): void {
    const host = this.known.get(origin);
    if (!host) return;
    host.active -= 1;
    if (answered === true) {
      host.failures = 0;
      host.rests = 0;
    } else if (answered === false) {
      host.failures += 1;
      if (host.failures >= this.limits.failures && !this.rests(host)) {
        const rest = backoff(host.rests + 1, { first: this.limits.restMs, longest: this.limits.longestRestMs });
        host.restsUntil = this.now() + rest;
        host.rests += 1;
      }
    }
    if (this.rests(host)) for (const resolve of host.waiting.splice(0)) resolve(false);
    while (host.waiting.length > 0 && host.active < this.room(host)) {
      host.active += 1;
      host.waiting.shift()!(true);
    }
    if (host.active === 0 && host.waiting.length === 0 && host.failures === 0) this.known.delete(origin);
  }

  /** Refuses all waiting deliveries. */
  close(): void {
    for (const host of this.known.values()) for (const resolve of host.waiting.splice(0)) resolve(false);
  }

  private rests(host: Host): boolean {
    return host.restsUntil > this.now();
  }

  /** The number of deliveries that may run at the same time. After a pause only one may run, to test the host. */
  private room(host: Host): number {
    return host.failures >= this.limits.failures ? 1 : this.limits.perHost;
  }

  private forget(): void {
    for (const [origin, host] of this.known) {
      if (host.active > 0 || host.waiting.length > 0) continue;
      this.known.delete(origin);
      return;
    }
  }
}
