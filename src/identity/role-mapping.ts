import type { Principal } from '../core/caller.js';
import { type Authenticated, type AuthenticationRequest, type Authenticator, Challenge } from './authenticator.js';

/** Gives a role to callers and groups. */
export interface RoleRule {
  readonly role: string;
  /** Keys of principals. */
  readonly callers: readonly string[];
  /** Groups of any issuer, or `issuer#group`. */
  readonly groups: readonly string[];
}

/** Adds the mapped roles to the principals of another authenticator. */
export class RoleMapping implements Authenticator {
  readonly enabled = true;
  /** Keyed by principal, because authenticators return the same object for repeated requests. */
  private readonly mapped = new WeakMap<Principal, Principal>();

  constructor(
    private readonly inner: Authenticator,
    private readonly rules: readonly RoleRule[],
  ) {}

  authenticate(request: AuthenticationRequest): Authenticated | Promise<Authenticated> {
    const given = this.inner.authenticate(request);
    return given instanceof Promise ? given.then((known) => this.map(known)) : this.map(given);
  }

  private map(given: Authenticated): Authenticated {
    if (given instanceof Challenge) return given;
    let mapped = this.mapped.get(given);
    if (!mapped) {
      const added = this.rules.filter((rule) => applies(rule, given)).map(({ role }) => role);
      mapped = added.length === 0 ? given : { ...given, roles: [...new Set([...given.roles, ...added])] };
      this.mapped.set(given, mapped);
    }
    return mapped;
  }
}

const applies = ({ callers, groups }: RoleRule, { key, issuer, groups: own }: Principal): boolean =>
  callers.includes(key) || own.some((group) => groups.includes(group) || groups.includes(`${issuer}#${group}`));
