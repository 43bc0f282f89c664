/**
 * The names of tools and prompts at an endpoint. URIs of resources never change: `owner-resolver.ts` finds their
 * server.
 */
import { createHash } from 'node:crypto';

export interface NamingOptions {
  readonly separator: string;
  /**
   * When a name gets the prefix of its server. `always`: every name. `conflict`: only a name that several servers use.
   * `never`: no name; the first server to use a name keeps it. `own`: the unchanged names of one server.
   */
  readonly prefix: 'always' | 'conflict' | 'never' | 'own';
}

/** Model providers refuse longer function names. */
export const NAME_LIMIT = 64;

/**
 * The longest beginning of a name that is searched for a server name. A name may be long, and each dash costs a lookup.
 */
const SERVER_LIMIT = 256;

const HASH = 8;
const SHORTENED = new RegExp(`_[0-9a-f]{${HASH}}$`);
/** All separators that a configuration may choose. The dot always works. */
const SEPARATORS = ['__', '.', '-'] as const;

const NO_NAMES: ReadonlySet<string> = new Set();

/** How a list names tools and prompts, and which tool or prompt a name stands for. */
export class Naming {
  private readonly marks: readonly string[];

  constructor(private readonly options: NamingOptions) {
    const { separator } = options;
    this.marks = separator === '.' ? ['.'] : [separator, '.'];
  }

  /** A key for caches, equal for equal options. */
  get key(): string {
    return `${this.options.prefix} ${this.options.separator}`;
  }

  /** Whether names are those of one server, without prefixes. */
  get isOwn(): boolean {
    return this.options.prefix === 'own';
  }

  /** Whether the first server keeps a name that several servers use. */
  get firstKeeps(): boolean {
    return this.options.prefix === 'never';
  }

  /** The name of an item in a list. `clashes` are the names that several servers use. */
  exposed(server: string, own: string, clashes: ReadonlySet<string>): string {
    const { prefix } = this.options;
    if (prefix === 'own') return own;
    const prefixed = prefix === 'always' || (prefix === 'conflict' && clashes.has(own)) || own.length > NAME_LIMIT;
    return prefixed ? this.prefixed(server, own) : own;
  }

  /**
   * `server<separator>name`, at most 64 characters. A longer name keeps its beginning and ends in a hash of the whole
   * name, so every replica shortens a name to the same result.
   */
  prefixed(server: string, own: string): string {
    return shortened(`${server}${this.options.separator}${own}`);
  }

  /** The existing server and the own name that a prefixed name stands for. A dot always works as separator. */
  split(name: string, servers: { has(name: string): boolean }): { server: string; own: string } | undefined {
    if (this.isOwn) return undefined;
    for (const mark of this.marks) {
      // Server names may contain dashes. If the dash is the separator, the longest existing server name wins.
      for (let at = mark === '-' ? name.lastIndexOf(mark, SERVER_LIMIT) : name.indexOf(mark); at > 0; ) {
        const server = name.slice(0, at).toLowerCase();
        if (servers.has(server)) return { server, own: name.slice(at + mark.length) };
        if (mark !== '-') break;
        at = name.lastIndexOf(mark, at - 1);
      }
    }
    return undefined;
  }

  /** Whether the name may be the shortened form of a longer name. */
  mayBeShortened(name: string): boolean {
    return name.length === NAME_LIMIT && SHORTENED.test(name);
  }

  /** The names that more than one list contains. Empty unless prefixes are added only to such names. */
  clashes(lists: Iterable<Iterable<string>>): ReadonlySet<string> {
    if (this.options.prefix === 'always' || this.isOwn) return NO_NAMES;
    const seen = new Set<string>();
    const twice = new Set<string>();
    for (const names of lists) {
      for (const name of names) {
        if (seen.has(name)) twice.add(name);
        seen.add(name);
      }
    }
    return twice;
  }
}

/** The naming of a view of one server: its own names. */
export const OWN_NAMES = new Naming({ separator: '', prefix: 'own' });

/** All names of an item in any view. A rule that matches one of them applies to the item. */
export const spellingsOf = (server: string, name: string): string[] => [
  name,
  ...separated(server, name).flatMap((full) => (full.length > NAME_LIMIT ? [full, shortened(full)] : [full])),
];

/** The names of an item with the name of its server before it, with every separator, at full length. */
export const separated = (server: string, name: string): string[] =>
  SEPARATORS.map((mark) => `${server}${mark}${name}`);

/** The existing server and the own name in a name with any separator; the longest existing server name wins. */
export function splitAnywhere(
  name: string,
  servers: { has(name: string): boolean },
): { server: string; own: string } | undefined {
  let found: { server: string; own: string } | undefined;
  for (const mark of SEPARATORS) {
    for (let at = name.indexOf(mark); at > 0 && at <= SERVER_LIMIT; at = name.indexOf(mark, at + 1)) {
      const server = name.slice(0, at).toLowerCase();
      if (servers.has(server) && server.length > (found?.server.length ?? 0))
        found = { server, own: name.slice(at + mark.length) };
    }
  }
  return found;
}

function shortened(full: string): string {
  if (full.length <= NAME_LIMIT) return full;
  const hash = createHash('sha256').update(full).digest('hex').slice(0, HASH);
  return `${full.slice(0, NAME_LIMIT - HASH - 1)}_${hash}`;
}
