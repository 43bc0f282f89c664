import { type Glob, globOf } from './catalog/glob.js';
import { Naming, type NamingOptions, OWN_NAMES, spellingsOf } from './catalog/names.js';

/** Which part of the catalog an endpoint shows, as data that can be written down. */
export interface Selection {
  /** Servers by name. */
  readonly servers?: readonly string[];
  /** Servers by group: those that are in one of these. Without servers and groups all servers are shown. */
  readonly groups?: readonly string[];
  /** Patterns of the tools and prompts that are shown, in any spelling of their names; all of them without patterns. */
  readonly names?: readonly string[];
  /** How names are written; without it as the configuration says. `own` is for one server. */
  readonly naming?: NamingOptions | 'own';
}

/** A server, as far as views choose by it. */
export interface Selectable {
  readonly name: string;
  readonly groups: readonly string[];
}

/** Which servers and names an endpoint shows, and how it names them. */
export class View {
  /**
   * The one server it shows under its own names: such a caller waits for the server and hears of its failures, and
   * messages that name nothing can only be for it.
   */
  readonly only: string | undefined;
  /** Undefined: as the configuration says. */
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

  /** Whether it leaves out names. */
  get filters(): boolean {
    return this.patterns !== undefined;
  }

  includes({ name, groups }: Selectable): boolean {
    const { servers, groups: wanted } = this.selection;
    if (!servers && !wanted) return true;
    return servers?.includes(name) === true || wanted?.some((group) => groups.includes(group)) === true;
  }

  /** Whether it shows the tool or prompt of this name. */
  shows(server: string, name: string): boolean {
    const { patterns } = this;
    if (!patterns) return true;
    const spellings = spellingsOf(server, name);
    return patterns.some((pattern) => spellings.some((spelling) => pattern.test(spelling)));
  }
}

/** All servers, under the names that the configuration gives them. */
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
