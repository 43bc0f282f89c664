/** Composes the configured authenticators, their challenges and the limits of credentials. */
import { isLoopback } from '../config/address-fields.js';
import { RESERVED_AGENTS } from '../config/cross-key-rules.js';
import type { Config } from '../config/schema.js';
import type { Admission } from '../core/admission.js';
import { ApiKeyAuthenticator } from '../identity/api-key-authenticator.js';
import { type AuthenticationRequest, type Authenticator, anyOf, OPEN } from '../identity/authenticator.js';
import { BearerChallenges, bearerChallenge } from '../identity/bearer-challenge.js';
import { issuerKeys, issuerMetadata } from '../identity/caller-token-issuer.js';
import { CertificateAuthenticator } from '../identity/certificate-authenticator.js';
import { FailedAttempts, LimitedAuthenticator, tooManyFailures } from '../identity/failed-attempts.js';
import { JwtAuthenticator } from '../identity/jwt-authenticator.js';
import { RemoteKeys } from '../identity/key-sets.js';
import { ProtectedResources } from '../identity/protected-resource.js';
import { RestrictionAdmission } from '../identity/restrictions.js';
import { RoleMapping } from '../identity/role-mapping.js';
import { ScopeAdmission, scopeRules } from '../identity/scope-admission.js';
import { TokenAuthenticator } from '../identity/token-authenticator.js';
import type { Route } from '../inbound/http/route.js';
import { fetchJson, HttpClient, proxyRule } from '../outbound/http/index.js';
import { ProtocolError } from '../protocol/errors.js';
import { type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { type BuiltinServer, GATEWAY_SCOPE } from './oauth-server.js';

export interface AuthenticationOptions {
  readonly config: Config;
  readonly state: State;
  readonly log: Log;
  /** The built-in authorization server, if it is enabled. */
  readonly builtin?: BuiltinServer | undefined;
}

type Issuer = Config['auth']['jwt'][number];

/** How long the metadata of an issuer is served without asking the issuer again, in milliseconds. */
const METADATA_AGE = 10 * 60_000;

export class Authentication {
  /** Authenticates callers that connect over the network. */
  readonly authenticator: Authenticator;
  /** Examines credentials again without counting failures; undefined if they never become invalid. */
  readonly recheck: Authenticator | undefined;
  /** The endpoints as resources of OAuth. */
  readonly resources: ProtectedResources;
  /** Limits callers to the servers, tools and scopes of their credentials. */
  readonly admissions: readonly Admission[];
  readonly attempts: FailedAttempts;
  /** The URL of the HTTP endpoints, once they are open. */
  private listener: string | undefined;
  private client: HttpClient | undefined;
  private published: { readonly at: number; readonly document: Promise<object> } | undefined;

  constructor(private readonly options: AuthenticationOptions) {
    const { builtin } = options;
    const { auth } = options.config;
    this.attempts = new FailedAttempts(auth.failures);
    this.resources = new ProtectedResources({
      bases: () => this.bases(),
      authorizationServers: [...(builtin ? [builtin.issuer] : []), ...auth.jwt.map(({ issuer }) => issuer)],
      // Scopes of different issuers cannot be demanded together.
      requiredScopes: builtin ? [GATEWAY_SCOPE] : (auth.jwt[0]?.requiredScopes ?? []),
      supportedScopes: [
        ...auth.jwt.flatMap(({ requiredScopes }) => requiredScopes),
        ...auth.scopes.map((rule) => rule.scope),
      ],
      reservedAgents: RESERVED_AGENTS,
    });
    const known = this.all();
    this.recheck = auth.keys || auth.jwt.length > 0 || builtin ? anyOf(known) : undefined;
    this.authenticator = this.composed(known);
    this.admissions = [
      ...(auth.keys ? [new RestrictionAdmission()] : []),
      ...(auth.scopes.length > 0 ? [new ScopeAdmission(auth.scopes, (scopes) => this.stepUp(scopes))] : []),
    ];
  }

  /** The configured authenticators, in the order in which they are tried. */
  private all(): Authenticator[] {
    const { config, state, log, builtin } = this.options;
    const { tokens, keys, jwt, certificates } = config.auth;
    return [
      ...(tokens.length > 0 ? [new TokenAuthenticator(tokens)] : []),
      ...(keys ? [new ApiKeyAuthenticator({ records: state.apiKeys, keyring: state.keyring, log, now: wallMs })] : []),
      ...(builtin ? [builtin.authenticator(this.resources, scopeRules(config.auth.scopes))] : []),
      ...jwt.map((issuer) => this.tokensOf(issuer)),
      ...(certificates.subject === undefined ? [] : [new CertificateAuthenticator(certificates.subject)]),
    ];
  }

  /**
   * Adds the challenges, the mapped roles and the limits on failed attempts. Without authenticators, the gateway serves
   * every caller.
   */
  private composed(authenticators: readonly Authenticator[]): Authenticator {
    if (authenticators.length === 0) return OPEN;
    const { roles } = this.options.config.auth;
    const known = anyOf(authenticators);
    const mapped = roles.length > 0 ? new RoleMapping(known, roles) : known;
    return new BearerChallenges(new LimitedAuthenticator(mapped, this.attempts), this.resources);
  }

  private tokensOf({ issuer, jwks, audience, algorithms, claims, requiredScopes }: Issuer): Authenticator {
    const { config, log } = this.options;
    const keys = new RemoteKeys({
      fetch: () => issuerKeys(issuer, jwks, (url) => this.fetch(url)),
      failed: (err) => log.warn({ err, issuer }, 'the keys of a token issuer cannot be fetched'),
    });
    return new JwtAuthenticator({
      issuer,
      accepts: (given, request) => audience.includes(given) || this.resources.covers(given, request),
      algorithms,
      keys: keys.resolve,
      claims,
      requiredScopes,
      scopes: scopeRules(config.auth.scopes),
    });
  }

  /** The client for the URLs of configured issuers, which may be private. */
  private fetch(url: string): Promise<unknown> {
    const { connect } = this.options.config.timeouts;
    this.client ??= new HttpClient({ connectTimeout: connect, proxy: proxyRule(undefined) });
    return fetchJson(this.client, url);
  }

  /** The metadata of the issuer. Clients of the first revision with OAuth look for this document at the gateway. */
  get authorizationServer(): (() => Promise<object>) | undefined {
    const issuer = this.options.config.auth.jwt[0]?.issuer;
    // The built-in authorization server serves this path itself.
    if (issuer === undefined || this.options.builtin) return undefined;
    return () => {
      const now = performance.now();
      if (!this.published || now - this.published.at > METADATA_AGE) {
        const document = issuerMetadata(issuer, (url) => this.fetch(url));
        this.published = { at: now, document };
        document.catch(() => {
          this.published = undefined;
        });
      }
      return this.published.document;
    };
  }

  /**
   * The error for a request that needs a credential and has none. Undefined if every request needs a credential (C-14).
   */
  get anonymous(): ((request: AuthenticationRequest) => ProtocolError) | undefined {
    if (!this.options.config.auth.publicDiscovery || !this.authenticator.enabled) return undefined;
    return (request) => {
      const given = request.header('authorization') !== undefined;
      const wait = given ? this.attempts.blockedFor(request.peer, undefined) : 0;
      if (wait > 0) return tooManyFailures(wait);
      const error = given ? 'invalid_token' : undefined;
      const challenge = bearerChallenge(this.resources, request, { error, scopes: this.resources.requiredScopes });
      return new ProtocolError('unauthorized', 'Unauthorized: Invalid or missing API key', {
        headers: { 'WWW-Authenticate': challenge },
      });
    };
  }

  /** The routes of the built-in authorization server. */
  loginRoutes(): Route[] {
    return this.options.builtin?.routes() ?? [];
  }

  private stepUp(scopes: readonly string[]): string {
    const all = [...new Set([...this.resources.requiredScopes, ...scopes])];
    return bearerChallenge(this.resources, undefined, { error: 'insufficient_scope', scopes: all });
  }

  /** Called when the endpoints are open. */
  opened(listener: string): void {
    this.listener = listener;
  }

  /** The URLs by which clients reach the gateway. They contain only host names that the check of `Host` accepts. */
  private bases(): readonly string[] {
    const { publicUrl } = this.options.config;
    if (publicUrl !== undefined) return [publicUrl.replace(/\/+$/, '')];
    if (this.listener === undefined) return [];
    const { protocol, hostname, port } = new URL(this.listener);
    if (!isLoopback(hostname.replace(/^\[|\]$/g, ''))) return [this.listener];
    const local = ['127.0.0.1', 'localhost', '[::1]'].map(
      (host) => `${protocol}//${host}${port === '' ? '' : `:${port}`}`,
    );
    return [this.listener, ...local.filter((url) => url !== this.listener)];
  }

  async close(): Promise<void> {
    await Promise.all([this.client?.close(), this.options.builtin?.close()]);
  }
}
