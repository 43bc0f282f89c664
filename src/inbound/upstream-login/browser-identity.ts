/** The identity of browsers, where the built-in authorization server signs users in. */
import { principalOf } from '../../core/caller.js';
import { type Seal, SealBroken } from '../../core/seal.js';
import type { OAuthServer } from '../../identity/oauth-server/oauth-server.js';
import { OWN_CLIENT, sessionCookie } from '../../identity/oauth-server/paths.js';
import type { RequestContext } from '../http/route.js';
import { readCookies } from '../oauth/flow-cookies.js';
import type { BrowserIdentity } from './connect-endpoint.js';

export interface SessionIdentityOptions {
  readonly server: Pick<OAuthServer, 'issuer' | 'signedIn' | 'signInUrl'>;
  /** The issuer in the keys of the server's users. */
  readonly issuer: string;
  readonly seal: Seal;
}

/** The time to sign in, in milliseconds: as long as the link of the page is valid. */
const RETURN_TTL = 10 * 60_000;
const SESSION = /^[\w-]{16,128}$/;

/** Identifies a browser by its session at the built-in authorization server. */
export class SessionIdentity implements BrowserIdentity {
  private readonly cookie: string;

  constructor(private readonly options: SessionIdentityOptions) {
    this.cookie = sessionCookie(options.server.issuer.startsWith('https:'));
  }

  knows({ issuer }: { readonly issuer: string }): boolean {
    return issuer === this.options.issuer;
  }

  /** The value of the cookie has more than 128 random bits, so it needs no signature. */
  async identify({ req }: RequestContext): Promise<string | undefined> {
    const session = readCookies(req.header('cookie')).get(this.cookie);
    if (session === undefined || !SESSION.test(session)) return undefined;
    const { server, issuer } = this.options;
    const user = await server.signedIn(session);
    return user && principalOf({ issuer, subject: user.id, tenant: user.tenant }).key;
  }

  /** The path is sealed, so that no stranger chooses where the browser goes after the sign-in. */
  signIn(path: string, again: boolean): string {
    return this.options.server.signInUrl(this.options.seal.close('connect', OWN_CLIENT.id, path, RETURN_TTL), again);
  }

  returnPath(state: string): string | undefined {
    try {
      return this.options.seal.open('connect', OWN_CLIENT.id, state) as string;
    } catch (error) {
      if (error instanceof SealBroken) return undefined;
      throw error;
    }
  }
}
