import { createHash, timingSafeEqual } from 'node:crypto';
import { ADMIN_ROLE, type Principal, principalOf } from '../core/caller.js';
import { type Authenticated, type AuthenticationRequest, type Authenticator, Challenge } from './authenticator.js';

export interface KnownToken {
  readonly name: string;
  readonly token: string;
  readonly admin: boolean;
}

const digest = (token: string): Buffer => createHash('sha256').update(token).digest();

const UNKNOWN = new Challenge('Unauthorized: Invalid or missing API key', {
  'WWW-Authenticate': 'Bearer realm="parley"',
});

/** Authenticates the configured callers by their bearer tokens. */
export class TokenAuthenticator implements Authenticator {
  readonly enabled = true;
  private readonly known: readonly { readonly digest: Buffer; readonly principal: Principal }[];

  constructor(tokens: readonly KnownToken[]) {
    this.known = tokens.map(({ name, token, admin }) => ({
      digest: digest(token),
      principal: principalOf({ subject: name, roles: admin ? [ADMIN_ROLE] : [] }),
    }));
  }

  authenticate(request: AuthenticationRequest): Authenticated {
    const authorization = request.header('authorization');
    const match = authorization === undefined ? null : /^Bearer +([^\s,]+)$/i.exec(authorization);
    if (!match) return UNKNOWN;
    const given = digest(match[1]!);
    let found: Principal | undefined;
    // Every token is compared, even after a match, so that the duration reveals nothing.
    for (const { digest: expected, principal } of this.known) if (timingSafeEqual(given, expected)) found = principal;
    return found ?? UNKNOWN;
  }
}
