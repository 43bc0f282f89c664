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
import { type BridgeSwitches, relayable } from '../bridge/relay.js';
import type { Caller } from '../caller.js';
import { ALL_SERVERS, type Missing, type View } from '../gateway.js';
import type { Upstream } from '../upstream.js';
import { type CapabilitySet, capabilitySet, NO_CAPABILITIES } from './capability-set.js';
import type { Item } from './listing.js';
import { mayBeShortened, type Naming, prefixedName, splitName } from './names.js';
import { CatalogServer, type KnownOffer, type Part } from './server.js';
import { matchesTemplate, uriRoot } from './templates.js';
import { ALL_TOOLS, type ToolRules } from './tool-rules.js';

export interface CatalogOptions {
  readonly naming: Naming;
  /** How long callers wait for a server that has not answered yet, all of them together. */
  readonly patience: number;
  /** What of the callers' capabilities reaches servers. */
  readonly bridge: BridgeSwitches;
  readonly log: Log;
}

type ChangeListener = (kind: ListKind, server: string, set: CapabilitySet | undefined) => void;

/** What the upstreams offer, under which names. */
export class Catalog {
  private readonly entries = new Map<string, CatalogServer>();
  private readonly listeners = new Set<ChangeListener>();
  private readonly pending = new Map<string, { wanted: boolean; timer: NodeJS.Timeout }>();
  private warmed = false;
  private noted = '';

  constructor(private readonly options: CatalogOptions) {}

  /** Adds a server, or puts it in the place of the one with its name; returns that one. */
  put(upstream: Upstream, rules: ToolRules = ALL_TOOLS): Upstream | undefined {
    const { name } = upstream;
    const before = this.entries.get(name);
    const { patience, log } = this.options;
    const entry = new CatalogServer({
      upstream,
      rules,
      patience,
      log,
      announce: (kind, set) => this.announce(kind, name, set),
    });
    this.entries.set(name, entry);
    before?.close();
    if (before || this.warmed) {
      for (const kind of LIST_KINDS) this.announce(kind, name);
      entry.owe();
      void entry.warm();
    }
    return before?.upstream;
  }

