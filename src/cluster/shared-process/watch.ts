import { sleep } from '../../core/timing.js';
import type { Watch, WatchEvent } from '../../core/upstream.js';
import { LIST_KINDS, type SubscriptionFilter } from '../../protocol/mcp/model.js';

/** A watch at one place: at the process itself, or at the replica that owns the process. */
export interface Placed {
  readonly honoured: SubscriptionFilter;
  /** Settles when the watch ends without a call of `close`. */
  readonly over: Promise<unknown>;
  close(): void;
}

export type Place = (filter: SubscriptionFilter, deliver: (event: WatchEvent) => void) => Promise<Placed>;

const PAUSE = 500;

/** A watch that follows its server from replica to replica. After a move it announces changes it may have missed. */
export class SharedProcessWatch implements Watch {
  private placed: Placed | undefined;
  private closed = false;
  private reopening = false;

  constructor(
    private readonly filter: SubscriptionFilter,
    private readonly deliver: (event: WatchEvent) => void,
    private readonly place: Place,
    private readonly onClose: () => void,
  ) {}

  get honoured(): SubscriptionFilter {
    return this.placed?.honoured ?? {};
  }

  async open(): Promise<void> {
    const placed = await this.place(this.filter, this.deliver);
    if (this.closed) {
      placed.close();
      return;
    }
    this.placed = placed;
    const again = (): void => {
      if (this.placed === placed && !this.closed) void this.reopen();
    };
    placed.over.then(again, again);
  }

  private async reopen(): Promise<void> {
    if (this.reopening) return;
    this.reopening = true;
    while (this.reopening && !this.closed) {
      try {
        await this.open();
        this.reopening = false;
        for (const kind of LIST_KINDS) if (this.filter[kind]) this.deliver({ kind });
        for (const uri of this.filter.resourceSubscriptions ?? []) this.deliver({ kind: 'resourceUpdated', uri });
      } catch {
        await sleep(PAUSE, { ref: false });
      }
    }
  }

  /** Closes the watch at its current place, and opens it at the current owner. */
  move(): void {
    const { placed } = this;
    if (!placed || this.closed) return;
    placed.close();
    void this.reopen();
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.placed?.close();
    this.onClose();
  }
}
