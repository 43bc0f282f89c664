import { ProtocolError } from '../../protocol/errors.js';
import {
  type ClientCapabilities,
  LIST_METHODS,
  type ListKind,
  type ListMethod,
  type ServerDescription,
} from '../../protocol/mcp/model.js';
import type { Log } from '../../telemetry/log.js';
import { GATEWAY } from '../caller.js';
import type { DefinitionCheck } from '../pinning/definition-check.js';
import type { ListNews, Upstream, WatchEvent } from '../upstream.js';
import {
  type CapabilitySet,
  capabilitySet,
  declarationOf,
  lacking,
  NO_CAPABILITIES,
  namesOf,
  sizeOf,
} from './capability-set.js';
import { type Item, Listing } from './server-list-cache.js';
import type { ToolRules } from './tool-rules.js';

const KIND_OF: Readonly<Record<ListMethod, ListKind>> = {
  'tools/list': 'toolsListChanged',
  'prompts/list': 'promptsListChanged',
  'resources/list': 'resourcesListChanged',
  'resources/templates/list': 'resourcesListChanged',
};

type Offer = 'tools' | 'prompts' | 'resources';

const OFFER_OF: Readonly<Record<ListMethod, Offer>> = {
  'tools/list': 'tools',
  'prompts/list': 'prompts',
  'resources/list': 'resources',
  'resources/templates/list': 'resources',
};

export type Lists = Readonly<Record<ListMethod, Listing>>;

export interface ServerListsOptions {
  readonly upstream: Upstream;
  readonly rules: ToolRules;
  /** Compares definitions with the pinned ones; undefined if they are not compared. */
  readonly pins?: DefinitionCheck | undefined;
  /** The server's description, once it has answered. */
  description(): ServerDescription | undefined;
  /**
   * Reports a changed list: the list for clients with these capabilities, or for undefined the lists for all clients.
   */
  announce(kind: ListKind, set: CapabilitySet | undefined): void;
  readonly log: Log;
}

/** The lists of one server, for each capability set. */
export class ServerLists {
  /** The lists for clients without capabilities. */
  readonly plain: Lists;
  private readonly bySet = new Map<CapabilitySet, Lists>();

  constructor(private readonly options: ServerListsOptions) {
    this.plain = this.listsOf(NO_CAPABILITIES);
    options.pins?.onChange(() => {
      for (const [, lists] of this.all()) for (const method of LIST_METHODS) lists[method].withhold();
    });
  }

  private listsOf(set: CapabilitySet): Lists {
    const { upstream, rules, pins, announce, log } = this.options;
    const capabilities = declarationOf(set);
    const listing = (method: ListMethod): Listing =>
      new Listing({
        upstream,
        method,
        rules,
        pins,
        caller: { ...GATEWAY, capabilities },
        news: () => this.newsOf(method, capabilities),
        changed: () => announce(KIND_OF[method], set === NO_CAPABILITIES ? undefined : set),
        warn: (message) => log.warn({ server: upstream.name }, message),
        ...(set !== NO_CAPABILITIES && { plain: this.plain[method] }),
      });
    return Object.fromEntries(LIST_METHODS.map((method) => [method, listing(method)])) as unknown as Lists;
  }

  /** The lists for clients with these capabilities. */
  for(set: CapabilitySet): Lists {
    if (set === NO_CAPABILITIES) return this.plain;
    let lists = this.bySet.get(set);
    if (!lists) {
      lists = this.listsOf(set);
      this.bySet.set(set, lists);
    }
    return lists;
  }

  private newsOf(method: ListMethod, capabilities: ClientCapabilities): ListNews {
    const news = this.options.upstream.listNews(KIND_OF[method], capabilities);
    return news === 'pushed' && !this.announces(OFFER_OF[method]) ? 'polled' : news;
  }

  private announces(offer: Offer): boolean {
    return this.options.description()?.capabilities[offer]?.['listChanged'] === true;
  }

  offers(method: ListMethod): boolean {
    return this.options.description()?.capabilities[OFFER_OF[method]] !== undefined;
  }

  /** Handles a change that the server announced, or an interruption of the watch. */
  heard(event: WatchEvent): void {
    if (event.kind === 'resourceUpdated' || event.kind === 'task') return;
    const { kind, lapsed } = event;
    const concerned = event.for && capabilitySet(event.for);
    for (const [set, lists] of this.all()) {
      if (!this.concerns(set, kind, concerned)) continue;
      for (const method of LIST_METHODS) {
        if (KIND_OF[method] !== kind) continue;
        if (lapsed) lists[method].lapse();
        else lists[method].invalidate();
      }
    }
    if (!lapsed) this.options.announce(kind, concerned || undefined);
  }

  private all(): [CapabilitySet, Lists][] {
    return [[NO_CAPABILITIES, this.plain], ...this.bySet];
  }

  /** Called when changes of any list may have gone unnoticed. */
  lapse(): void {
    for (const [, lists] of this.all()) for (const method of LIST_METHODS) lists[method].lapse();
  }

  /**
   * Whether a change of the lists for `concerned` affects those for `set`. If the server sends no notifications for a
   * list, the list is assumed to change with the list for clients without capabilities.
   */
  private concerns(set: CapabilitySet, kind: ListKind, concerned: CapabilitySet | undefined): boolean {
    if (concerned === undefined || set === concerned) return true;
    return concerned === NO_CAPABILITIES && this.options.upstream.listNews(kind, declarationOf(set)) !== 'pushed';
  }

  /** Whether the list differs between capability sets. */
  vary(method: ListMethod): boolean {
    const items = this.plain[method].snapshot?.items;
    for (const lists of this.bySet.values()) {
      const { snapshot } = lists[method];
      if (snapshot && snapshot.items !== items) return true;
    }
    return false;
  }

  /** The known tool of this offered name, for clients with these capabilities. Sends no request. */
  knownTool(name: string, set: CapabilitySet): Item | undefined {
    const ofSet = set === NO_CAPABILITIES ? undefined : this.bySet.get(set)?.['tools/list'].snapshot;
    return (ofSet ?? this.plain['tools/list'].snapshot)?.byKey.get(name);
  }

  /**
   * The error for an unknown tool. If the server offers the tool to clients with more capabilities, the error names the
   * missing capabilities.
   */
  unknownTool(name: string, set: CapabilitySet): ProtocolError {
    const { name: server } = this.options.upstream;
    let least: CapabilitySet | undefined;
    for (const [other, lists] of this.bySet) {
      const more = lacking(set, other);
      if (more === NO_CAPABILITIES || !lists['tools/list'].snapshot?.byKey.has(name)) continue;
      if (least === undefined || sizeOf(more) < sizeOf(least)) least = more;
    }
    const data = { name, server };
    if (least === undefined) return new ProtocolError('tool_not_found', `Unknown tool: ${name}`, { data });
    return new ProtocolError(
      'missing_capability',
      `Server "${server}" offers tool "${name}" to clients that declare ${namesOf(least).join(' and ')}`,
      { outcome: 'not_executed', data: { ...data, requiredCapabilities: declarationOf(least) } },
    );
  }
}
