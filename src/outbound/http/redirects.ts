/** Redirects that only add or drop a trailing slash: the one kind that is followed. */
import { type HttpHeaders, headerOf } from '../../protocol/http/headers.js';

/** Answers that say where to ask again. 303 is none of them: it asks for another method. */
const ELSEWHERE: ReadonlySet<number> = new Set([301, 302, 307, 308]);

/** More than any server has endpoints. */
const MOST = 64;

/** Where the paths of one origin have moved to, so that not every call has to find out again. */
export class SlashRedirects {
  private readonly paths = new Map<string, string>();

  constructor(private readonly origin: string) {}

  /** The path to ask for. */
  now(path: string): string {
    return this.paths.get(path) ?? path;
  }

  /** The path to ask for instead of `asked`, which was refused, where the same was asked for as `path` at first. */
  next(path: string, asked: string, status: number, headers: HttpHeaders): string | undefined {
    // What was remembered is not good for ever.
    if (asked !== path) this.paths.delete(path);
    const to = slashMoved(status, headers, this.origin, asked);
    if (to === undefined || to === path) return to;
    if (this.paths.size >= MOST) this.paths.clear();
    this.paths.set(path, to);
    return to;
  }
}

/** The path a reply leads to, where that is at the same origin and differs in a trailing slash alone. */
function slashMoved(status: number, headers: HttpHeaders, origin: string, path: string): string | undefined {
  const location = ELSEWHERE.has(status) ? headerOf(headers, 'location') : undefined;
  const asked = origin + path;
  if (location === undefined || !URL.canParse(location, asked)) return undefined;
  const from = new URL(asked);
  const to = new URL(location, asked);
  if (to.origin !== from.origin || to.search !== from.search || to.username !== '' || to.password !== '')
    return undefined;
  const differs = to.pathname === `${from.pathname}/` || `${to.pathname}/` === from.pathname;
  return differs ? to.pathname + to.search : undefined;
}
