/** Composes the built-in authorization server: its storage, keys, pages and routes, and the check of its tokens. */
import type { Config } from '../config/schema.js';
import { type AuditTrail, OPERATOR } from '../core/audit-trail.js';
import { principalOf } from '../core/caller.js';
import type { Seal } from '../core/seal.js';
import type { AuditedRefusals } from '../identity/audited-refusals.js';
import type { Authenticator } from '../identity/authenticator.js';
import { JwtAuthenticator } from '../identity/jwt-authenticator.js';
import { localKeys } from '../identity/key-sets.js';
import { LoginLimits, RequestLimits } from '../identity/oauth-server/login-limits.js';
import { OpenIdLogin, type SendHttp } from '../identity/oauth-server/openid-login.js';
import { PATHS } from '../identity/oauth-server/paths.js';
import { RevocationList } from '../identity/oauth-server/revocation-list.js';
import { Revocations } from '../identity/oauth-server/revoke-tokens.js';
import { ALGORITHM, type SigningKeyRecord, SigningKeys } from '../identity/oauth-server/signing-keys.js';
import { Users } from '../identity/oauth-server/users.js';
import type { ProtectedResources } from '../identity/protected-resource.js';
import type { ScopeRules } from '../identity/scopes.js';
import type { Route } from '../inbound/http/route.js';
import type { BrowserIdentity } from '../inbound/upstream-login/connect-endpoint.js';
import { Egress } from '../outbound/egress.js';
import { bufferedRequest, HttpClient, proxyRule } from '../outbound/http/index.js';
import { type OAuthUser, type Registry, type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { ClientDocuments } from './client-id-documents.js';
import { forgetCaller } from './forget-caller.js';
import { SIGNING_KEY } from './reseal-stored.js';

/** The issuer in the principal keys of users. A change of the gateway's URL does not change these keys. */
const OWN_USERS = 'users';
/** The scope of every token for the gateway's endpoints. */
export const GATEWAY_SCOPE = 'mcp';

const DAY = 24 * 3_600_000;
const KEY_LIFE = 3_650 * DAY;
const UPSTREAM_EXCHANGE = { time: 10_000, size: 1024 * 1024 };

export interface BuiltinServer {
  readonly issuer: string;
  /** Accepts the access tokens of the server for the endpoints of the gateway. */
  authenticator(resources: ProtectedResources, scopes: ScopeRules): Authenticator;
  routes(): Route[];
  /** Identifies browsers by their sessions at the server. */
  readonly browser: BrowserIdentity;
  close(): Promise<void>;
}

export interface OAuthServerSettings {
  readonly config: Config;
  readonly state: State;
  readonly seal: Seal;
  readonly audit: AuditTrail;
  /** Receives failed sign-ins. */
  readonly refusals: AuditedRefusals;
  readonly log: Log;
}

/** The key of the principal that the tokens of a user establish. */
export const callerKey = ({ id, tenant }: OAuthUser): string =>
  principalOf({ issuer: OWN_USERS, subject: id, tenant }).key;

/** The issuer of the built-in server; undefined if it is not enabled. */
export function builtinIssuer({ auth, publicUrl, listen, tls }: Config): string | undefined {
  if (!auth.builtin.enabled) return undefined;
  if (publicUrl !== undefined) return new URL(publicUrl).href.replace(/\/+$/, '');
  const host = listen.host.includes(':') ? `[${listen.host}]` : listen.host;
  return `${tls.cert === undefined ? 'http' : 'https'}://${host}:${listen.port}`;
}

/** Loads and starts the server if it is enabled. oidc-provider is loaded here and nowhere else. */
export async function startOAuthServer(options: OAuthServerSettings): Promise<BuiltinServer | undefined> {
  const { config, state, seal, audit, refusals, log } = options;
  const issuer = builtinIssuer(config);
  if (issuer === undefined) return undefined;
  const { builtin } = config.auth;
  const [{ OAuthServer }, { InteractionPages }, { OAuthRoutes }, { errorPage }, { SessionIdentity }] =
    await Promise.all([
      import('../identity/oauth-server/oauth-server.js'),
      import('../inbound/oauth/login-and-consent.js'),
      import('../inbound/oauth/routes.js'),
      import('../inbound/oauth/html-pages.js'),
      import('../inbound/upstream-login/browser-identity.js'),
    ]);
  const { oauthRecords: records, oauthRevocations: revocations, oauthUsers } = state;
  const keys = signingKeys(state, seal);
  const list = new RevocationList(revocations, log);
  const egress = new Egress(config.egress);
  const guarded = new HttpClient({
    connectTimeout: config.timeouts.connect,
    egress,
    proxy: proxyRule(config.egress.proxy ?? 'none'),
  });
  const documents = new ClientDocuments(guarded, egress);
  const trusted = new HttpClient({ connectTimeout: config.timeouts.connect, proxy: proxyRule(undefined) });
  const base = new URL(issuer).pathname.replace(/\/$/, '');
  const user = (id: string) => oauthUsers.get(id);
  const server = new OAuthServer({
    settings: {
      issuer,
      accessTokenLife: builtin.accessTokenLife,
      refreshTokenLife: builtin.refreshTokenLife,
      sessionLife: builtin.sessionLife,
      registration: builtin.registration,
      clientMetadata: builtin.clientMetadata,
      // Every token has the first scope. A client asks for another scope when a call needs it (step-up).
      scopes: [...new Set([GATEWAY_SCOPE, ...config.auth.scopes.map(({ scope }) => scope)])],
    },
    keys,
    records,
    revocations: new Revocations(revocations, state.bus, wallMs),
    list,
    seal,
    user,
    isOurs: (resource) => isOurs(issuer, resource),
    fetchClient: (url) => documents.fetch(url),
    errorPage: ({ error, description }) =>
      errorPage(base + PATHS.style, 'The sign-in failed', `${description ?? 'The request cannot be used.'} (${error})`),
    failed: (error) => log.error({ err: error }, 'the authorization server failed'),
    reused: ({ account, client }) => {
      const record = (known: OAuthUser | undefined): void =>
        audit.record({
          kind: 'event',
          event: 'token.reused',
          subject: client,
          ...(known && { caller: callerKey(known) }),
        });
      const found = account === undefined ? Promise.resolve(undefined) : user(account);
      void found.then(record, () => record(undefined));
    },
    now: wallMs,
  });
  // The signing key exists before the first client asks for it.
  await Promise.all([keys.current(), list.refresh()]);
  const upstream = openIdLogin({ config, issuer, state, seal, trusted });
  const users = new Users({
    ...{ users: oauthUsers, records, revocations, audit, by: OPERATOR },
    forget: (user) => forgetCaller({ state, audit, by: OPERATOR }, callerKey(user)),
  });
  const cookies = { secure: issuer.startsWith('https:') };
  const pages = new InteractionPages({
    ...{
      server,
      users,
      user,
      callerKey,
      passwords: builtin.passwords,
      upstream,
      seal,
      cookies,
      base,
      audit,
      refusals,
      log,
    },
    limits: new LoginLimits(state.bus),
  });
  const routes = new OAuthRoutes({
    ...{ server, pages, cookies, audit, user, callerKey, registration: builtin.registration },
    limits: new RequestLimits(state.bus),
  });
  const authenticator = (resources: ProtectedResources, scopes: ScopeRules): Authenticator =>
    new JwtAuthenticator({
      issuer,
      accepts: (audience, request) => resources.covers(audience, request),
      algorithms: [ALGORITHM],
      keys: localKeys(async () => (await keys.current()).public),
      claims: { subject: 'sub', roles: 'roles', tenant: 'tenant', tenantOptional: true },
      requiredScopes: [GATEWAY_SCOPE],
      scopes,
      principalIssuer: OWN_USERS,
      revoked: (claims) =>
        list.covers({
          jti: String(claims['jti']),
          grant: String(claims['gid']),
          user: String(claims['sub']),
          issuedAt: Number(claims['iat']) * 1_000,
        }),
    });
  return {
    issuer,
    authenticator,
    routes: () => routes.routes(),
    browser: new SessionIdentity({ server, issuer: OWN_USERS, seal }),
    close: async () => {
      list.close();
      await Promise.all([guarded.close(), trusted.close()]);
    },
  };
}

/** The signing keys, the same for all replicas: stored sealed in the shared database. */
export function signingKeys(state: State, seal: Seal): SigningKeys {
  const registry = state.registry as Registry<SigningKeyRecord>;
  return new SigningKeys({
    store: {
      load: async () => {
        const entry = await registry.get('key', 'oauth');
        return entry && { record: entry.value, rev: entry.rev };
      },
      save: async (record, rev) => (await registry.put('key', 'oauth', record, rev)) !== undefined,
    },
    close: (value) => seal.close(...SIGNING_KEY, value, KEY_LIFE),
    open: (sealed) => seal.open(...SIGNING_KEY, sealed),
    keep: 2 * DAY,
    now: wallMs,
  });
}

/** RFC 8707: the gateway itself, or a URL below it. */
function isOurs(issuer: string, resource: string): boolean {
  if (resource.length > 512 || !URL.canParse(resource)) return false;
  const { href, search, hash, username, password } = new URL(resource);
  if (search !== '' || hash !== '' || username !== '' || password !== '' || href.includes('%')) return false;
  return basesOf(issuer).some((own) => href === own || href === `${own}/` || href.startsWith(`${own}/`));
}

/** A client on this machine may use another name of the gateway, such as `localhost` for `127.0.0.1`. */
function basesOf(issuer: string): string[] {
  const url = new URL(issuer);
  const names = ['127.0.0.1', 'localhost', '[::1]'];
  const same = names.includes(url.hostname) ? names : [url.hostname];
  return same.map((name) => Object.assign(new URL(issuer), { hostname: name }).href.replace(/\/$/, ''));
}

interface OpenIdLoginSources {
  readonly config: Config;
  readonly issuer: string;
  readonly state: State;
  readonly seal: Seal;
  readonly trusted: HttpClient;
}

function openIdLogin({ config, issuer, state, seal, trusted }: OpenIdLoginSources): OpenIdLogin | undefined {
  const { login } = config.auth.builtin;
  if (login.issuer === undefined || login.clientId === undefined) return undefined;
  const send: SendHttp = ({ url, headers, body }) =>
    bufferedRequest(
      trusted,
      url,
      { method: body === undefined ? 'GET' : 'POST', headers, ...(body !== undefined && { body: Buffer.from(body) }) },
      UPSTREAM_EXCHANGE,
    );
  return new OpenIdLogin({
    settings: {
      ...login,
      issuer: login.issuer,
      clientId: login.clientId,
      clientSecret: login.clientSecret,
      tenantClaim: login.tenantClaim,
      name: login.name ?? new URL(login.issuer).host,
    },
    redirectUri: issuer + PATHS.callback,
    records: state.oauthRecords,
    users: state.oauthUsers,
    seal,
    send,
    now: wallMs,
  });
}
