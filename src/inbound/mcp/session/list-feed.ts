import { type Caller, GATEWAY } from '../../../core/caller.js';
import { capabilitySet, declarationOf } from '../../../core/catalog/capability-set.js';
import { type Gateway, plainCall, type Subscription, type View } from '../../../core/gateway.js';
import { RawObject } from '../../../protocol/jsonrpc/raw.js';
import { LIST_KINDS, type Notification, type SubscriptionFilter } from '../../../protocol/mcp/model.js';

type Listener = (notification: Notification) => void;

interface Feed {
  readonly listeners: Set<Listener>;
  readonly subscription: Promise<Subscription>;
}

const ALL_LISTS: SubscriptionFilter = Object.fromEntries(LIST_KINDS.map((kind) => [kind, true]));

/** Changed lists, for all sessions that see the same: they hear the same, so one subscription serves them all. */
export class ListFeeds {
  private readonly feeds = new Map<string, Feed>();

  constructor(private readonly gateway: Gateway) {}

  /** Returns how to stop listening. */
  follow(caller: Caller, view: View, listener: Listener): () => void {
    const set = capabilitySet(caller.capabilities);
    const key = `${set} ${view.key}`;
    const feed = this.feeds.get(key) ?? this.open(key, { ...GATEWAY, capabilities: declarationOf(set) }, view);
    feed.listeners.add(listener);
    return () => {
      if (!feed.listeners.delete(listener) || feed.listeners.size > 0) return;
      if (this.feeds.get(key) === feed) this.feeds.delete(key);
      feed.subscription.then((subscription) => subscription.close()).catch(() => {});
    };
  }

  private open(key: string, caller: Caller, view: View): Feed {
    const listeners = new Set<Listener>();
    const call = plainCall('subscriptions/listen', RawObject.from({ notifications: ALL_LISTS }), view);
    const subscription = this.gateway.listen(caller, call, ALL_LISTS, (notification) => {
      for (const listener of [...listeners]) listener(notification);
    });
    const feed: Feed = { listeners, subscription };
    this.feeds.set(key, feed);
    // The next session tries again.
    subscription.catch(() => {
      if (this.feeds.get(key) === feed) this.feeds.delete(key);
    });
    return feed;
  }
}
