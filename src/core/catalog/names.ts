import { createHash } from 'node:crypto';

export interface NamingOptions {
  readonly separator: string;
  /**
   * When names carry their server: always, where several servers use one, or never, and then the first server to use a name
   * keeps it. `own`: the names of one server, as it gave them.
   */
  readonly prefix: 'always' | 'conflict' | 'never' | 'own';
}

/** Model providers refuse function names beyond this length. */
export const NAME_LIMIT = 64;

/** No server's name is looked for beyond this length: a name may be long, and each dash in it costs a lookup. */
const SERVER_LIMIT = 256;

const HASH = 8;
const SHORTENED = new RegExp(`_[0-9a-f]{${HASH}}$`);
/** Every separator that a configuration may choose. A dotted name works always. */
const SEPARATORS = ['__', '.', '-'] as const;

const NO_NAMES: ReadonlySet<string> = new Set();

/** How tools and prompts of servers are named in a list, and which of them a name stands for. */
export class Naming {
  private readonly marks: readonly string[];

  constructor(private readonly options: NamingOptions) {
    const { separator } = options;
    this.marks = separator === '.' ? ['.'] : [separator, '.'];
  }

  /** Equal for equal options. */
  get key(): string {
    return `${this.options.prefix} ${this.options.separator}`;
  }

  /** Names are those of one server, without any prefix. */
  get isOwn(): boolean {
    return this.options.prefix === 'own';
  }

  /** Where several servers use a name that carries no prefix, the first of them keeps it. */
  get firstKeeps(): boolean {
    return this.options.prefix === 'never';
  }

  /** The name an item carries; `clashes` are the names that several servers use. */
  exposed(server: string, own: string, clashes: ReadonlySet<string>): string {
    const { prefix } = this.options;
    if (prefix === 'own') return own;
    const prefixed = prefix === 'always' || (prefix === 'conflict' && clashes.has(own)) || own.length > NAME_LIMIT;
    return prefixed ? this.prefixed(server, own) : own;
  }

  /**
   * `server<separator>name`, at most 64 characters: a longer one keeps its beginning and ends in a hash of the whole, so
   * the same name is shortened the same way on every replica.
   */
  prefixed(server: string, own: string): string {
    return shortened(`${server}${this.options.separator}${own}`);
  }

  /** The server and own name a prefixed name stands for, by the server names that exist; dotted names work always. */
  split(name: string, servers: { has(name: string): boolean }): { server: string; own: string } | undefined {
    if (this.isOwn) return undefined;
    for (const mark of this.marks) {
      // A server's name may hold a dash; where that is the separator, the longest name that exists counts.
      for (let at = mark === '-' ? name.lastIndexOf(mark, SERVER_LIMIT) : name.indexOf(mark); at > 0; ) {
        const server = name.slice(0, at).toLowerCase();
        if (servers.has(server)) return { server, own: name.slice(at + mark.length) };
        if (mark !== '-') break;
        at = name.lastIndexOf(mark, at - 1);
      }
    }
    return undefined;
  }

  /** Whether a name may stand for a longer one. */
  mayBeShortened(name: string): boolean {
    return name.length === NAME_LIMIT && SHORTENED.test(name);
  }

  /** The names that more than one of several lists hold, where that decides what is shown. */
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

/** The names of one server, as it gave them. */
export const OWN_NAMES = new Naming({ separator: '', prefix: 'own' });

/** Every name an item of a server goes by, in whichever view: what a rule says of one of them holds for all. */
export const spellingsOf = (server: string, name: string): string[] => [
  name,
  ...SEPARATORS.flatMap((mark) => {
    const full = `${server}${mark}${name}`;
    return full.length > NAME_LIMIT ? [full, shortened(full)] : [full];
  }),
];

function shortened(full: string): string {
  if (full.length <= NAME_LIMIT) return full;
  const hash = createHash('sha256').update(full).digest('hex').slice(0, HASH);
  return `${full.slice(0, NAME_LIMIT - HASH - 1)}_${hash}`;
}
