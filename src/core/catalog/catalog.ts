import { ProtocolError } from '../../protocol/errors.js';
import { isEmpty, type JsonObject } from '../../protocol/jsonrpc/raw.js';
import {
  isObject,
  LIST_KINDS,
  type ListKind,
  type ListMethod,
  type ServerCapabilities,
  type ServerDescription,
  TASKS_EXTENSION,
} from '../../protocol/mcp/model.js';
import type { Log } from '../../telemetry/log.js';
import { type Admission, type ItemTarget, sees, seesAll, serverTarget, visible } from '../admission.js';
import { type Caller, GATEWAY, type Principal } from '../caller.js';
import { type BridgeSwitches, relayable } from '../era-bridge/relayed-capabilities.js';
import type { Missing } from '../gateway.js';
import type { ServerFinding } from '../hygiene/server-lint.js';
import type { PinMode, Pinning } from '../pinning/all-pins.js';
import type { PinKind } from '../pinning/definition-hash.js';
import { someInSlices } from '../time-slices.js';
import type { Upstream } from '../upstream.js';
import { ALL_SERVERS, type Filtered, type View } from '../view.js';
import { type CapabilitySet, capabilitySet, NO_CAPABILITIES } from './capability-set.js';
import { CatalogServer, type KnownOffer, type Part } from './catalog-server.js';
import { Naming, type NamingOptions } from './names.js';
import { PersonalServers, SIGN_IN_TOOL } from './personal-servers.js';
import type { Item } from './server-list-cache.js';
import { ALL_TOOLS, type ToolRules } from './tool-rules.js';

export interface CatalogOptions {
  readonly naming: NamingOptions;
  /** Decides which targets a caller sees; if absent, every caller sees every target. */
  readonly admission?: Pick<Admission, 'sees'>;
  /** How long callers wait for a server that has not answered yet, in milliseconds. All callers share one wait. */
  readonly patience: number;
  /** Which capabilities of callers are declared to servers. */
  readonly bridge: BridgeSwitches;
  /** The pinned definitions; if absent, definitions are not compared. */
  readonly pinning?: Pick<Pinning, 'forServer'>;
  readonly log: Log;
}

/** `owner` is the key of the only principal that the change concerns. */
type ChangeListener = (kind: ListKind, server: string, set: CapabilitySet | undefined, owner?: string) => void;

/** The tools, prompts and resources of all servers, and their names. */
export class Catalog {
  private readonly entries = new Map<string, CatalogServer>();
  /** The servers at which each caller has its own account. */
  private readonly personal = new Map<string, PersonalServers>();
  private readonly listeners = new Set<ChangeListener>();
  private readonly pending = new Map<string, { wanted: boolean; timer: NodeJS.Timeout }>();
  private warmed = false;
  private loggedNames = '';

  private readonly naming: Naming;

  constructor(private readonly options: CatalogOptions) {
    this.naming = new Naming(options.naming);
  }

  /** Adds a server, or replaces the server of the same name. Returns the replaced server. */
  put(
    upstream: Upstream,
    rules: ToolRules = ALL_TOOLS,
    groups: readonly string[] = [],
    pin?: PinMode,
  ): Upstream | undefined {
    const { name } = upstream;
    const before = this.entries.get(name);
    const { patience, pinning, log } = this.options;
    const shared = {
      upstream,
      rules,
      pins: pin && pinning?.forServer(name, pin, upstream.personal),
      groups,
      patience,
      log,
    };
    const entry = new CatalogServer({ ...shared, announce: (kind, set) => this.announce(kind, name, set) });
    this.entries.set(name, entry);
    before?.close();
    this.personal.get(name)?.close();
    this.personal.delete(name);
    if (upstream.personal)
      this.personal.set(
        name,
        new PersonalServers({ ...shared, announce: (kind, owner) => this.announce(kind, name, undefined, owner) }),
      );
    if (before || this.warmed) {
      for (const kind of LIST_KINDS) this.announce(kind, name);
      entry.announceOnArrival();
      if (!upstream.personal) void entry.warm();
    }
    return before?.upstream;
  }

  remove(name: string): Upstream | undefined {
    const entry = this.entries.get(name);
    this.entries.delete(name);
    this.personal.get(name)?.close();
    this.personal.delete(name);
    entry?.close();
    if (entry) for (const kind of LIST_KINDS) this.announce(kind, name);
    return entry?.upstream;
  }

