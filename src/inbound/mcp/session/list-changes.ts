import { type Admission, ifVisible, serverTarget } from '../../../core/admission.js';
import { type Caller, GATEWAY } from '../../../core/caller.js';
import { capabilitySet, declarationOf } from '../../../core/catalog/capability-set.js';
import { type Gateway, plainCall, type Subscription, type View } from '../../../core/gateway.js';
import { RawObject } from '../../../protocol/jsonrpc/raw.js';
import { LIST_KINDS, type Notification, type SubscriptionFilter } from '../../../protocol/mcp/model.js';

interface Listener {
  /** The current caller. */
  caller(): Caller;
  hear(notification: Notification): void;
}

interface SharedSubscription {
  readonly listeners: Set<Listener>;
  readonly subscription: Promise<Subscription>;
}

const ALL_LISTS: SubscriptionFilter = Object.fromEntries(LIST_KINDS.map((kind) => [kind, true]));

/**
 * List changes for all sessions with the same view and capabilities: one subscription serves them all, and each session
 * is notified of changes at servers that its caller may see.
 */
export class ListChanges {
  private readonly subscriptions = new Map<string, SharedSubscription>();

  constructor(
    private readonly gateway: Gateway,
    private readonly admission: Pick<Admission, 'sees'>,
  ) {}

  /** Returns a function that stops the notifications. */
  follow(view: View, listener: Listener): () => void {
    const set = capabilitySet(listener.caller().capabilities);
    const key = `${set} ${view.key}`;
    const shared =
      this.subscriptions.get(key) ?? this.open(key, { ...GATEWAY, capabilities: declarationOf(set) }, view);
    shared.listeners.add(listener);
    return () => {
      if (!shared.listeners.delete(listener) || shared.listeners.size > 0) return;
      if (this.subscriptions.get(key) === shared) this.subscriptions.delete(key);
      shared.subscription.then((subscription) => subscription.close()).catch(() => {});
    };
  }

  private open(key: string, caller: Caller, view: View): SharedSubscription {
    const listeners = new Set<Listener>();
    const call = plainCall('subscriptions/listen', RawObject.from({ notifications: ALL_LISTS }), view);
    const subscription = this.gateway.listen(caller, call, ALL_LISTS, (notification, server, owner) => {
      for (const listener of [...listeners]) {
        // The change is about the lists of one caller, at a server at which each caller has its own account (S27).
        if (owner !== undefined && owner !== listener.caller().principal.key) continue;
        this.tell(listeners, listener, notification, server);
      }
    });
    const shared: SharedSubscription = { listeners, subscription };
    this.subscriptions.set(key, shared);
    // The next session tries to subscribe again.
    subscription.catch(() => {
      if (this.subscriptions.get(key) === shared) this.subscriptions.delete(key);
    });
    return shared;
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
    else ifVisible(this.admission, listener.caller(), serverTarget(server), hear);
  }
}
