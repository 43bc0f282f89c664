import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import {
  isObject,
  LIST_METHODS,
  type ListKind,
  type ListMethod,
  type ServerCapabilities,
  type ServerDescription,
  TASKS_EXTENSION,
} from '../../protocol/mcp/model.js';
import type { View } from '../gateway.js';
import type { Upstream } from '../upstream.js';
import { type Item, Listing, type Snapshot } from './listing.js';
import { mayBeShortened, type Naming, prefixedName, splitName } from './names.js';
import { matchesTemplate, uriRoot } from './templates.js';

export interface CatalogOptions {
  readonly naming: Naming;
  /** How long a list waits for a server that has not answered yet. */
  readonly patience: number;
  readonly log: { debug(fields: object, message: string): void; warn(fields: object, message: string): void };
}

const KIND_OF: Readonly<Record<ListMethod, ListKind>> = {
  'tools/list': 'toolsListChanged',
  'prompts/list': 'promptsListChanged',
  'resources/list': 'resourcesListChanged',
  'resources/templates/list': 'resourcesListChanged',
};

const CAPABILITY_OF: Readonly<Record<ListMethod, 'tools' | 'prompts' | 'resources'>> = {
  'tools/list': 'tools',
  'prompts/list': 'prompts',
  'resources/list': 'resources',
  'resources/templates/list': 'resources',
};

/** Why a server's part of a list is not there. */
export interface Missing {
  readonly server: string;
  readonly reason: string;
}

/** One server's part of a list. */
export interface Part {
  readonly server: string;
  readonly snapshot: Snapshot;
  readonly watched: boolean;
}

interface Entry {
  readonly upstream: Upstream;
  readonly listings: Readonly<Record<ListMethod, Listing>>;
  description: ServerDescription | undefined;
  watching: boolean;
}

/** What the upstreams offer, under which names. */
export class Catalog {
  private readonly entries = new Map<string, Entry>();
  private readonly listeners = new Set<(kind: ListKind, server: string) => void>();
  private readonly pending = new Map<string, NodeJS.Timeout>();
  private warmed = false;

  constructor(private readonly options: CatalogOptions) {}

  /** Adds a server, or puts it in the place of the one with its name; returns that one. */
  put(upstream: Upstream): Upstream | undefined {
    const { name } = upstream;
    const before = this.entries.get(name);
    const entry: Entry = {
      upstream,
      description: undefined,
      watching: false,
      listings: Object.fromEntries(
        LIST_METHODS.map((method) => [
          method,
          new Listing(
            upstream,
            method,
            () => this.isWatched(entry, method),
            () => this.announce(KIND_OF[method], name),
            (message) => this.options.log.warn({ server: name }, message),
          ),
        ]),
      ) as Record<ListMethod, Listing>,
    };
    this.entries.set(name, entry);
    if (before || this.warmed) {
      for (const kind of Object.values(KIND_OF)) this.announce(kind, name);
      void this.warmEntry(entry);
    }
    return before?.upstream;
  }

