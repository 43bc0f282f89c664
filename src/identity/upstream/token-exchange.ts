/**
 * OAuth token exchange (RFC 8693): a token of the upstream for each caller, in exchange for the caller's own. The
 * caller's token goes to the configured token endpoint only, never to the upstream (S12). Exchanged tokens are kept in
 * memory only. They live briefly, and a lost token costs one more request to the token endpoint.
 */
import { createHash } from 'node:crypto';
import { BoundedCache } from '../../core/bounded-cache.js';
import { type Caller, GATEWAY } from '../../core/caller.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { CallerRequests } from '../caller-request.js';
import type { Credential, CredentialSource, CredentialTarget, TokenExchangeSettings } from '../upstream-credentials.js';
import { resourceOf, withoutToken } from './client-credentials.js';
import type { OAuthHttp } from './oauth-http.js';
import { TokenEndpoint, TokenRefused } from './token-endpoint.js';

export interface TokenExchangeOptions {
  readonly http: OAuthHttp;
  readonly requests: CallerRequests;
  /** The credential of the gateway's own requests, for which there is no caller; undefined if it has none. */
  readonly own: CredentialSource | undefined;
}

interface Exchanged {
  readonly credential: Credential;
  /** Milliseconds on the monotonic clock. */
  readonly usableUntil: number;
}
interface Failed {
  readonly error: ProtocolError;
  readonly until: number;
}

const MOST_KEPT = 5_000;
/** Time before the end of a token at which a new one is obtained. */
const AHEAD_MS = 30_000;
const UNSAID_LIFE = 300_000;
/** A refused exchange is not repeated for this long. */
const FAILED_MS = 5_000;
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

export class TokenExchange implements CredentialSource {
  /** If the gateway has no credential of its own, lists are read with the token of each caller. */
  readonly personal: boolean;
  private readonly endpoint: TokenEndpoint;
  /** Keyed by the hash of the caller's token, because another token of the same caller may have fewer rights. */
  private readonly kept = new BoundedCache<string, Exchanged | Failed | undefined>(MOST_KEPT);
  private readonly running = new Map<string, Promise<Credential>>();

  constructor(
    private readonly target: CredentialTarget,
    private readonly settings: TokenExchangeSettings,
    private readonly options: TokenExchangeOptions,
  ) {
    this.endpoint = new TokenEndpoint(options.http, settings);
    options.requests.wantTokens();
    this.personal = options.own === undefined;
  }

  for(caller: Caller): Credential | Promise<Credential> {
    if (caller.principal === GATEWAY.principal) return this.options.own?.for(caller) ?? this.target.configured;
    const token = this.options.requests.tokenOf(caller.principal);
    if (token === undefined) throw this.tokenless();
    const id = createHash('sha256').update(`${caller.principal.key}\0${token}`).digest('base64url');
    const known = this.kept.get(id);
    if (known && 'credential' in known && performance.now() < known.usableUntil) return known.credential;
    if (known && 'error' in known && performance.now() < known.until) throw known.error;
    let running = this.running.get(id);
    if (!running) {
      running = this.exchange(caller.principal.key, id, token).finally(() => this.running.delete(id));
      this.running.set(id, running);
    }
    return running;
  }

  private async exchange(principal: string, id: string, token: string): Promise<Credential> {
    const { scope, audience, subjectTokenType = ACCESS_TOKEN, requestedTokenType } = this.settings;
    try {
      const { accessToken, lifetime = UNSAID_LIFE } = await this.endpoint.request({
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        subject_token: token,
        subject_token_type: subjectTokenType,
        requested_token_type: requestedTokenType,
        scope,
        audience,
        resource: resourceOf(this.settings, this.target),
      });
      // S12: an issuer that returns the caller's token would make the gateway pass it through.
      if (accessToken === token) throw new TokenRefused("the issuer returned the caller's own token", undefined, false);
      const credential: Credential = {
        key: `exchange ${principal}`,
        headers: [...this.target.configured.headers, 'Authorization', `Bearer ${accessToken}`],
        refused: ({ status }) => {
          const known = this.kept.get(id);
          if (status !== 401) return false;
          // Only the token that was refused is dropped: another call may have replaced it already.
          if (known && 'credential' in known && known.credential === credential) this.kept.set(id, undefined);
          return true;
        },
      };
      const life = Math.max(1_000, lifetime - Math.min(AHEAD_MS, lifetime / 5));
      this.kept.set(id, { credential, usableUntil: performance.now() + life });
      return credential;
    } catch (error) {
      const failure = withoutToken(this.target, error, 0);
      this.kept.set(id, { error: failure, until: performance.now() + FAILED_MS });
      throw failure;
    }
  }

  private tokenless(): ProtocolError {
    const { kind, name } = this.target;
    return new ProtocolError(
      'upstream_unauthorized',
      `${kind === 'server' ? 'Server' : 'Agent'} "${name}" was not called: it needs a token of your identity provider, ` +
        'and this request has none that can be exchanged; sign in with OAuth instead of an API key',
      { outcome: 'not_executed', data: { [kind]: name } },
    );
  }
}
