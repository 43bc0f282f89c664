/** The links by which users sign in at an upstream. */
import { createHmac, randomInt, timingSafeEqual } from 'node:crypto';
import { BoundedCache } from '../../core/bounded-cache.js';
import type { Principal } from '../../core/caller.js';
import { type Seal, SealBroken } from '../../core/seal.js';

/** S5: a link is valid for this long. */
export const LINK_TTL = 10 * 60_000;
/** For this long the same link is given again, so that a client that asks repeatedly shows only one question. */
const REUSED_FOR = 5 * 60_000;
const MOST_KEPT = 10_000;

/** The content of a link. The link is sealed: only the gateway can make one, and it cannot be changed. */
export interface LinkContent {
  /** The key of the principal that asked. */
  readonly owner: string;
  /** The name of that principal, for the page. */
  readonly user: string;
  /** `server:name` or `agent:name`. */
  readonly upstream: string;
  /** Additional scopes that the upstream asked for. */
  readonly scope: string | undefined;
  /** The code that the client shows and the browser must repeat; undefined if the code is not needed. */
  readonly code: string | undefined;
}

export interface ConnectLink {
  readonly url: string;
  readonly code: string | undefined;
}

export interface ConnectLinksOptions {
  readonly seal: Seal;
  /**
   * Whether the browser has to prove by a code that it belongs to the principal that asked. No code is needed if all
   * callers are the same user, or if the principal can sign in at the gateway.
   */
  needsCode(principal: Principal): boolean;
  readonly now: () => number;
}

export class ConnectLinks {
  private readonly given = new BoundedCache<string, { readonly link: ConnectLink; readonly until: number }>(MOST_KEPT);

  constructor(private readonly options: ConnectLinksOptions) {}

  /** The link for a caller. The same question gets the same link for `REUSED_FOR`. */
  make(base: string, principal: Principal, upstream: string, scope: string | undefined): ConnectLink {
    const key = JSON.stringify([base, principal.key, upstream, scope]);
    const known = this.given.get(key);
    if (known && known.until > this.options.now()) return known.link;
    const code = this.options.needsCode(principal) ? newCode() : undefined;
    const content: LinkContent = { owner: principal.key, user: principal.subject, upstream, scope, code };
    const [kind = '', name = ''] = split(upstream);
    const sealed = this.options.seal.close('connect', '', content, LINK_TTL);
    const at =
      kind === 'agent' ? `/connect/agents/${encodeURIComponent(name)}` : `/connect/${encodeURIComponent(name)}`;
    const link = { url: `${base}${at}?link=${sealed}`, code };
    this.given.set(key, { link, until: this.options.now() + REUSED_FOR });
    return link;
  }

  /** The content of a link for this upstream; undefined if the gateway did not make the link, or if it has expired. */
  open(sealed: string, upstream: string): LinkContent | undefined {
    try {
      const content = this.options.seal.open('connect', '', sealed) as LinkContent;
      return content.upstream === upstream ? content : undefined;
    } catch (error) {
      if (error instanceof SealBroken) return undefined;
      throw error;
    }
  }
}

export const split = (upstream: string): [kind: string, name: string] => {
  const at = upstream.indexOf(':');
  return [upstream.slice(0, at), upstream.slice(at + 1)];
};

/** Letters and digits that people do not confuse. */
const ALPHABET = 'ABCDEFGHJKMNPQRSTUVWXYZ23456789';

function newCode(): string {
  const letters = Array.from({ length: 8 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  return `${letters.slice(0, 4)}-${letters.slice(4)}`;
}

/** Compares a typed code with the expected code. Case and separators do not matter. */
export function isSameCode(typed: string, expected: string): boolean {
  const digest = (text: string): Buffer =>
    createHmac('sha256', 'code')
      .update(text.toUpperCase().replace(/[^A-Z0-9]/g, ''))
      .digest();
  return timingSafeEqual(digest(typed), digest(expected));
}
