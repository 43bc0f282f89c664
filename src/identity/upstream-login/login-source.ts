/** The credentials of an upstream at which each user has an account: the token of the user who calls. */
import { createHash } from 'node:crypto';
import { BoundedCache } from '../../core/bounded-cache.js';
import { type Caller, GATEWAY } from '../../core/caller.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { Log } from '../../telemetry/log.js';
import type { Credential, CredentialRefusal, CredentialSource, CredentialTarget } from '../upstream-credentials.js';
import {
  RefreshFailed,
  type RefreshJob,
  type Renewed,
  type SingleFlightRefresh,
} from '../vault/single-flight-refresh.js';
import type { Vault, VaultEntry, VaultKey } from '../vault/vault.js';
import { type Challenge, type LoginPlan, readChallenge } from './discovery.js';
import { type LoginSecret, renew, TokenError } from './login-tokens.js';
import type { Fetch } from './oauth-library.js';
import { covers, union } from './scopes.js';

export interface LoginSourceOptions {
  readonly target: CredentialTarget;
  /** `server:name` or `agent:name`. */
  readonly upstream: string;
  readonly vault: Vault;
  readonly refresh: SingleFlightRefresh;
  readonly fetch: Fetch;
  /** The error for a caller that has to sign in, with a link. */
  required(caller: Caller, scope: string | undefined, reason: string | undefined): ProtocolError;
  /** Finds the authorization server that the upstream names now. */
  plan(challenge: Challenge): Promise<LoginPlan>;
  readonly log: Log;
}

type Entry = VaultEntry<LoginSecret>;

/** A token is renewed this long before it expires. */
const MARGIN = 60_000;
/** If the caller has no entry, the database is asked again after this time. */
const ABSENT_MS = 400;
/** Minimum time between two sign-ins in which the same upstream asks for the same additional scopes. */
const STEP_UP_PAUSE = 10 * 60_000;
const MOST_OWNERS = 10_000;

export class LoginSource implements CredentialSource {
  readonly personal = true;
  private readonly keys = new BoundedCache<string, { readonly key: VaultKey | undefined; readonly at: number }>(
    MOST_OWNERS,
  );
  private readonly credentials = new WeakMap<Entry, Credential>();
  private readonly origin: string;

  constructor(private readonly options: LoginSourceOptions) {
    this.origin = new URL(options.target.url).origin;
  }

  for(caller: Caller): Credential | Promise<Credential> {
    const { vault, target } = this.options;
    // The card of an agent is public, so the gateway reads it without a credential of a user.
    if (target.kind === 'agent' && caller.principal === GATEWAY.principal) return target.configured;
    const known = this.keys.get(caller.principal.key)?.key;
    const entry = known && vault.get<LoginSecret>(known);
    if (!entry || entry instanceof Promise || !this.isForTarget(entry) || !this.isUsable(entry))
      return this.find(caller);
    return this.credentialOf(caller, entry);
  }

  private isUsable({ state, expiresAt }: Entry): boolean {
    return state === 'active' && (expiresAt === undefined || expiresAt - MARGIN > this.options.vault.now);
  }

  /**
   * Whether the entry is for the origin of the current URL. The URL of an upstream can change, but users gave their
   * tokens only to the origin at which they signed in.
   */
  private isForTarget({ secret, resource }: Entry): boolean {
    const url = secret.url ?? resource;
    return url === this.options.target.url || (URL.canParse(url) && new URL(url).origin === this.origin);
  }

  private async find(caller: Caller): Promise<Credential> {
    const found = await this.entryOf(caller);
    const entry = !found || this.isUsable(found) ? found : await this.renewed(caller, found, () => false);
    // Check the origin after a renewal too, because another replica may have replaced the entry in the meantime.
    if (!entry || !this.isForTarget(entry)) throw this.options.required(caller, undefined, undefined);
    return this.credentialOf(caller, entry);
  }

  /**
   * The newest entry of the caller for this upstream, from any issuer. Undefined if this entry is for another origin.
   */
  private async entryOf({ principal }: Caller): Promise<Entry | undefined> {
    const { vault, upstream } = this.options;
    const owner = principal.key;
    if (principal === GATEWAY.principal) return undefined;
    const known = this.keys.get(owner);
    if (known?.key) {
      const entry = await vault.get<LoginSecret>(known.key);
      if (entry && this.isForTarget(entry)) return entry;
    } else if (known && performance.now() - known.at < ABSENT_MS) return undefined;
    const rows = await vault.list({ caller: owner, upstream });
    const [row] = rows.sort((a, b) => b.updatedAt - a.updatedAt);
    const newest = row && (await vault.read<LoginSecret>(row));
    const entry = newest && this.isForTarget(newest) ? newest : undefined;
    this.keys.set(owner, { key: entry && row, at: performance.now() });
    return entry;
  }

