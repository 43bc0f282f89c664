import { type Glob, globOf } from './catalog/glob.js';
import { Naming, type NamingOptions, OWN_NAMES, separated, spellingsOf } from './catalog/names.js';

/** Patterns for names or URIs. Without `allow` all items are shown. `deny` takes precedence over `allow`. */
export interface Filter {
  readonly allow: readonly string[];
  readonly deny: readonly string[];
}

/** How a view of several servers lists its tools. */
export interface ExposureOptions {
  readonly exposure: 'full' | 'search' | 'hybrid' | 'auto';
  /** Names or patterns of the tools that `hybrid` and `auto` list beside the search. */
  readonly pinned: readonly string[];
}

/** The part of the catalog that an endpoint shows, as serializable data. */
export interface Selection {
  /**
   * The name of a configured view. Two selections of one name are the same view, even after a change of the
   * configuration.
   */
  readonly name?: string;
  /** Names of servers. */
  readonly servers?: readonly string[];
  /**
   * Groups of servers: a server is shown if it is in one of these groups. Without servers and groups all servers are
   * shown.
   */
  readonly groups?: readonly string[];
  /** Patterns for the names of tools and prompts, in any of their spellings. Without patterns all are shown. */
  readonly names?: readonly string[];
  /** Patterns for the tools, in any spelling of their names. `rename` maps `server__tool` to a new name. */
  readonly tools?: Filter & { readonly rename: Readonly<Record<string, string>> };
  /** Patterns for the prompts, in any spelling of their names. */
  readonly prompts?: Filter;
  /** Patterns for the URIs of resources and for the texts of resource templates. */
  readonly resources?: Filter;
  /**
   * How names are prefixed; by default as configured. `own` means the server's own names and requires a single server.
   */
  readonly naming?: NamingOptions | 'own';
  /** The exposure of the view; undefined for the exposure that is configured for all servers. */
  readonly exposure?: ExposureOptions;
}

/** The properties of a server that views select by. */
export interface Selectable {
  readonly name: string;
  readonly groups: readonly string[];
}

/** The lists whose items a view can hide. */
export type Filtered = 'tools' | 'prompts' | 'resources';

/** The servers and names that an endpoint shows, and how it prefixes the names. */
export class View {
  /**
   * The server of a view that shows a single server under its own names. A caller of such a view waits for that server
   * and gets its failures, and messages that name no server go to it.
   */
  readonly only: string | undefined;
  private current: Content;
  private text: string | undefined;

  constructor(selection: Selection) {
    const { name, servers, groups, naming } = selection;
    const alone = name === undefined && naming === 'own' && servers?.length === 1 && !groups;
    this.only = alone ? servers[0] : undefined;
    this.current = contentOf(selection);
  }

  get selection(): Selection {
    return this.current.selection;
  }

  /** The name of a configured view. */
  get name(): string | undefined {
    return this.selection.name;
  }

  /** The naming of the view; undefined for the configured naming. */
  get naming(): Naming | undefined {
    return this.current.naming;
  }

  /** The last segment of the view's path `/mcp/<name>`; undefined for all servers. */
  get pathName(): string | undefined {
    return this.name ?? this.only;
  }

  /** Equal for equal selections. A configured view keeps its key when its selection changes. */
  get key(): string {
    const { name, servers = null, groups = null, names = null, naming = null } = this.selection;
    this.text ??= JSON.stringify(name === undefined ? [servers, groups, names, naming] : [name]);
    return this.text;
  }

  /** Gives a configured view another selection; sessions and subscriptions that use the view see it at once. */
  replace(selection: Selection): void {
    this.current = contentOf(selection);
  }

  /** Whether the view hides or renames some items of a list. */
  filters(list: Filtered): boolean {
    return this.current.filters[list] !== undefined || (list === 'tools' && this.current.renames !== undefined);
  }

  includes({ name, groups }: Selectable): boolean {
    const { servers, groups: wanted } = this.selection;
    if (!servers && !wanted) return true;
    return servers?.includes(name) === true || wanted?.some((group) => groups.includes(group)) === true;
  }