  remove(name: string): Upstream | undefined {
    const entry = this.entries.get(name);
    this.entries.delete(name);
    if (entry) for (const kind of Object.values(KIND_OF)) this.announce(kind, name);
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

  private entriesOf(view: View): Entry[] {
    if (view.server === undefined) return [...this.entries.values()];
    const entry = this.entries.get(view.server);
    return entry ? [entry] : [];
  }

  /** Tells of changed lists, a few milliseconds after the first of several changes. */
  onChange(listener: (kind: ListKind, server: string) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private announce(kind: ListKind, server: string): void {
    const key = `${kind} ${server}`;
    if (this.pending.has(key)) return;
    this.pending.set(
      key,
      setTimeout(() => {
        this.pending.delete(key);
        for (const listener of [...this.listeners]) listener(kind, server);
      }, COALESCE),
    );
  }

  private isWatched(entry: Entry, method: ListMethod): boolean {
    return entry.watching && entry.description?.capabilities[CAPABILITY_OF[method]]?.['listChanged'] === true;
  }

  /** Connects to every server and reads its lists, so that the first caller need not wait. Never fails. */
  async warm(): Promise<void> {
    this.warmed = true;
    await Promise.all([...this.entries.values()].map((entry) => this.warmEntry(entry)));
  }

  private async warmEntry(entry: Entry): Promise<void> {
    try {
      await this.describeEntry(entry);
      await Promise.all(LIST_METHODS.map((method) => this.offers(entry, method) && entry.listings[method].load()));
    } catch (error) {
      this.options.log.debug(
        { server: entry.upstream.name, why: (error as Error).message },
        'a server is not available yet',
      );
    }
  }

  private async describeEntry(entry: Entry): Promise<ServerDescription> {
    entry.description = await entry.upstream.describe();
    if (!entry.watching) {
      entry.watching = true;
      const { tools, prompts, resources } = entry.description.capabilities;
      const filter = {
        ...(tools?.['listChanged'] === true && { toolsListChanged: true }),
        ...(prompts?.['listChanged'] === true && { promptsListChanged: true }),
        ...(resources?.['listChanged'] === true && { resourcesListChanged: true }),
      };
      if (Object.keys(filter).length > 0) {
        await entry.upstream.keepWatching(filter, (event) => {
          if (event.kind === 'resourceUpdated' || event.kind === 'task') return;
          for (const method of LIST_METHODS) if (KIND_OF[method] === event.kind) entry.listings[method].invalidate();
          this.announce(event.kind, entry.upstream.name);
        });
      }
    }
    return entry.description;
  }

  private offers(entry: Entry, method: ListMethod): boolean {
    return entry.description?.capabilities[CAPABILITY_OF[method]] !== undefined;
  }

  /** What the servers of a view say of themselves, as far as that can be had in reasonable time. */
  async describe(view: View): Promise<{
    readonly known: { readonly server: string; readonly description: ServerDescription }[];
    readonly missing: Missing[];
  }> {
    const entries = this.entriesOf(view);
    if (view.server !== undefined && entries[0]) {
      return { known: [{ server: view.server, description: await this.describeEntry(entries[0]) }], missing: [] };
    }
    const known: { server: string; description: ServerDescription }[] = [];
    const missing: Missing[] = [];
    await Promise.all(
      entries.map(async (entry) => {
        const description = await this.describeWithin(entry);
        const server = entry.upstream.name;
        if (description) known.push({ server, description });
        else missing.push({ server, reason: entry.upstream.health().detail ?? 'it did not answer in time' });
      }),
    );
    known.sort((a, b) => this.order(a.server) - this.order(b.server));
    return { known, missing };
  }

  private order(server: string): number {
    return this.servers.indexOf(server);
  }

  private async describeWithin(entry: Entry): Promise<ServerDescription | undefined> {
    if (entry.description) {
      this.describeEntry(entry).catch(() => {});
      return entry.description;
    }
    // Who is known to be down is not waited for.
    const patience = entry.upstream.health().status === 'down' ? 100 : this.options.patience;
    return within(this.describeEntry(entry), patience);
  }

  /** The parts of a list, in the order of the servers. One slow or broken server never delays or empties the rest. */
  async parts(view: View, method: ListMethod): Promise<{ readonly parts: Part[]; readonly missing: Missing[] }> {
    const entries = this.entriesOf(view);
    if (view.server !== undefined && entries[0]) {
      const [entry] = entries;
      await this.describeEntry(entry);
      if (!this.offers(entry, method)) return { parts: [], missing: [] };
      return {
        parts: [
          {
            server: view.server,
            snapshot: await entry.listings[method].load(),
            watched: this.isWatched(entry, method),
          },
        ],
        missing: [],
      };
    }
    const found = await Promise.all(
      entries.map(async (entry): Promise<Part | Missing | undefined> => {
        const server = entry.upstream.name;
        const listing = entry.listings[method];
        if (!(await this.describeWithin(entry))) {
          return listing.snapshot
            ? { server, snapshot: listing.snapshot, watched: false }
            : { server, reason: entry.upstream.health().detail ?? 'it did not answer in time' };
        }
        if (!this.offers(entry, method)) return undefined;
        const snapshot = await listing.within(this.options.patience);
        if (snapshot) return { server, snapshot, watched: this.isWatched(entry, method) };
        return { server, reason: listing.failure?.error.message ?? 'it did not answer in time' };
      }),
    );
    const parts: Part[] = [];
    const missing: Missing[] = [];
    for (const part of found) {
      if (!part) continue;
      if ('snapshot' in part) parts.push(part);
      else missing.push(part);
    }
    if (missing.length > 0) this.options.log.debug({ method, missing }, 'a list is served without some servers');
    return { parts, missing };
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

  /** The server and own name behind a name the caller used: prefixed, dotted, or bare where only one server has it. */
  resolve(view: View, name: string, method: 'tools/list' | 'prompts/list'): Resolved | Promise<Resolved> {
    if (view.server !== undefined) return { server: view.server, own: name };
    const split = splitName(name, this.entries, this.options.naming.separator);
    if (!split) return this.search(view, name, method);
    return mayBeShortened(name) ? this.lengthen(split, name, method) : split;
  }

  /** The one server that has an item of this name. */
  private async search(view: View, name: string, method: 'tools/list' | 'prompts/list'): Promise<Resolved> {
    const { parts } = await this.parts(view, method);
    const owners = parts.filter(({ snapshot }) => snapshot.byKey.has(name));
    if (owners.length === 1) return { server: owners[0]!.server, own: name };
    const kind = method === 'tools/list' ? 'tool' : 'prompt';
    if (owners.length > 1) {
      if (this.options.naming.prefix === 'never') return { server: owners[0]!.server, own: name };
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
  private async lengthen(split: Resolved, name: string, method: 'tools/list' | 'prompts/list'): Promise<Resolved> {
    const { server } = split;
    const snapshot = await this.entries.get(server)!.listings[method].within(this.options.patience);
    const found = snapshot?.items.find(({ key }) => prefixedName(server, key, this.options.naming.separator) === name);
    return found ? { server, own: found.key } : split;
  }

  /** Whether a server is known to have tasks of the newest kind. */
  hasTasks(server: string): boolean {
    return this.entries.get(server)?.description?.capabilities.extensions?.[TASKS_EXTENSION] !== undefined;
  }

  /** A tool as it is known at the moment; asks nobody. */
  knownTool(server: string, own: string): Item | undefined {
    return this.entries.get(server)?.listings['tools/list'].snapshot?.byKey.get(own);
  }

  /** What is known of a server's tools at the moment: their number, or why there is none. Asks nobody. */
  offer(server: string): { readonly known: boolean; readonly count?: number; readonly problem?: string } {
    const entry = this.entries.get(server);
    if (!entry?.description) return { known: false };
    if (!this.offers(entry, 'tools/list')) return { known: true, count: 0 };
    const { snapshot, failure } = entry.listings['tools/list'];
    const problem = failure?.error.message;
    return {
      known: snapshot !== undefined || problem !== undefined,
      ...(snapshot && { count: snapshot.items.length }),
      ...(problem !== undefined && { problem }),
    };
  }

  /**
   * A tool that is not known yet: its server's list is read, or read again if it may be old. Throws where the list is
   * there and the tool is not in it; undefined where the list cannot be had, and the server itself has to say.
   */
  async tool(server: string, own: string): Promise<Item | undefined> {
    const snapshot = await this.entries.get(server)?.listings['tools/list'].within(this.options.patience);
    if (!snapshot) return undefined;
    const item = snapshot.byKey.get(own);
    if (item) return item;
    throw new ProtocolError('tool_not_found', `Unknown tool: ${own}`, { data: { name: own, server } });
  }

  async refresh(server: string, method: ListMethod): Promise<void> {
    const listing = this.entries.get(server)?.listings[method];
    listing?.invalidate();
    await listing?.load().catch(() => {});
  }

  /** The server that a URI belongs to: who lists it, whose template makes it, or whose other URIs begin alike. */
  async ownerOf(view: View, uri: string): Promise<string> {
    if (view.server !== undefined) return view.server;
    const listed = await this.parts(view, 'resources/list');
    const exact = listed.parts.filter(({ snapshot }) => snapshot.byKey.has(uri));
    const templated = await this.parts(view, 'resources/templates/list');
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
    const tools = await this.parts(view, 'tools/list');
    const shownBy = tools.parts.filter(({ snapshot }) => snapshot.items.some(({ value }) => uiResource(value) === uri));
    if (shownBy.length === 1) return shownBy[0]!.server;
    throw new ProtocolError('resource_not_found', `Resource not found: ${uri}`, { data: { uri } });
  }

  async close(): Promise<void> {
    for (const timer of this.pending.values()) clearTimeout(timer);
    this.listeners.clear();
    await Promise.all([...this.entries.values()].map((entry) => entry.upstream.close()));
  }
}

/** A server, and what an item is called there. */
export interface Resolved {
  readonly server: string;
  readonly own: string;
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

async function within<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  try {
    return await Promise.race([
      promise,
      new Promise<undefined>((resolve) => {
        timer = setTimeout(() => resolve(undefined), milliseconds);
      }),
    ]);
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return undefined;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

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