  get servers(): readonly string[] {
    return [...this.entries.keys()];
  }

  upstream(name: string): Upstream | undefined {
    return this.entries.get(name)?.upstream;
  }

  /** The server as the caller sees it. */
  private entry(caller: Caller, server: string): CatalogServer | undefined {
    return this.personal.get(server)?.for(caller) ?? this.entries.get(server);
  }

  /** Whether the server refuses the caller until the caller signs in. Sends no request. */
  isSignedOut(caller: Caller, server: string): boolean {
    return this.personal.get(server)?.isSignedOut(caller) === true;
  }

  /** Drops the lists of a caller that signed in or out at a personal server. */
  resetPersonal(server: string, owner: string): void {
    this.personal.get(server)?.reset(owner);
  }

  has(name: string): boolean {
    return this.entries.has(name);
  }

  /** The groups of a server, by which views select it. */
  groupsOf(server: string): readonly string[] {
    return this.entries.get(server)?.groups ?? [];
  }

  inView(view: View, server: string): boolean {
    const entry = this.entries.get(server);
    return entry !== undefined && view.includes(entry);
  }

  /**
   * Whether the view shows the tasks of a server. The view of one server and a configured view show only the tasks of
   * their own servers. A view that a request selects shows the caller's tasks of all servers.
   */
  showsTasksOf(view: View, server: string): boolean {
    if (view.only !== undefined) return view.only === server;
    return view.name === undefined || this.inView(view, server);
  }

  /**
   * Whether a change of a server concerns the view. A removed server may have been in any view, so its removal concerns
   * all views.
   */
  concerns(view: View, server: string): boolean {
    return view.only === undefined ? !this.entries.has(server) || this.inView(view, server) : view.only === server;
  }

  /** Whether the caller sees every target. */
  showsAll(caller: Caller): boolean {
    const { admission } = this.options;
    return !admission || seesAll(admission, caller);
  }

  /** Whether the caller may know that the server exists. */
  sees(caller: Caller, server: string): boolean | Promise<boolean> {
    const { admission } = this.options;
    return admission ? sees(admission, caller, serverTarget(server)) : true;
  }

  /** The upstreams of a view that the caller sees; none if the view names a server that does not exist. */
  async upstreams(caller: Caller, view: View): Promise<Upstream[]> {
    // Returns the upstream itself, because the upstream of a personal entry serves lists only.
    return (await this.seen(caller, view)).map(({ name, upstream }) => this.upstream(name) ?? upstream);
  }

  private entriesOf(view: View): CatalogServer[] {
    if (view.only === undefined) return [...this.entries.values()].filter((entry) => view.includes(entry));
    const entry = this.entries.get(view.only);
    return entry ? [entry] : [];
  }

  private seen(caller: Caller, view: View): readonly CatalogServer[] | Promise<readonly CatalogServer[]> {
    const { admission } = this.options;
    const entries = this.entriesOf(view);
    if (!admission || seesAll(admission, caller)) return this.asSeenBy(caller, entries);
    return Promise.resolve(visible(admission, caller, entries, ({ name }) => serverTarget(name))).then((found) => {
      // A hidden server gets the same error as a server that does not exist.
      if (view.only !== undefined && found.length < entries.length)
        throw new ProtocolError('not_found', `There is no server "${view.only}"`);
      return this.asSeenBy(caller, found);
    });
  }

  private asSeenBy(caller: Caller, entries: readonly CatalogServer[]): readonly CatalogServer[] {
    if (this.personal.size === 0) return entries;
    return entries.map((entry) => this.personal.get(entry.name)?.for(caller) ?? entry);
  }

