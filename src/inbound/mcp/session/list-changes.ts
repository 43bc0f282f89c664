import { type Admission, serverTarget, whereSeen } from '../../../core/admission.js';
import { type Caller, GATEWAY } from '../../../core/caller.js';
import { capabilitySet, declarationOf } from '../../../core/catalog/capability-set.js';
import { type Gateway, plainCall, type Subscription, type View } from '../../../core/gateway.js';
import { RawObject } from '../../../protocol/jsonrpc/raw.js';
import { LIST_KINDS, type Notification, type SubscriptionFilter } from '../../../protocol/mcp/model.js';

interface Listener {
  /** The caller at this moment. */
  caller(): Caller;
  hear(notification: Notification): void;
}

interface Feed {
  readonly listeners: Set<Listener>;
  readonly subscription: Promise<Subscription>;
}

const ALL_LISTS: SubscriptionFilter = Object.fromEntries(LIST_KINDS.map((kind) => [kind, true]));

/**
 * Changed lists, for all sessions with the same view and capabilities: one subscription serves them all, and each session
 * hears of the servers that its caller may know of.
 */
export class ListFeeds {
  private readonly feeds = new Map<string, Feed>();

  constructor(
    private readonly gateway: Gateway,
    private readonly admission: Pick<Admission, 'sees'>,
  ) {}

  /** Returns how to stop listening. */
  follow(view: View, listener: Listener): () => void {
    const set = capabilitySet(listener.caller().capabilities);
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
    const subscription = this.gateway.listen(caller, call, ALL_LISTS, (notification, server) => {
      for (const listener of [...listeners]) this.tell(listeners, listener, notification, server);
    });
    const feed: Feed = { listeners, subscription };
    this.feeds.set(key, feed);
    // The next session tries again.
    subscription.catch(() => {
      if (this.feeds.get(key) === feed) this.feeds.delete(key);
    });
    return feed;
  }

  private tell(
    listeners: ReadonlySet<Listener>,
    listener: Listener,
    notification: Notification,
    server: string | undefined,
  ): void {
    const hear = (): void => {
      if (listeners.has(listener)) listener.hear(notification);
    };
    if (server === undefined) hear();
    else whereSeen(this.admission, listener.caller(), serverTarget(server), hear);
  }
}
