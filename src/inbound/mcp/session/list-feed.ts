import { GATEWAY } from '../../../core/caller.js';
import type { Gateway, Subscription, View } from '../../../core/gateway.js';
import { LIST_KINDS, type Notification, type SubscriptionFilter } from '../../../protocol/mcp/model.js';

type Listener = (notification: Notification) => void;

interface Feed {
  readonly listeners: Set<Listener>;
  readonly subscription: Promise<Subscription>;
}

const ALL_LISTS: SubscriptionFilter = Object.fromEntries(LIST_KINDS.map((kind) => [kind, true]));

/** Changed lists, for all sessions that see the same servers: they hear the same, so one subscription serves them all. */
export class ListFeeds {
  private readonly feeds = new Map<string | undefined, Feed>();

  constructor(private readonly gateway: Gateway) {}

  /** Returns how to stop listening. */
  follow(view: View, listener: Listener): () => void {
    const feed = this.feeds.get(view.server) ?? this.open(view);
    feed.listeners.add(listener);
    return () => {
      if (!feed.listeners.delete(listener) || feed.listeners.size > 0) return;
      if (this.feeds.get(view.server) === feed) this.feeds.delete(view.server);
      feed.subscription.then((subscription) => subscription.close()).catch(() => {});
    };
  }

  private open(view: View): Feed {
    const listeners = new Set<Listener>();
    const subscription = this.gateway.listen(GATEWAY, view, ALL_LISTS, (notification) => {
      for (const listener of [...listeners]) listener(notification);
    });
    const feed: Feed = { listeners, subscription };
    this.feeds.set(view.server, feed);
    // The next session tries again.
    subscription.catch(() => {
      if (this.feeds.get(view.server) === feed) this.feeds.delete(view.server);
    });
    return feed;
  }
}