  remove(name: string): Upstream | undefined {
    const entry = this.entries.get(name);
    this.entries.delete(name);
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

  /** The upstreams of a view; a view of a server that does not exist has none to show. */
  inView(view: View): Upstream[] {
    return this.entriesOf(view).map((entry) => entry.upstream);
  }

  private entriesOf(view: View): CatalogServer[] {
    if (view.server === undefined) return [...this.entries.values()];
    const entry = this.entries.get(view.server);
    return entry ? [entry] : [];
  }

  /**
   * Tells of changed lists, a few milliseconds after the first of several changes: of those that clients with these
   * capabilities are shown, or of all.
   */
  onChange(listener: ChangeListener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private announce(kind: ListKind, server: string, set?: CapabilitySet): void {
    const key = `${kind} ${server} ${set ?? ''}`;
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
      // A server that announces without end is passed on a few times a second.
      announcement.timer = setTimeout(tell, SPACING).unref();
      for (const listener of [...this.listeners]) listener(kind, server, set);
    };
    const announcement = { wanted: true, timer: setTimeout(tell, COALESCE) };
    this.pending.set(key, announcement);
  }

  /** Connects to the servers and reads their lists, so that the first caller need not wait. Never fails. */
  async warm(view: View = ALL_SERVERS): Promise<void> {
    this.warmed = true;
    await Promise.all(this.entriesOf(view).map((entry) => entry.warm()));
  }

  /** Whether a server has answered yet. */
  hasAnswered(server: string): boolean {
    return this.entries.get(server)?.description !== undefined;
  }

  /** What the servers of a view say of themselves, as far as that can be had in reasonable time. */
  async describe(view: View): Promise<{
    readonly known: { readonly server: string; readonly description: ServerDescription }[];
    readonly missing: Missing[];
  }> {
    const entries = this.entriesOf(view);
    if (view.server !== undefined && entries[0]) {
      return { known: [{ server: view.server, description: await entries[0].describe() }], missing: [] };
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

  /** What a caller can do that servers choose by what they list, as far as the gateway can carry it to them. */
  setOf({ capabilities }: Pick<Caller, 'capabilities'>, view: View): CapabilitySet {
    // Most callers declare nothing.
    if (isEmpty(capabilities)) return NO_CAPABILITIES;
    return capabilitySet(relayable(capabilities, this.options.bridge, view.server !== undefined));
  }

  /**
   * The parts of a list, in the order of the servers, as clients with these capabilities are shown them. One slow or
   * broken server never delays or empties the rest. The pages of a list that a caller goes on with are those of its
   * beginning.
   */
  async parts(
    view: View,
    method: ListMethod,
    set = NO_CAPABILITIES,
    continuing = false,
  ): Promise<{ readonly parts: Part[]; readonly missing: Missing[] }> {
    const alone = view.server !== undefined;
    const answers = await Promise.all(
      this.entriesOf(view).map((entry) =>
        alone ? entry.partAlone(method, set, continuing) : entry.part(method, set, continuing),
      ),
    );
    const parts = answers.flatMap(({ part }) => part ?? []);
    const missing = answers.flatMap((answer) => answer.missing ?? []);
    if (!alone) this.note(answers.flatMap((answer) => (answer.part ? [] : (answer.missing ?? []))));
    return { parts, missing };
  }

  /** Says once which servers lists are served without, and again when that changes. */
  private note(missing: readonly Missing[]): void {
    const names = missing.map(({ server }) => server).join(', ');
    if (names === this.noted) return;
    this.noted = names;
    if (names !== '') this.options.log.debug({ missing }, 'lists are served without some servers');
  }

  /** The name an item carries in a view. */
  exposedName(view: View, server: string, own: string, clashes: ReadonlySet<string>): string {
    const { separator, prefix } = this.options.naming;
    if (view.server !== undefined) return own;
    if (prefix === 'always' || (prefix === 'conflict' && clashes.has(own)) || own.length > 64)
      return prefixedName(server, own, separator);
    return own;
  }

  /** Names more than one server uses, where that decides what is shown. */
  clashes(parts: readonly Part[]): ReadonlySet<string> {
    const seen = new Set<string>();
    const twice = new Set<string>();
    if (this.options.naming.prefix === 'always') return twice;
    for (const { snapshot } of parts) {
      for (const { key } of snapshot.items) {
        if (seen.has(key)) twice.add(key);
        seen.add(key);
      }
    }
    return twice;
  }

  /** Where names carry no prefix at all, the first server to use one keeps it. */
  isTaken(parts: readonly Part[], part: Part, own: string): boolean {
    if (this.options.naming.prefix !== 'never') return false;
    return parts.slice(0, parts.indexOf(part)).some(({ snapshot }) => snapshot.byKey.has(own));
  }

  /**
   * The server behind a name the caller used, and the name of the item there: prefixed, dotted, or bare where only one
   * server has it.
   */
  resolve(
    view: View,
    name: string,
    method: 'tools/list' | 'prompts/list',
    set = NO_CAPABILITIES,
  ): Resolved | Promise<Resolved> {
    if (view.server !== undefined) return { server: view.server, name };
    const found = splitName(name, this.entries, this.options.naming.separator);
    if (!found) return this.search(view, name, method, set);
    const split: Resolved = { server: found.server, name: found.own };
    return mayBeShortened(name) ? this.lengthen(split, name, method, set) : split;
  }

  /** The one server that has an item of this name. */
  private async search(
    view: View,
    name: string,
    method: 'tools/list' | 'prompts/list',
    set: CapabilitySet,
  ): Promise<Resolved> {
    const { parts } = await this.parts(view, method, set);
    const owners = parts.filter(({ snapshot }) => snapshot.byKey.has(name));
    if (owners.length === 1) return { server: owners[0]!.server, name };
    const kind = method === 'tools/list' ? 'tool' : 'prompt';
    if (owners.length > 1) {
      if (this.options.naming.prefix === 'never') return { server: owners[0]!.server, name };
      const candidates = owners.map(({ server }) => prefixedName(server, name, this.options.naming.separator));
      throw new ProtocolError('ambiguous_name', `Several servers have a ${kind} "${name}": ${candidates.join(', ')}`, {
        data: { candidates },
      });
    }
    throw new ProtocolError(kind === 'tool' ? 'tool_not_found' : 'prompt_not_found', `Unknown ${kind}: ${name}`, {
      data: { name },
    });
  }

  /** The full name behind one that was shortened. */
  private async lengthen(
    split: Resolved,
    name: string,
    method: 'tools/list' | 'prompts/list',
    set: CapabilitySet,
  ): Promise<Resolved> {
    const { server } = split;
    const { part } = await this.entries.get(server)!.part(method, set, false);
    const snapshot = part?.snapshot;
    const found = snapshot?.items.find(({ key }) => prefixedName(server, key, this.options.naming.separator) === name);
    return found ? { server, name: found.key } : split;
  }

  /** Whether a server is known to have tasks of the newest kind. */
  hasTasks(server: string): boolean {
    return this.entries.get(server)?.description?.capabilities.extensions?.[TASKS_EXTENSION] !== undefined;
  }

  /** See `CatalogServer.knownTool`. */
  knownTool(server: string, name: string, set = NO_CAPABILITIES): Item | undefined {
    return this.entries.get(server)?.knownTool(name, set);
  }

  /** See `CatalogServer.ownTool`. */
  ownTool(server: string, name: string): string {
    return this.entries.get(server)?.ownTool(name) ?? name;
  }

  /** What is known of a server's tools at the moment; asks nobody. */
  offer(server: string): KnownOffer {
    return this.entries.get(server)?.offer() ?? { known: false };
  }

  /** See `CatalogServer.tool`. */
  async tool(server: string, name: string, set = NO_CAPABILITIES): Promise<Item | undefined> {
    return this.entries.get(server)?.tool(name, set);
  }

  async refreshTools(server: string, set: CapabilitySet): Promise<void> {
    await this.entries.get(server)?.refreshTools(set);
  }

  /** The server that a URI belongs to: who lists it, whose template makes it, or whose other URIs begin alike. */
  async ownerOf(view: View, uri: string, set = NO_CAPABILITIES): Promise<string> {
    if (view.server !== undefined) return view.server;
    const listed = await this.parts(view, 'resources/list', set);
    const exact = listed.parts.filter(({ snapshot }) => snapshot.byKey.has(uri));
    const templated = await this.parts(view, 'resources/templates/list', set);
    const owners =
      exact.length > 0
        ? exact
        : templated.parts.filter(({ snapshot }) =>
            snapshot.items.some(({ key }) => key === uri || matchesTemplate(key, uri)),
          );
    if (owners.length === 1) return owners[0]!.server;
    if (owners.length > 1) {
      const candidates = owners.map(({ server }) => server);
      throw new ProtocolError('ambiguous_name', `Several servers have the resource ${uri}: ${candidates.join(', ')}`, {
        data: { uri, candidates },
      });
    }
    const root = uriRoot(uri);
    const akin = new Set(
      [...listed.parts, ...templated.parts]
        .filter(({ snapshot }) => root !== undefined && snapshot.items.some(({ key }) => uriRoot(key) === root))
        .map(({ server }) => server),
    );
    if (akin.size === 1) return [...akin][0]!;
    // What a tool shows itself with need not be listed anywhere else (APP-04).
    const tools = await this.parts(view, 'tools/list', set);
    const shownBy = tools.parts.filter(({ snapshot }) => snapshot.items.some(({ value }) => uiResource(value) === uri));
    if (shownBy.length === 1) return shownBy[0]!.server;
    throw new ProtocolError('resource_not_found', `Resource not found: ${uri}`, { data: { uri } });
  }

  async close(): Promise<void> {
    for (const { timer } of this.pending.values()) clearTimeout(timer);
    for (const entry of this.entries.values()) entry.close();
    this.listeners.clear();
    await Promise.all([...this.entries.values()].map((entry) => entry.upstream.close()));
  }
}

/** A server, and the name an item of it is offered under, before any prefix. */
export interface Resolved {
  readonly server: string;
  readonly name: string;
}

/** The page a tool is shown with, by MCP Apps. */
function uiResource(tool: JsonObject): unknown {
  const meta = tool['_meta'];
  if (!isObject(meta)) return undefined;
  const { ui } = meta;
  return isObject(ui) ? ui['resourceUri'] : meta['ui/resourceUri'];
}

/** Changes come in flocks: a server that adds ten tools says so ten times. */
const COALESCE = 10;
const SPACING = 250;

/** The capabilities of several servers as one: whatever one of them can do, the gateway can be asked for. */
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
