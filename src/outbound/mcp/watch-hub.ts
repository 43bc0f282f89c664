import { Backoff } from '../../core/timing.js';
import type { Watch, WatchEvent } from '../../core/upstream.js';
import { LIST_KINDS, type ListKind, type SubscriptionFilter } from '../../protocol/mcp/model.js';
import type { Log } from '../../telemetry/log.js';
import type { OpenWatch } from './peer.js';

const PAUSES = { first: 500, longest: 30_000, jitter: 0.5 };

interface Watcher {
  readonly filter: SubscriptionFilter;
  readonly deliver: (event: WatchEvent) => void;
}

type Open = (
  filter: SubscriptionFilter,
  deliver: (event: WatchEvent) => void,
  lost: (why: string) => void,
) => Promise<OpenWatch>;

/**
 * Combines all watches on one server into one upstream watch. When the combined filter changes, the hub opens a new
 * watch and then closes the old one. It reopens an interrupted watch and announces possibly missed changes (mcp.md
 * 4.12).
 */
export class WatchHub {
  private readonly watchers = new Set<Watcher>();
  private readonly overhearing: ((event: WatchEvent) => void)[] = [];
  private current: OpenWatch | undefined;
  private asked = '';
  private turn: Promise<void> = Promise.resolve();
  private retry: NodeJS.Timeout | undefined;
  private readonly pauses = new Backoff(PAUSES);
  private closed = false;

  constructor(
    private readonly name: string,
    private readonly open: Open,
    private readonly log: Log,
  ) {}

  /** Resolves when the upstream has confirmed. A watcher that `persists` stays after a failure and is served later. */
  async watch(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void, persists = false): Promise<Watch> {
    const watcher: Watcher = { filter, deliver };
    this.watchers.add(watcher);
    try {
      await this.align();
    } catch (error) {
      if (!persists) {
        this.watchers.delete(watcher);
        throw error;
      }
      this.reopenLater();
    }
    const hub = this;
    return {
      get honoured() {
        return intersect(filter, hub.current?.honoured ?? {});
      },
      close: () => {
        if (!this.watchers.delete(watcher)) return;
        this.align().catch(() => {});
      },
    };
  }

  /** Whether changes of this list can arrive at the moment. */
  hears(kind: ListKind): boolean {
    return this.current?.honoured[kind] === true;
  }

  /** Delivers all events of the hub, without a subscription for itself. */
  overhear(deliver: (event: WatchEvent) => void): void {
    this.overhearing.push(deliver);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    this.watchers.clear();
    this.current?.close();
    this.current = undefined;
  }

  /** Adapts the upstream watch to the combined filter, one change at a time. */
  private align(): Promise<void> {
    const next = this.turn.then(() => this.alignNow());
    this.turn = next.catch(() => {});
    return next;
  }

  private async alignNow(): Promise<void> {
    if (this.closed) return;
    const filter = this.union();
    const asked = JSON.stringify(filter);
    if (this.current && asked === this.asked) return;
    if (isEmpty(filter)) {
      this.current?.close();
      this.current = undefined;
      this.asked = '';
      return;
    }
    const previous = this.current;
    const opened: { watch?: OpenWatch } = {};
    const watch = await this.open(
      filter,
      (event) => this.deliver(event),
      (why) => {
        if (opened.watch && this.current === opened.watch) this.lost(why);
      },
    );
    opened.watch = watch;
    if (this.closed) {
      watch.close();
      return;
    }
    this.current = watch;
    this.asked = asked;
    this.pauses.reset();
    previous?.close();
  }

  private lost(why: string): void {
    this.log.debug({ server: this.name, why }, 'a watch was interrupted; opening it again');
    this.current = undefined;
    this.asked = '';
    this.reopenLater();
  }

  private reopenLater(): void {
    if (this.closed || this.retry) return;
    this.retry = setTimeout(() => {
      this.retry = undefined;
      if (this.watchers.size === 0 || this.current) return;
      this.align().then(
        () => this.announceGap(),
        () => this.reopenLater(),
      );
    }, this.pauses.next());
    this.retry.unref();
  }

  /** Reports a change for everything watched: events of the interruption are not replayed. */
  announceGap(): void {
    const filter = this.union();
    for (const kind of LIST_KINDS) if (filter[kind]) this.deliver({ kind });
    for (const uri of filter.resourceSubscriptions ?? []) this.deliver({ kind: 'resourceUpdated', uri });
  }

  private deliver(event: WatchEvent): void {
    for (const watcher of [...this.watchers]) if (concerns(watcher.filter, event)) watcher.deliver(event);
    for (const deliver of this.overhearing) deliver(event);
  }

  private union(): SubscriptionFilter {
    const union: SubscriptionFilter = {};
    const uris = new Set<string>();
    for (const { filter } of this.watchers) {
      for (const kind of LIST_KINDS) if (filter[kind]) union[kind] = true;
      for (const uri of filter.resourceSubscriptions ?? []) uris.add(uri);
    }
    if (uris.size > 0) union.resourceSubscriptions = [...uris].sort();
    return union;
  }
}

function concerns(filter: SubscriptionFilter, event: WatchEvent): boolean {
  if (event.kind === 'task') return true;
  if (event.kind !== 'resourceUpdated') return filter[event.kind] === true;
  // An update may name a sub-resource of the subscribed resource (RES-06).
  return (filter.resourceSubscriptions ?? []).some(
    (uri) =>
      event.uri === uri || event.uri.startsWith(uri.endsWith('/') ? uri : `${uri}/`) || event.uri.startsWith(`${uri}#`),
  );
}

function intersect(wanted: SubscriptionFilter, confirmed: SubscriptionFilter): SubscriptionFilter {
  const out: SubscriptionFilter = {};
  for (const kind of LIST_KINDS) if (wanted[kind] && confirmed[kind]) out[kind] = true;
  const heard = new Set(confirmed.resourceSubscriptions);
  const uris = (wanted.resourceSubscriptions ?? []).filter((uri) => heard.has(uri));
  if (uris.length > 0) out.resourceSubscriptions = uris;
  return out;
}

export const isEmpty = (filter: SubscriptionFilter): boolean =>
  !LIST_KINDS.some((kind) => filter[kind]) && !filter.resourceSubscriptions?.length;
