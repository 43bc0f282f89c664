import { timingSafeEqual } from 'node:crypto';
import { ADMIN_ROLE, type Principal, principalOf } from '../core/caller.js';
import { type Authenticated, type AuthenticationRequest, type Authenticator, Challenge } from './authenticator.js';
import { bearerOf, tokenDigest } from './bearer-token.js';

export interface KnownToken {
  readonly name: string;
  readonly token: string;
  readonly admin: boolean;
}

const bytesOf = (token: string): Buffer => Buffer.from(tokenDigest(token), 'base64');

const UNKNOWN = new Challenge('Unauthorized: Invalid or missing API key', {
  'WWW-Authenticate': 'Bearer realm="parley"',
});

/** Authenticates the configured callers by their bearer tokens. */
export class TokenAuthenticator implements Authenticator {
  readonly enabled = true;
  private readonly known: readonly { readonly digest: Buffer; readonly principal: Principal }[];

  constructor(tokens: readonly KnownToken[]) {
    this.known = tokens.map(({ name, token, admin }) => ({
      digest: bytesOf(token),
      principal: principalOf({ subject: name, roles: admin ? [ADMIN_ROLE] : [] }),
    }));
  }

  authenticate(request: AuthenticationRequest): Authenticated {
    const token = bearerOf(request);
    if (token === undefined) return UNKNOWN;
    const given = bytesOf(token);
    let found: Principal | undefined;
    // Every token is compared, even after a match, so that the duration reveals nothing.
    for (const { digest: expected, principal } of this.known) if (timingSafeEqual(given, expected)) found = principal;
    return found ?? UNKNOWN;
  }
}
