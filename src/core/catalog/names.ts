/** The names tools and prompts carry where several servers share one list. */
import { createHash } from 'node:crypto';

export interface Naming {
  readonly separator: string;
  readonly prefix: 'always' | 'conflict' | 'never';
}

/** Model providers refuse function names beyond this length. */
export const NAME_LIMIT = 64;

const HASH = 8;

/**
 * `server<separator>name`, at most 64 characters: a longer one keeps its beginning and ends in a hash of the whole, so
 * the same name is shortened the same way on every node.
 */
export function prefixedName(server: string, name: string, separator: string): string {
  const full = `${server}${separator}${name}`;
  if (full.length <= NAME_LIMIT) return full;
  const hash = createHash('sha256').update(full).digest('hex').slice(0, HASH);
  return `${full.slice(0, NAME_LIMIT - HASH - 1)}_${hash}`;
}

export const mayBeShortened = (name: string): boolean =>
  name.length === NAME_LIMIT && new RegExp(`_[0-9a-f]{${HASH}}$`).test(name);

/** The server and own name a prefixed name stands for, by the server names that exist; dotted names work always. */
export function splitName(
  name: string,
  servers: { has(name: string): boolean },
  separator: string,
): { server: string; own: string } | undefined {
  for (const mark of separator === '.' ? ['.'] : [separator, '.']) {
    // A server's name may hold a dash; where that is the separator, the longest name that exists counts.
    for (let at = mark === '-' ? name.lastIndexOf(mark) : name.indexOf(mark); at > 0; ) {
      const server = name.slice(0, at).toLowerCase();
      if (servers.has(server)) return { server, own: name.slice(at + mark.length) };
      if (mark !== '-') break;
      at = name.lastIndexOf(mark, at - 1);
    }
  }
  return undefined;
}