  /** The caller signed in or out in this process, so an entry that was read before is no longer used. */
  forget(owner: string): void {
    this.keys.set(owner, { key: undefined, at: Number.NEGATIVE_INFINITY });
  }

  private credentialOf(caller: Caller, entry: Entry): Credential {
    let credential = this.credentials.get(entry);
    if (!credential) {
      const { target } = this.options;
      const { secret } = entry;
      const others = withoutAuthorization(target.configured.headers);
      credential = {
        key: `login:${digest(entry.id, secret.login)}`,
        headers: [...others, 'Authorization', `Bearer ${secret.accessToken}`],
        refused: (refusal) => this.refused(caller, entry, refusal),
      };
      this.credentials.set(entry, credential);
    }
    return credential;
  }

  private async refused(caller: Caller, entry: Entry, refusal: CredentialRefusal): Promise<boolean> {
    const challenge: Challenge = { status: refusal.status, header: refusal.challenge };
    const { error, scope } = await readChallenge(challenge);
    if (refusal.status === 403) {
      if (error !== 'insufficient_scope') return false;
      throw this.stepUp(caller, entry, scope);
    }
    const { vault, log, upstream } = this.options;
    const { accessToken } = entry.secret;
    const newest = await vault.read<LoginSecret>(entry);
    // Another call was refused at the same time, and has already renewed the token.
    if (newest && newest.secret.accessToken !== accessToken && this.isUsable(newest)) return true;
    const plan = await this.options.plan(challenge).catch((problem: Error) => {
      log.warn({ upstream, why: problem.message }, 'cannot find the authorization server of an upstream again');
      return undefined;
    });
    if (plan && plan.issuer !== entry.issuer) {
      // S15: the token and the client of the old issuer are never sent to the new issuer.
      const reason = 'the server has moved to another authorization server';
      await vault.update(entry, entry.secret, { state: 'needs_reauth', reason });
      throw this.options.required(caller, undefined, reason);
    }
    await this.renewed(caller, entry, (now) => now.secret.accessToken === accessToken);
    return true;
  }

  /** 403 `insufficient_scope`: the user signs in again with more scopes, unless the user did this a short time ago. */
  private stepUp(caller: Caller, entry: Entry, scope: string | undefined): ProtocolError {
    const { target, vault } = this.options;
    const { requested } = entry.secret;
    if (scope === undefined || (covers(requested, scope) && vault.now - entry.updatedAt < STEP_UP_PAUSE))
      return new ProtocolError(
        'upstream_unauthorized',
        `${subject(target)} refused the call: your account lacks a permission, and a new sign-in did not add it`,
        { outcome: 'not_executed', data: { [target.kind]: target.name, ...(scope !== undefined && { scope }) } },
      );
    return this.options.required(caller, union(requested, scope), 'the call needs more permissions');
  }

  /** `refused` says whether the upstream refused the token of an entry. */
  private async renewed(caller: Caller, entry: Entry, refused: (entry: Entry) => boolean): Promise<Entry> {
    const { refresh, vault, target } = this.options;
    const job: RefreshJob<LoginSecret> = {
      key: entry,
      creates: false,
      due: (now) => now !== undefined && (refused(now) || !this.isUsable(now)),
      usable: (now) =>
        !refused(now) && now.state === 'active' && (now.expiresAt ?? Number.POSITIVE_INFINITY) > vault.now,
      run: (now) => this.run(now ?? entry),
    };
    try {
      return await refresh.refresh(job);
    } catch (error) {
      if (!(error instanceof RefreshFailed)) throw error;
      if (error.state === 'needs_reauth') throw this.options.required(caller, entry.secret.requested, error.reason);
      throw new ProtocolError(
        'upstream_unauthorized',
        `${subject(target)} was not called: your sign-in could not be renewed (${error.reason}); try again later`,
        { outcome: 'not_executed', data: { [target.kind]: target.name } },
      );
    }
  }

  private async run({ secret }: Entry): Promise<Renewed<LoginSecret>> {
    const { fetch, vault } = this.options;
    if (secret.refreshToken === undefined)
      throw new RefreshFailed('needs_reauth', 'the sign-in has ended, and there is no refresh token');
    try {
      const { expiresAt, ...granted } = await renew(secret, secret.refreshToken, fetch, () => vault.now);
      return { secret: { ...secret, ...granted }, expiresAt };
    } catch (error) {
      if (!(error instanceof TokenError)) throw error;
      throw error.isFinal
        ? new RefreshFailed('needs_reauth', `the authorization server ended the sign-in (${error.code})`)
        : new RefreshFailed('failed', error.message);
    }
  }
}

const subject = ({ kind, name }: CredentialTarget): string => `${kind === 'server' ? 'Server' : 'Agent'} "${name}"`;

const digest = (...parts: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22);

function withoutAuthorization(headers: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2)
    if (headers[i]!.toLowerCase() !== 'authorization') kept.push(headers[i]!, headers[i + 1]!);
  return kept;
}
