import { LIST_KINDS, type SubscriptionFilter } from '../../protocol/mcp/model.js';
import type { Caller } from '../caller.js';
import type { Watch, WatchEvent } from '../upstream.js';
import type { Replica } from './replica.js';

interface Placed {
  readonly filter: SubscriptionFilter;
  readonly deliver: (event: WatchEvent) => void;
  readonly caller: Caller | undefined;
  replica: Replica;
  watch: Watch;
  moving: boolean;
  closed: boolean;
}

/** Opens a watch at the first of these replicas that accepts it. */
export type OpenAtFirst = <T>(
  replicas: readonly Replica[],
  open: (replica: Replica) => Promise<T>,
) => Promise<{ readonly value: T; readonly replica: Replica }>;

/**
 * The subscriptions of callers. Each stays with one replica. When that replica is down, the subscription moves to
 * another replica, and the client is notified that everything it watches may have changed in between.
 */
export class ReplicaWatches {
  private readonly placed = new Set<Placed>();

  constructor(private readonly openAtFirst: OpenAtFirst) {}

  async open(
    replicas: readonly Replica[],
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
    caller: Caller | undefined,
  ): Promise<Watch> {
    const { value: watch, replica } = await this.openAtFirst(replicas, (each) =>
      each.upstream.watch(filter, deliver, caller),
    );
    const placed: Placed = { filter, deliver, caller, replica, watch, moving: false, closed: false };
    this.placed.add(placed);
    return {
      get honoured() {
        return placed.watch.honoured;
      },
      close: () => {
        placed.closed = true;
        this.placed.delete(placed);
        placed.watch.close();
      },
    };
  }

  /** Moves the watches of a replica to the first other replica that accepts them. Never fails. */
  async moveFrom(replica: Replica, others: readonly Replica[]): Promise<void> {
    const moved = [...this.placed].filter((placed) => placed.replica === replica && !placed.moving);
    if (others.length > 0) await Promise.all(moved.map((placed) => this.move(placed, others)));
  }

  private async move(placed: Placed, others: readonly Replica[]): Promise<void> {
    placed.moving = true;
    try {
      const { filter, deliver, caller } = placed;
      const { value: watch, replica } = await this.openAtFirst(others, (each) =>
        each.upstream.watch(filter, deliver, caller),
      );
      if (placed.closed) {
        watch.close();
        return;
      }
      const before = placed.watch;
      placed.watch = watch;
      placed.replica = replica;
      before.close();
      for (const kind of LIST_KINDS) if (filter[kind]) deliver({ kind, lapsed: true });
      for (const uri of filter.resourceSubscriptions ?? []) deliver({ kind: 'resourceUpdated', uri });
    } catch {
      // No other replica accepts the watch. The watch stays with its own replica and is reopened when that replica
      // returns.
    } finally {
      placed.moving = false;
    }
  }
}
