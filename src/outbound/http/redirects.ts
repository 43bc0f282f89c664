/** Redirects that only add or remove a trailing slash. No other redirects are followed. */
import { type HttpHeaders, headerOf } from '../../protocol/http/headers.js';

/** Status codes of redirects that keep the method. 303 changes the method. */
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 307, 308]);

/** Maximum number of remembered paths per origin. */
const MAX_PATHS = 64;

/** Remembers the redirected paths of one origin, so that later calls need no redirect. */
export class SlashRedirects {
  private readonly paths = new Map<string, string>();

  constructor(private readonly origin: string) {}

  /** The path to request. */
  now(path: string): string {
    return this.paths.get(path) ?? path;
  }

  /** The path to request after `asked` was answered with a redirect. `path` is the original path. */
  next(path: string, asked: string, status: number, headers: HttpHeaders): string | undefined {
    // The remembered path is no longer valid.
    if (asked !== path) this.paths.delete(path);
    const to = slashMoved(status, headers, this.origin, asked);
    if (to === undefined || to === path) return to;
    if (this.paths.size >= MAX_PATHS) this.paths.clear();
    this.paths.set(path, to);
    return to;
  }
}

/**
 * The target path of a redirect. Undefined unless the target has the same origin and differs only in a trailing slash.
 */
function slashMoved(status: number, headers: HttpHeaders, origin: string, path: string): string | undefined {
  const location = REDIRECTS.has(status) ? headerOf(headers, 'location') : undefined;
  const asked = origin + path;
  if (location === undefined || !URL.canParse(location, asked)) return undefined;
  const from = new URL(asked);
  const to = new URL(location, asked);
  if (to.origin !== from.origin || to.search !== from.search || to.username !== '' || to.password !== '')
    return undefined;
  const differs = to.pathname === `${from.pathname}/` || `${to.pathname}/` === from.pathname;
  return differs ? to.pathname + to.search : undefined;
}