  /** Whether the view shows the tool or prompt of this name, or the resource of this URI. */
  shows(list: Filtered, server: string, name: string): boolean {
    const filter = this.current.filters[list];
    if (!filter) return true;
    const spellings = list === 'resources' ? [name] : spellingsOf(server, name);
    const matches = (pattern: Glob): boolean => spellings.some((spelling) => pattern.test(spelling));
    return filter.allow.every((patterns) => patterns.some(matches)) && !filter.deny.some(matches);
  }

  /** The name that the view gives a tool, if the view renames it. */
  newName(server: string, own: string): string | undefined {
    const { renames } = this.current;
    if (!renames) return undefined;
    for (const spelling of separated(server, own)) {
      const name = renames.byTool.get(spelling);
      if (name !== undefined) return name;
    }
    return renames.single === server ? renames.byTool.get(own) : undefined;
  }

  /**
   * The tool that has this new name, as the configuration writes it: `server__tool`, or the tool of the only server.
   */
  renamedTool(name: string): string | undefined {
    return this.current.renames?.byName.get(name);
  }

  /** The server of tools that the configuration renames without the name of a server. */
  get singleServer(): string | undefined {
    return this.current.renames?.single;
  }

  /** Equal for views with the same new names. */
  get renameKey(): string {
    return this.current.renames?.key ?? '';
  }
}

interface Patterns {
  /** A name is allowed only if it matches at least one pattern of each list. */
  readonly allow: readonly (readonly Glob[])[];
  readonly deny: readonly Glob[];
}

interface Renames {
  readonly byTool: ReadonlyMap<string, string>;
  readonly byName: ReadonlyMap<string, string>;
  readonly single: string | undefined;
  readonly key: string;
}

/** A selection, prepared for lookups. */
interface Content {
  readonly selection: Selection;
  readonly naming: Naming | undefined;
  readonly filters: Readonly<Partial<Record<Filtered, Patterns>>>;
  readonly renames: Renames | undefined;
}

function contentOf(selection: Selection): Content {
  const { names, tools, prompts, resources, naming } = selection;
  const ofTools = patternsOf(names, tools);
  const ofPrompts = patternsOf(names, prompts);
  const ofResources = patternsOf(undefined, resources);
  return {
    selection,
    naming: naming === undefined ? undefined : naming === 'own' ? OWN_NAMES : new Naming(naming),
    filters: {
      ...(ofTools && { tools: ofTools }),
      ...(ofPrompts && { prompts: ofPrompts }),
      ...(ofResources && { resources: ofResources }),
    },
    renames: renamesOf(selection),
  };
}

function patternsOf(names: readonly string[] | undefined, filter: Filter | undefined): Patterns | undefined {
  const allow = [names, filter && filter.allow.length > 0 ? filter.allow : undefined].filter(
    (list) => list !== undefined,
  );
  const deny = filter?.deny ?? [];
  if (allow.length === 0 && deny.length === 0) return undefined;
  return { allow: allow.map((list) => list.map(globOf)), deny: deny.map(globOf) };
}

function renamesOf({ servers, groups, tools }: Selection): Renames | undefined {
  const entries = Object.entries(tools?.rename ?? {});
  if (entries.length === 0) return undefined;
  return {
    byTool: new Map(entries),
    byName: new Map(entries.map(([tool, name]) => [name, tool])),
    single: servers?.length === 1 && !groups ? servers[0] : undefined,
    key: JSON.stringify(entries),
  };
}

/** All servers, with names as configured. */
export const ALL_SERVERS = new View({});

const MOST_KEPT = 1_000;
const kept = new Map<string, View>();

/** One server, under its own names. */
export function oneServer(server: string): View {
  let view = kept.get(server);
  if (!view) {
    view = new View({ servers: [server], naming: 'own' });
    if (kept.size >= MOST_KEPT) kept.clear();
    kept.set(server, view);
  }
  return view;
}
