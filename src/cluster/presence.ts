import type { Bus } from '../state/bus.js';

export interface PresenceOptions {
  /** A replica that has not been heard of for so long is gone. */
  readonly lease: number;
  readonly renew: number;
}

export const PRESENCE: PresenceOptions = { lease: 3_000, renew: 1_000 };

const keyOf = (replica: string): string => `replica:${replica}`;

/**
 * Who is there. Each replica holds a lease on its own name; its fence stands on everything it appends for others to
 * read, so a replica that was declared dead and wakes up again is refused (fault 25).
 */
export class Presence {
  private timer: NodeJS.Timeout | undefined;
  private current = 0;
  private lost = false;

  private constructor(
    private readonly bus: Bus,
    readonly self: string,
    private readonly options: PresenceOptions,
    private readonly onLost: () => void,
  ) {}

  static async enter(bus: Bus, self: string, options: PresenceOptions, onLost: () => void): Promise<Presence> {
    const presence = new Presence(bus, self, options, onLost);
    presence.current = (await bus.lease(keyOf(self), self, options.lease)) ?? 0;
    presence.timer = setInterval(() => void presence.renew(), options.renew);
    presence.timer.unref();
    return presence;
  }

  private async renew(): Promise<void> {
    try {
      if (await this.bus.renew(keyOf(this.self), this.self, this.options.lease)) return;
      // Nobody took the name over yet, or somebody did: a new fence tells our later appends from the earlier ones.
      const fence = await this.bus.lease(keyOf(this.self), this.self, this.options.lease);
      if (fence !== undefined) this.current = fence;
      if (!this.lost) this.onLost();
      this.lost = fence === undefined;
    } catch {
      // The bus is away; the next turn tries again.
    }
  }

  /** What stands on appends of this replica. */
  get fence(): { readonly key: string; readonly fence: number } {
    return { key: keyOf(this.self), fence: this.current };
  }

  async alive(replica: string): Promise<boolean> {
    if (replica === this.self) return true;
    return (await this.bus.holder(keyOf(replica)))?.owner === replica;
  }

  /** Takes the name of a replica that is gone, so that nothing it still sends is accepted. */
  async bury(replica: string): Promise<boolean> {
    return (await this.bus.lease(keyOf(replica), `${this.self} for ${replica}`, 60_000)) !== undefined;
  }

  async leave(): Promise<void> {
    clearInterval(this.timer);
    await this.bus.release(keyOf(this.self), this.self).catch(() => {});
  }
}
