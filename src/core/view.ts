import { type Glob, globOf } from './catalog/glob.js';
import { Naming, type NamingOptions, OWN_NAMES, spellingsOf } from './catalog/names.js';

/** The part of the catalog that an endpoint shows, as serializable data. */
export interface Selection {
  /** Names of servers. */
  readonly servers?: readonly string[];
  /**
   * Groups of servers: a server is shown if it is in one of these groups. Without servers and groups all servers are
   * shown.
   */
  readonly groups?: readonly string[];
  /** Patterns for the names of tools and prompts, in any of their spellings. Without patterns all are shown. */
  readonly names?: readonly string[];
  /**
   * How names are prefixed; by default as configured. `own` means the server's own names and requires a single server.
   */
  readonly naming?: NamingOptions | 'own';
}

/** The properties of a server that views select by. */
export interface Selectable {
  readonly name: string;
  readonly groups: readonly string[];
}

/** The servers and names that an endpoint shows, and how it prefixes the names. */
export class View {
  /**
   * The server of a view that shows a single server under its own names. A caller of such a view waits for that server
   * and gets its failures, and messages that name no server go to it.
   */
  readonly only: string | undefined;
  /** Undefined: as configured. */
  readonly naming: Naming | undefined;
  private readonly patterns: readonly Glob[] | undefined;
  private text: string | undefined;

  constructor(readonly selection: Selection) {
    const { servers, groups, names, naming } = selection;
    this.only = naming === 'own' && servers?.length === 1 && !groups ? servers[0] : undefined;
    this.naming = naming === undefined ? undefined : naming === 'own' ? OWN_NAMES : new Naming(naming);
    this.patterns = names?.map(globOf);
  }

  /** Equal for equal selections. */
  get key(): string {
    const { servers = null, groups = null, names = null, naming = null } = this.selection;
    this.text ??= JSON.stringify([servers, groups, names, naming]);
    return this.text;
  }

  /** Whether the view hides some names. */
  get filters(): boolean {
    return this.patterns !== undefined;
  }

  includes({ name, groups }: Selectable): boolean {
    const { servers, groups: wanted } = this.selection;
    if (!servers && !wanted) return true;
    return servers?.includes(name) === true || wanted?.some((group) => groups.includes(group)) === true;
  }

  /** Whether the view shows the tool or prompt of this name. */
  shows(server: string, name: string): boolean {
    const { patterns } = this;
    if (!patterns) return true;
    const spellings = spellingsOf(server, name);
    return patterns.some((pattern) => spellings.some((spelling) => pattern.test(spelling)));
  }
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