  /**
   * Reports changed lists. Several changes within a few milliseconds cause one report. `set` limits a change to clients
   * with these capabilities; undefined means all clients.
   */
  onChange(listener: ChangeListener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private announce(kind: ListKind, server: string, set?: CapabilitySet, owner?: string): void {
    const key = `${kind} ${server} ${set ?? ''} ${owner ?? ''}`;
    const pending = this.pending.get(key);
    if (pending) {
      pending.wanted = true;
      return;
    }
    const tell = (): void => {
      if (!announcement.wanted) {
        this.pending.delete(key);
        return;
      }
      announcement.wanted = false;
      // Limits a server that notifies without pause to a few reports a second.
      announcement.timer = setTimeout(tell, SPACING).unref();
      for (const listener of [...this.listeners]) listener(kind, server, set, owner);
    };
    const announcement = { wanted: true, timer: setTimeout(tell, COALESCE) };
    this.pending.set(key, announcement);
  }

  /** Connects to the servers and reads their lists, so that the first caller need not wait. Never fails. */
  async warm(view: View = ALL_SERVERS): Promise<void> {
    this.warmed = true;
    const shared = this.entriesOf(view).filter(({ name }) => !this.personal.has(name));
    await Promise.all(shared.map((entry) => entry.warm()));
  }

  hasAnswered(server: string): boolean {
    return this.entries.get(server)?.description !== undefined;
  }

  /** The descriptions of the servers in a view. Waits a limited time; servers without an answer are in `missing`. */
  async describe(
    caller: Caller,
    view: View,
  ): Promise<{
    readonly known: { readonly server: string; readonly description: ServerDescription }[];
    readonly missing: Missing[];
  }> {
    const entries = await this.seen(caller, view);
    if (view.only !== undefined && entries[0]) {
      return { known: [{ server: view.only, description: await entries[0].describe() }], missing: [] };
    }
    const known: { server: string; description: ServerDescription }[] = [];
    const missing: Missing[] = [];
    await Promise.all(
      entries.map(async (entry) => {
        const description = await entry.described();
        if (description) known.push({ server: entry.name, description });
        else missing.push(entry.missing());
      }),
    );
    known.sort((a, b) => this.order(a.server) - this.order(b.server));
    return { known, missing };
  }

  private order(server: string): number {
    return this.servers.indexOf(server);
  }

  /** The capability set of a caller, without the capabilities that the gateway does not relay to servers. */
  setOf({ capabilities }: Pick<Caller, 'capabilities'>, view: View): CapabilitySet {
    // Most callers declare no capabilities.
    if (isEmpty(capabilities)) return NO_CAPABILITIES;
    return capabilitySet(relayable(capabilities, this.options.bridge, view.only !== undefined));
  }

  /**
   * The parts of a list for clients with these capabilities, in the order of the servers. A slow or failing server
   * never delays or removes the other parts. With `continuing`, the list stays usable longer, so that further pages
   * match the first.
   */
  async parts(
    caller: Caller,
    view: View,
    method: ListMethod,
    set = NO_CAPABILITIES,
    continuing = false,
  ): Promise<{ readonly parts: ShownPart[]; readonly missing: Missing[] }> {
    const alone = view.only !== undefined;
    const answers = await Promise.all(
      (await this.seen(caller, view)).map((entry) =>
        alone ? entry.partAlone(method, set, continuing) : entry.part(method, set, continuing),
      ),
    );
    const parts = answers.flatMap(({ part }) => part ?? []);
    const missing = answers.flatMap((answer) => answer.missing ?? []);
    for (const { server } of parts) if (this.isSignedOut(caller, server)) missing.push(signedOut(server));
    if (view === ALL_SERVERS && this.showsAll(caller))
      this.note(answers.flatMap((answer) => (answer.part ? [] : (answer.missing ?? []))));
    return { parts: await Promise.all(parts.map((part) => this.shown(caller, view, method, part))), missing };
  }

  /** One server's part of a list, for a view of several servers. */
  async partOf(
    caller: Caller,
    view: View,
    server: string,
    method: ListMethod,
    set: CapabilitySet,
  ): Promise<{ readonly part?: ShownPart; readonly missing?: Missing }> {
    const { part, missing } = (await this.entry(caller, server)?.part(method, set, false)) ?? {};
    return { ...(part && { part: await this.shown(caller, view, method, part) }), ...(missing && { missing }) };
  }

  /** Adds the keys of the items that the view or admission hides. */
  private shown(caller: Caller, view: View, method: ListMethod, part: Part): ShownPart | Promise<ShownPart> {
    const { admission } = this.options;
    const list = FILTERED[method];
    const filters = view.filters(list);
    const all = !admission || seesAll(admission, caller);
    if (all && !filters) return { ...part, hidden: NOTHING };
    const { server, snapshot } = part;
    const passing = filters ? snapshot.items.filter(({ key }) => view.shows(list, server, key)) : snapshot.items;
    const kind = KINDS[method];
    const found = all ? passing : visible(admission, caller, passing, (item) => itemTarget(server, kind, item));
    const without = (left: readonly Item[]): ShownPart => {
      if (left.length === snapshot.items.length) return { ...part, hidden: NOTHING };
      const keys = new Set(left.map(({ key }) => key));
      return { ...part, hidden: new Set([...snapshot.byKey.keys()].filter((key) => !keys.has(key))) };
    };
    return found instanceof Promise ? found.then(without) : without(found);
  }

  /**
   * Whether any item of a server, as the principal sees the server, passes the test. Waits a limited time for lists
   * that are not known yet. An unavailable list counts as empty. Returns true before the principal signs in, because
   * any item may exist then.
   */
  someItem(principal: Principal, server: string, test: (target: ItemTarget) => boolean): boolean | Promise<boolean> {
    const caller: Caller = { ...GATEWAY, principal };
    const entry = this.entry(caller, server);
    if (!entry) return false;
    if (this.isSignedOut(caller, server)) return true;
    const targets = (method: ListMethod, items: readonly Item[] = []): ItemTarget[] =>
      items.map((item) => itemTarget(server, KINDS[method], item));
    const known = entry.knownLists();
    if (known)
      return someInSlices(
        LIST_METHODS.flatMap((method) => targets(method, known[method])),
        test,
      );
    const reading = LIST_METHODS.map(async (method) => {
      const { part } = await entry.part(method, NO_CAPABILITIES, false);
      return someInSlices(targets(method, part?.snapshot.items), test);
    });
    return Promise.all(reading).then((found) => found.includes(true) || this.isSignedOut(caller, server));
  }

  /** Reports every list as changed, because callers may see other items from now on. */
  visibilityChanged(): void {
    for (const name of this.entries.keys()) for (const kind of LIST_KINDS) this.announce(kind, name);
  }

  /** Logs the servers whose part is missing from lists, whenever that set changes. */
  private note(missing: readonly Missing[]): void {
    const names = missing.map(({ server }) => server).join(', ');
    if (names === this.loggedNames) return;
    this.loggedNames = names;
    if (names !== '') this.options.log.debug({ missing }, 'lists do not contain the items of some servers');
  }

  /** How the view prefixes names. */
  namingOf(view: View): Naming {
    return view.naming ?? this.naming;
  }

  /** The names that more than one part contains. Empty unless the naming adds prefixes only to such names. */
  clashes(view: View, method: ListMethod, parts: readonly ShownPart[]): ReadonlySet<string> {
    const renames = method === 'tools/list' && view.renameKey !== '';
    return this.namingOf(view).clashes(parts.map((part) => (renames ? keptKeys(view, part) : keysOf(part))));
  }

  /** The name of a tool or prompt in a view. */
  exposed(view: View, method: ListMethod, server: string, own: string, clashes: ReadonlySet<string>): string {
    const renamed = method === 'tools/list' ? view.newName(server, own) : undefined;
    return renamed ?? this.namingOf(view).exposed(server, own, clashes);
  }

  /**
   * Whether another item has the exposed name already. The other item is a tool that the view renames to this name or,
   * without prefixes, an item of an earlier server.
   */
  isTaken(
    view: View,
    method: ListMethod,
    parts: readonly ShownPart[],
    part: ShownPart,
    own: string,
    clashes: ReadonlySet<string>,
  ): boolean {
    const renames = method === 'tools/list' && view.renameKey !== '';
    const { firstKeeps } = this.namingOf(view);
    if (!renames && !firstKeeps) return false;
    if (renames) {
      if (view.newName(part.server, own) !== undefined) return false;
      if (view.renamedTool(this.exposed(view, method, part.server, own, clashes)) !== undefined) return true;
    }
    if (!firstKeeps) return false;
    return parts
      .slice(0, parts.indexOf(part))
      .some(
        ({ server, snapshot, hidden }) =>
          snapshot.byKey.has(own) && !hidden.has(own) && !(renames && view.newName(server, own) !== undefined),
      );
  }

  /** Whether the server is known to support the tasks extension. */
  hasTasks(caller: Caller, server: string): boolean {
    return this.entry(caller, server)?.description?.capabilities.extensions?.[TASKS_EXTENSION] !== undefined;
  }

  /** See `CatalogServer.knownTool`. */
  knownTool(caller: Caller, server: string, name: string, set = NO_CAPABILITIES): Item | undefined {
    return this.entry(caller, server)?.knownTool(name, set);
  }

  /** See `CatalogServer.ownTool`. */
  ownTool(server: string, name: string): string {
    return this.entries.get(server)?.ownTool(name) ?? name;
  }

  /** See `CatalogServer.withholds`. */
  withholds(server: string, kind: PinKind, own: string): boolean {
    return this.entries.get(server)?.withholds(kind, own) ?? false;
  }

  /** The known state of a server's tools. Sends no request. */
  offer(server: string): KnownOffer {
    // The tools of a personal server differ between callers.
    if (this.personal.has(server)) return { known: true };
    return this.entries.get(server)?.offer() ?? { known: false };
  }

  /** See `CatalogServer.findings`. */
  findings(server: string): readonly ServerFinding[] {
    return this.entries.get(server)?.findings ?? [];
  }

  /** See `CatalogServer.tool`. */
  async tool(caller: Caller, server: string, name: string, set = NO_CAPABILITIES): Promise<Item | undefined> {
    const entry = this.entry(caller, server);
    try {
      return await entry?.tool(name, set);
    } catch (error) {
      // The tools are not known before the caller signs in. The call asks the caller to sign in.
      if (this.isSignedOut(caller, server)) return undefined;
      // A client repeats this call after the sign-in. By then the list no longer has the tool.
      if (this.personal.has(server) && name === SIGN_IN_TOOL) return undefined;
      throw error;
    }
  }

  async refreshTools(caller: Caller, server: string, set: CapabilitySet): Promise<void> {
    await this.entry(caller, server)?.refreshTools(set);
  }

  async close(): Promise<void> {
    for (const { timer } of this.pending.values()) clearTimeout(timer);
    for (const entry of this.entries.values()) entry.close();
    for (const servers of this.personal.values()) servers.close();
    this.listeners.clear();
    await Promise.all([...this.entries.values()].map((entry) => entry.upstream.close()));
  }
}

/** A part of a list as one caller sees it in one view. */
export interface ShownPart extends Part {
  /** The keys of the items that are not shown. */
  readonly hidden: ReadonlySet<string>;
}

const NOTHING: ReadonlySet<string> = new Set();

const signedOut = (server: string): Missing => ({
  server,
  reason: `you are not signed in at server "${server}"; call its tool "${SIGN_IN_TOOL}" for a link`,
});

function* keysOf({ snapshot, hidden }: ShownPart): Generator<string> {
  for (const { key } of snapshot.items) if (!hidden.has(key)) yield key;
}

/** The names of the items that the view does not rename. */
function* keptKeys(view: View, part: ShownPart): Generator<string> {
  for (const key of keysOf(part)) if (view.newName(part.server, key) === undefined) yield key;
}

const FILTERED: Readonly<Record<ListMethod, Filtered>> = {
  'tools/list': 'tools',
  'prompts/list': 'prompts',
  'resources/list': 'resources',
  'resources/templates/list': 'resources',
};

const KINDS: Readonly<Record<ListMethod, ItemTarget['kind']>> = {
  'tools/list': 'tool',
  'prompts/list': 'prompt',
  'resources/list': 'resource',
  'resources/templates/list': 'resource',
};

const LIST_METHODS = Object.keys(KINDS) as ListMethod[];

/** The target of an item, for decisions about its visibility. */
const itemTarget = (server: string, kind: ItemTarget['kind'], { own: name, value }: Item): ItemTarget =>
  kind === 'tool' ? { server, kind, name, definition: value } : { server, kind, name };

/** How long changes are collected, in milliseconds. A server that adds ten tools may notify ten times. */
const COALESCE = 10;
const SPACING = 250;

/** The union of the capabilities of several servers. */
export function unionOf(descriptions: readonly ServerDescription[]): ServerCapabilities {
  const union: ServerCapabilities = {};
  for (const { capabilities } of descriptions) {
    for (const [name, value] of Object.entries(capabilities)) {
      if (!isObject(value) || name === 'experimental') continue;
      const before: JsonObject = (union[name] as JsonObject | undefined) ?? {};
      union[name] = { ...before, ...Object.fromEntries(Object.entries(value).filter(([key]) => !before[key])) };
    }
  }
  return union;
}
