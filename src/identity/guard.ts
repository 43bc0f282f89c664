import { createHash, timingSafeEqual } from 'node:crypto';
import type { Principal } from '../core/caller.js';

export interface KnownToken {
  readonly name: string;
  readonly token: string;
  readonly admin: boolean;
}

/** Without `auth` all callers on this machine are one. */
export const LOCAL: Principal = { name: 'local', admin: true };

const digest = (token: string): Buffer => createHash('sha256').update(token).digest();

/** The one question before every route: who is this? Undefined means nobody that is known. */
export class Guard {
  private readonly known: readonly { readonly digest: Buffer; readonly principal: Principal }[] | undefined;

  constructor(tokens: readonly KnownToken[] | undefined) {
    this.known = tokens?.map(({ name, token, admin }) => ({ digest: digest(token), principal: { name, admin } }));
  }

  identify(authorization: string | undefined): Principal | undefined {
    if (!this.known) return LOCAL;
    const match = authorization === undefined ? null : /^Bearer +([^\s,]+)$/i.exec(authorization);
    if (!match) return undefined;
    const given = digest(match[1]!);
    let found: Principal | undefined;
    // Every token is compared, found or not, so that time tells nothing.
    for (const { digest: expected, principal } of this.known) if (timingSafeEqual(given, expected)) found = principal;
    return found;
  }
}
