/** OAuth client credentials: one token of the gateway for all callers, kept in the vault and renewed ahead of time. */
import { createHash } from 'node:crypto';
import type { Caller } from '../../core/caller.js';
import { ProtocolError } from '../../protocol/errors.js';
import type {
  Credential,
  CredentialRefusal,
  CredentialSource,
  CredentialTarget,
  OAuthClientSettings,
} from '../upstream-credentials.js';
import {
  RefreshFailed,
  type RefreshJob,
  type Renewed,
  type SingleFlightRefresh,
} from '../vault/single-flight-refresh.js';
import { GATEWAY_OWNER, type Tokens, type Vault, type VaultEntry, type VaultKey } from '../vault/vault.js';
import type { OAuthHttp } from './oauth-http.js';
import { TokenEndpoint, TokenRefused } from './token-endpoint.js';

/** A token with the time at which the issuer gave it. */
interface GatewayToken extends Tokens {
  readonly issuedAt: number;
}
type Entry = VaultEntry<GatewayToken>;

export interface ClientCredentialsOptions {
  readonly vault: Vault;
  readonly refresh: SingleFlightRefresh;
  readonly http: OAuthHttp;
}

/**
 * A token is renewed this long before its end. A token with a short life is renewed when a fifth of its life is left.
 */
const AHEAD_MS = 60_000;
const AHEAD_SHARE = 0.2;
/**
 * If the upstream refuses a token that is younger than this, the token is not renewed: the upstream would refuse a new
 * token too.
 */
const YOUNG_MS = 10_000;
/** An expired token of settings that are no longer in use is removed after this time. */
const KEEP_MS = 24 * 3_600_000;

export class ClientCredentials implements CredentialSource {
  private readonly key: VaultKey;
  private readonly endpoint: TokenEndpoint;
  private made: { readonly token: string; readonly credential: Credential } | undefined;
  /**
   * A factor for the time of renewal. It differs between processes, so that replicas do not all renew at the same
   * moment.
   */
  private readonly jitter = 0.5 + Math.random();

  constructor(
    private readonly target: CredentialTarget,
    private readonly settings: OAuthClientSettings,
    private readonly options: ClientCredentialsOptions,
  ) {
    this.endpoint = new TokenEndpoint(options.http, settings);
    const { issuer, tokenUrl = '', clientId, scope, audience } = settings;
    this.key = {
      caller: GATEWAY_OWNER,
      issuer: issuer ?? tokenUrl,
      resource: resourceOf(settings, target) ?? '',
      upstream: `${target.kind}:${target.name}`,
      variant: createHash('sha256')
        .update(JSON.stringify([tokenUrl, clientId, scope, audience]))
        .digest('hex')
        .slice(0, 16),
    };
  }

  for(_: Caller): Credential | Promise<Credential> {
    const found = this.options.vault.get<GatewayToken>(this.key);
    return found instanceof Promise ? found.then((entry) => this.use(entry)) : this.use(found);
  }

  private use(entry: Entry | undefined): Credential | Promise<Credential> {
    if (entry?.state !== 'active') return this.renewed(this.job((now) => now?.state !== 'active'));
    if (this.isDue(entry)) {
      // The token is still valid: the call does not wait for its renewal.
      this.options.refresh.refresh(this.job((now) => now === undefined || this.isDue(now))).catch(() => {});
    }
    return this.credential(entry);
  }

  private isDue({ state, expiresAt, secret, retryAt }: Entry): boolean {
    if (state !== 'active') return true;
    const { now } = this.options.vault;
    if (expiresAt === undefined || (retryAt !== undefined && retryAt > now)) return false;
    const ahead = Math.min(AHEAD_MS, AHEAD_SHARE * (expiresAt - secret.issuedAt));
    return now >= expiresAt - ahead * this.jitter;
  }

  private job(due: RefreshJob<GatewayToken>['due']): RefreshJob<GatewayToken> {
    return {
      key: this.key,
      due,
      usable: ({ state }) => state === 'active',
      run: () => this.obtain(),
      creates: true,
    };
  }

  private async obtain(): Promise<Renewed<GatewayToken>> {
    const issuedAt = this.options.vault.now;
    const { scope, audience } = this.settings;
    try {
      const { accessToken, lifetime, ...token } = await this.endpoint.request({
        grant_type: 'client_credentials',
        scope,
        audience,
        resource: resourceOf(this.settings, this.target),
      });
      const expiresAt = lifetime === undefined ? undefined : Math.floor(issuedAt + lifetime);
      const secret = { accessToken, scope: token.scope, issuedAt };
      return { secret, expiresAt, ...(expiresAt !== undefined && { purgeAt: expiresAt + KEEP_MS }) };
    } catch (error) {
      throw error instanceof TokenRefused ? new RefreshFailed('failed', error.message) : error;
    }
  }

  private async renewed(job: RefreshJob<GatewayToken>): Promise<Credential> {
    try {
      return this.credential(await this.options.refresh.refresh(job));
    } catch (error) {
      throw withoutToken(this.target, error, this.options.vault.now);
    }
  }

  /**
   * Returns the same object for the same token, so that adapters can reuse the headers that they made for this object.
   */
  private credential({ secret, id }: Entry): Credential {
    if (this.made?.token === secret.accessToken) return this.made.credential;
    const credential: Credential = {
      // All callers share the account of the gateway, so they share its sessions too.
      key: `vault ${id}`,
      headers: [...this.target.configured.headers, 'Authorization', `Bearer ${secret.accessToken}`],
      refused: (refusal) => this.refused(secret.accessToken, refusal),
    };
    this.made = { token: secret.accessToken, credential };
    return credential;
  }

  private async refused(token: string, { status }: CredentialRefusal): Promise<boolean> {
    // A 403 asks for more scope, and the gateway may ask only for the configured scope.
    if (status !== 401) return false;
    const { vault, refresh } = this.options;
    const now = await vault.read<GatewayToken>(this.key);
    // Another call has renewed the token since then, or the refused token is younger than `YOUNG_MS`.
    if (
      now &&
      now.state === 'active' &&
      (now.secret.accessToken !== token || vault.now - now.secret.issuedAt < YOUNG_MS)
    )
      return true;
    const job = { ...this.job((entry) => entry === undefined || entry.rev === now?.rev), usable: () => false };
    try {
      await refresh.refresh(job);
      return true;
    } catch (error) {
      throw withoutToken(this.target, error, vault.now);
    }
  }
}

/** RFC 8707: the token is for this upstream only. */
export function resourceOf({ resource }: OAuthClientSettings, { url }: CredentialTarget): string | undefined {
  if (resource === 'none') return undefined;
  if (resource !== undefined) return resource;
  const canonical = new URL(url);
  canonical.hash = '';
  canonical.username = '';
  canonical.password = '';
  return canonical.href;
}

/** The error of a call that was not sent, because there is no token for it. */
export function withoutToken(target: CredentialTarget, error: unknown, now: number): ProtocolError {
  const { kind, name } = target;
  const why =
    error instanceof RefreshFailed || error instanceof TokenRefused ? error.message : 'an error in the gateway';
  const retryAt = error instanceof RefreshFailed ? error.retryAt : undefined;
  const seconds = retryAt === undefined ? undefined : Math.max(1, Math.ceil((retryAt - now) / 1000));
  return new ProtocolError(
    'upstream_unauthorized',
    `${kind === 'server' ? 'Server' : 'Agent'} "${name}" was not called: the gateway got no token for it (${why})`,
    {
      outcome: 'not_executed',
      data: { [kind]: name, ...(seconds !== undefined && { retryAfter: String(seconds) }) },
    },
  );
}
