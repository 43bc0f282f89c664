import type { WatchEvent } from '../../../core/upstream.js';
import { LIST_KINDS, type SubscriptionFilter } from '../../../protocol/mcp/model.js';
import type { OpenWatch } from '../peer.js';
import type { LegacySession } from './legacy-session.js';
import type { SessionEvents } from './session-options.js';

interface Listener {
  readonly deliver: (event: WatchEvent) => void;
  readonly lost: (why: string) => void;
}

const LIST_CAPABILITY = {
  toolsListChanged: 'tools',
  promptsListChanged: 'prompts',
  resourcesListChanged: 'resources',
} as const;

/**
 * Maximum number of resource subscriptions that are requested at the same time. Other watches wait until all of them
 * are answered.
 */
const AT_ONCE = 16;

/** Delivers the change notifications of a legacy session to its listeners, and counts resource subscriptions. */
export class SessionWatch implements SessionEvents {
  private readonly listeners = new Set<Listener>();
  private readonly overhearing: ((event: WatchEvent) => void)[] = [];
  private readonly subscribed = new Map<string, number>();

  private session: LegacySession | undefined;

  /** Replaces the session. All lists count as changed, because the server may offer other items on the new session. */
  begun(session: LegacySession): void {
    this.session = session;
    for (const kind of LIST_KINDS) this.tell({ kind, lapsed: true, for: {} });
  }

  /** Whether there are listeners. */
  get watched(): boolean {
    return this.listeners.size > 0;
  }

  get hears(): boolean {
    return this.session?.hears === true;
  }

  changed(event: WatchEvent): void {
    this.tell(event.kind === 'resourceUpdated' || event.kind === 'task' ? event : { ...event, for: {} });
    for (const listener of [...this.listeners]) listener.deliver(event);
  }

  gap(): void {
    for (const kind of LIST_KINDS) this.changed({ kind });
    for (const uri of this.subscribed.keys()) this.changed({ kind: 'resourceUpdated', uri });
  }

  ended(why: string): void {
    this.subscribed.clear();
    const listeners = [...this.listeners];
    this.listeners.clear();
    for (const listener of listeners) listener.lost(why);
  }

  private tell(event: WatchEvent): void {
    for (const deliver of this.overhearing) deliver(event);
  }

  /** Delivers every event for the lifetime of the server, without a subscription at the server. */
  overhear(deliver: (event: WatchEvent) => void): void {
    this.overhearing.push(deliver);
  }

  async listen(
    session: LegacySession,
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
    lost: (why: string) => void,
  ): Promise<OpenWatch> {
    const listener: Listener = { deliver, lost };
    this.listeners.add(listener);
    const { capabilities } = session.description;
    const honoured: SubscriptionFilter = {};
    for (const kind of LIST_KINDS)
      if (filter[kind] && capabilities[LIST_CAPABILITY[kind]]?.['listChanged']) honoured[kind] = true;
    const uris: string[] = [];
    if (capabilities.resources?.['subscribe']) {
      const wanted = filter.resourceSubscriptions ?? [];
      for (let i = 0; i < wanted.length; i += AT_ONCE) {
        const some = wanted.slice(i, i + AT_ONCE);
        const accepted = await Promise.all(some.map((uri) => this.subscribe(session, uri)));
        uris.push(...some.filter((_, at) => accepted[at]));
      }
    }
    if (uris.length > 0) honoured.resourceSubscriptions = uris;
    return {
      honoured,
      close: () => {
        this.listeners.delete(listener);
        for (const uri of uris) this.unsubscribe(session, uri);
      },
    };
  }

  private async subscribe(session: LegacySession, uri: string): Promise<boolean> {
    const count = this.subscribed.get(uri) ?? 0;
    this.subscribed.set(uri, count + 1);
    if (count > 0) return true;
    try {
      await session.own('resources/subscribe', { uri });
      return true;
    } catch {
      this.release(uri);
      return false;
    }
  }

  private unsubscribe(session: LegacySession, uri: string): void {
    if (this.release(uri) && !session.ended) session.own('resources/unsubscribe', { uri }).catch(() => {});
  }

  /** Counts down the subscriptions of a resource. Returns true after the last subscription. */
  private release(uri: string): boolean {
    const count = (this.subscribed.get(uri) ?? 0) - 1;
    if (count > 0) this.subscribed.set(uri, count);
    else this.subscribed.delete(uri);
    return count === 0;
  }
}
