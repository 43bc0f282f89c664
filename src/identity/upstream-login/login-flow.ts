/** Sign-ins of users at upstreams, with the gateway as the OAuth client (authorization code with PKCE). */
import { createHash, randomBytes } from 'node:crypto';
import type { AuditActor, AuditTrail } from '../../core/audit-trail.js';
import type { Caller, Cancellation } from '../../core/caller.js';
import { sleep } from '../../core/timing.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { Log } from '../../telemetry/log.js';
import type { CredentialSource, CredentialTarget } from '../upstream-credentials.js';
import type { SingleFlightRefresh } from '../vault/single-flight-refresh.js';
import type { Vault } from '../vault/vault.js';
import { type ClientStore, clientAt, forgetClient, type RegistrationOptions } from './client-registration.js';
import { type ConnectLinks, LINK_TTL, type LinkContent } from './connect-links.js';
import { type Challenge, discover, type LoginPlan } from './discovery.js';
import { LoginError } from './login-error.js';
import { asksForLogin, type LoginSettings } from './login-settings.js';
import { LoginSource } from './login-source.js';
import { exchangeCode, type LoginSecret, TokenError, type TokenServer, tokenServerOf } from './login-tokens.js';
import { type ClientInformation, type Fetch, oauthLibrary } from './oauth-library.js';
import { scopeOf } from './scopes.js';
import { securedUrl } from './secure-url.js';

/** An upstream at which users sign in. */
export interface LoginUpstream {
  /** `server:name` or `agent:name`. */
  readonly id: string;
  readonly target: CredentialTarget;
  readonly settings: LoginSettings;
  readonly fetch: Fetch;
  readonly source: LoginSource;
  plan?: { readonly found: Promise<LoginPlan>; readonly at: number };
}

/** A sign-in that waits for the answer of the authorization server. */
interface PendingLogin {
  readonly owner: string;
  readonly user: string;
  readonly upstream: string;
  readonly url: string;
  readonly verifier: string;
  readonly redirectUri: string;
  readonly at: TokenServer;
  readonly client: ClientInformation;
  readonly scope: string | undefined;
  /** The digest of the browser's cookie (S5). */
  readonly browser: string;
}

export interface PendingStore {
  put(id: string, owner: string, login: object, ttlMs: number): Promise<void>;
  take<T>(id: string): Promise<T | undefined>;
}

export interface LoginsOptions {
  readonly vault: Vault;
  readonly refresh: SingleFlightRefresh;
  readonly pending: PendingStore;
  readonly clients: ClientStore;
  readonly links: ConnectLinks;
  /**
   * `fetch` for an upstream. Requests to its own origin and to its configured issuer are not checked; the egress rules
   * apply to all other URLs.
   */
  fetchFor(target: CredentialTarget, settings: LoginSettings): Fetch;
  /** The URL at which browsers reach the gateway; undefined while it serves no pages. */
  base(): string | undefined;
  /** Receives a record of every sign-in, including failed ones. */
  readonly audit: AuditTrail;
  /** Called when a user signed in or out at an upstream. */
  changed(upstream: string, owner: string): void;
  readonly log: Log;
}

export const CALLBACK_PATH = '/connect/callback';
export const DOCUMENT_PATH = '/connect/client-metadata.json';

/** How long the metadata of an authorization server is used before it is read again. */
const PLAN_TTL = 5 * 60_000;
/** Polling interval for a sign-in that a call waits for. */
const POLL_MS = 300;

export class Logins {
  private readonly upstreams = new Map<string, LoginUpstream>();

  constructor(private readonly options: LoginsOptions) {}

  /** The source for an upstream whose settings ask for sign-ins of users. */
  readonly factory = (target: CredentialTarget): CredentialSource | undefined => {
    const { kind, name, auth } = target;
    const settings = auth?.oauth;
    const id = `${kind}:${name}`;
    if (!asksForLogin(settings)) {
      this.upstreams.delete(id);
      return undefined;
    }
    const { vault, refresh, log } = this.options;
    const fetch = this.options.fetchFor(target, settings);
    const source = new LoginSource({
      target,
      upstream: id,
      vault,
      refresh,
      fetch,
      log,
      required: (caller, scope, reason) => this.required(caller, target, scope, reason),
      plan: (challenge) => this.plan(upstream, challenge),
    });
    const upstream: LoginUpstream = { id, target, settings, fetch, source };
    this.upstreams.set(id, upstream);
    return source;
  };

  get(id: string): LoginUpstream | undefined {
    return this.upstreams.get(id);
  }

  /** Throws the error with the link if the caller has to sign in first. */
  check(caller: Caller, id: string): void | Promise<void> {
    const credential = this.upstreams.get(id)?.source.for(caller);
    if (credential instanceof Promise) return credential.then(() => {});
  }

  /** Waits until the caller is signed in, at most `ms` milliseconds. */
  async arrival(caller: Caller, id: string, ms: number, cancellation: Cancellation): Promise<void> {
    const { source } = this.upstreams.get(id) ?? {};
    for (const end = performance.now() + ms; performance.now() < end && !cancellation.cancelled; ) {
      const found = await Promise.resolve()
        .then(() => source?.for(caller))
        .then(
          () => true,
          () => false,
        );
      if (found) return;
      await sleep(POLL_MS);
    }
  }

  private required(
    caller: Caller,
    { kind, name }: CredentialTarget,
    scope: string | undefined,
    reason: string | undefined,
  ): ProtocolError {
    const base = this.options.base();
    const why = reason === undefined ? '' : ` (${reason})`;
    const what = `${kind === 'server' ? 'Server' : 'Agent'} "${name}" needs you to sign in${why}`;
    const data = { [kind]: name };
    if (base === undefined)
      return new ProtocolError(
        'login_required',
        `${what}; this process serves no pages for it: start "parley serve" with the same data folder, and sign in there`,
        { outcome: 'not_executed', data },
      );
    const { url, code } = this.options.links.make(base, caller.principal, `${kind}:${name}`, scope);
    return new ProtocolError('login_required', what, {
      outcome: 'not_executed',
      data: { ...data, url, ...(code !== undefined && { code }) },
    });
  }

  /**
   * The authorization server of an upstream. Without a known challenge of the upstream, the gateway sends a request to
   * the upstream to get one.
   */
  async plan(upstream: LoginUpstream, challenge?: Challenge): Promise<LoginPlan> {
    const { plan: known } = upstream;
    if (!challenge && known && performance.now() - known.at < PLAN_TTL) return known.found;
    const { settings, fetch, target } = upstream;
    const found = (async () =>
      discover({
        url: target.url,
        settings,
        fetch,
        challenge: challenge ?? (await challengeOf(target.url, fetch)),
        card: await target.loginServer?.(),
      }))();
    const plan = { found, at: performance.now() };
    upstream.plan = plan;
    found.catch(() => {
      if (upstream.plan === plan) delete upstream.plan;
    });
    return found;
  }

  /** Begins a sign-in, after the user agreed. Returns the URL at the authorization server. */
  async begin(upstream: LoginUpstream, link: LinkContent, browser: string): Promise<string> {
    const { settings } = upstream;
    const base = this.options.base();
    if (base === undefined) throw new LoginError('authorization', 'the gateway serves no pages', 'start parley serve');
    const plan = await this.plan(upstream);
    const scope = scopeOf(plan, settings, link.scope);
    const redirectUri = `${base}${CALLBACK_PATH}`;
    const client = await clientAt(this.registration(upstream, plan, redirectUri, scope));
    const { startAuthorization } = await oauthLibrary();
    const state = randomBytes(32).toString('base64url');
    const { authorizationUrl, codeVerifier } = await startAuthorization(plan.server, {
      ...(plan.metadata && { metadata: plan.metadata }),
      clientInformation: client,
      redirectUrl: redirectUri,
      ...(scope !== undefined && { scope }),
      ...(plan.resource !== undefined && { resource: plan.resource as unknown as URL }),
      state,
    });
    securedUrl(authorizationUrl.href, 'the authorization endpoint');
    const pending: PendingLogin = {
      owner: link.owner,
      user: link.user,
      upstream: upstream.id,
      url: upstream.target.url,
      verifier: codeVerifier,
      redirectUri,
      at: tokenServerOf(plan),
      client,
      scope,
      browser: digest(browser),
    };
    await this.options.pending.put(digest(state), link.owner, pending, LINK_TTL);
    return authorizationUrl.href;
  }

  private registration(
    { id, settings, fetch }: LoginUpstream,
    plan: LoginPlan,
    redirectUri: string,
    scope: string | undefined,
  ): RegistrationOptions {
    const { clients } = this.options;
    return { upstream: id, plan, settings, redirectUri, documentUrl: this.documentUrl(), scope, clients, fetch };
  }

  /** The gateway's Client ID Metadata Document: its URL must be https (AUC-08). */
  documentUrl(): string | undefined {
    const base = this.options.base();
    return base?.startsWith('https://') ? `${base}${DOCUMENT_PATH}` : undefined;
  }

  /**
   * Ends a sign-in with the answer of the authorization server. `browser` is the cookie of the browser that brings the
   * answer. The answer cannot be used again, whatever the result is (S5). `address` is the network address of the
   * browser.
   */
  async finish(
    query: Pick<URLSearchParams, 'get'>,
    browser: string | undefined,
    address?: string,
  ): Promise<{ upstream: string; user: string }> {
    const state = query.get('state');
    const pending = state ? await this.options.pending.take<PendingLogin>(digest(state)) : undefined;
    if (!pending) throw unknownLogin();
    const { owner, upstream: id, at } = pending;
    try {
      if (browser === undefined || digest(browser) !== pending.browser) throw otherBrowser();
      // S15: plain comparison, before any other part of the answer is read.
      const iss = query.get('iss') ?? undefined;
      if (iss === undefined ? at.namesIssuer : iss !== at.issuer)
        throw new LoginError(
          'issuer',
          'the answer does not come from the authorization server to which the request was sent',
          'the answer was not used; do not sign in again before an operator has examined the server',
        );
      const upstream = this.upstreams.get(id);
      if (!upstream || upstream.target.url !== pending.url) throw unknownLogin();
      const code = query.get('code');
      if (!code) throw notGranted(query.get('error'));
      const { issuer } = at;
      const record = {
        ...actorAt(owner, address),
        action: 'credential.connect',
        subject: id,
        details: { issuer },
      } as const;
      await this.options.audit.change(record, () => this.store(upstream, pending, code, iss));
      this.options.log.info({ event: 'upstream.login', caller: owner, upstream: id, issuer }, 'upstream.login');
    } catch (error) {
      this.failed(owner, id, error, at.issuer, address);
      throw error;
    }
    return { upstream: id, user: pending.user };
  }

  /** Records that a sign-in failed (S9). */
  failed(owner: string, upstream: string, error: unknown, issuer?: string, address?: string): void {
    const { audit, log } = this.options;
    const known = error instanceof LoginError || error instanceof ProtocolError;
    const reason = known ? error.message : 'internal';
    const at = issuer !== undefined && { issuer };
    log.info({ event: 'upstream.login_failed', caller: owner, upstream, ...at, why: reason }, 'upstream.login_failed');
    audit.record({
      kind: 'event',
      ...actorAt(owner, address),
      event: 'credential.failed',
      subject: upstream,
      reason,
      ...(at && { details: at }),
    });
  }

  private async store(
    upstream: LoginUpstream,
    pending: PendingLogin,
    code: string,
    iss: string | undefined,
  ): Promise<void> {
    const { vault } = this.options;
    const { owner, at, client, verifier, redirectUri, scope } = pending;
    const { fetch, id, target } = upstream;
    let granted: Awaited<ReturnType<typeof exchangeCode>>;
    try {
      granted = await exchangeCode({ at, client, code, iss, verifier, redirectUri, fetch, now: () => vault.now });
    } catch (error) {
      if (error instanceof TokenError && error.code === 'invalid_client') {
        const plan = await this.plan(upstream).catch(() => undefined);
        if (plan) await forgetClient(this.registration(upstream, plan, redirectUri, scope));
      }
      throw error;
    }
    const { expiresAt, ...tokens } = granted;
    const login = randomBytes(16).toString('base64url');
    const secret: LoginSecret = { ...tokens, login, requested: scope, url: target.url, at, client };
    const key = { caller: owner, issuer: at.issuer, resource: at.resource ?? target.url, upstream: id };
    const entry = await vault.put(key, secret, { state: 'active', expiresAt });
    for (const other of await vault.list({ caller: owner, upstream: id }))
      if (other.id !== entry.id) await vault.forget(other.id);
    upstream.source.forget(owner);
    this.options.changed(id, owner);
  }
}

const actorAt = (owner: string, address: string | undefined): AuditActor => ({
  caller: owner,
  ...(address !== undefined && { address }),
});

const digest = (text: string): string => createHash('sha256').update(text).digest('hex');

/** The refusal of a request without a token, which names the authorization server and the scopes. */
async function challengeOf(url: string, fetch: Fetch): Promise<Challenge | undefined> {
  try {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
    const { status, headers: replied } = await fetch(url, { method: 'POST', headers, body, redirect: 'manual' });
    return status === 401 ? { status, header: replied.get('www-authenticate') ?? undefined } : undefined;
  } catch {
    return undefined;
  }
}

const unknownLogin = (): LoginError =>
  new LoginError(
    'authorization',
    'this sign-in is not known: it was used already, or it is older than 10 minutes',
    'repeat the call in your client to get a new link',
  );

const otherBrowser = (): LoginError =>
  new LoginError(
    'authorization',
    'this sign-in was begun in another browser',
    'repeat the call in your client, and open its link in the browser in which you sign in',
  );

/** Error codes of RFC 6749 §4.1.2.1; other text of the answer is not shown. */
const SHOWN: ReadonlySet<string> = new Set([
  'access_denied',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
  'login_required',
  'consent_required',
  'server_error',
  'temporarily_unavailable',
  'unauthorized_client',
  'unsupported_response_type',
]);

function notGranted(error: string | null): LoginError {
  const shown = error !== null && SHOWN.has(error) ? ` (${error})` : '';
  return new LoginError(
    'authorization',
    `the authorization server did not grant access${shown}`,
    error === 'access_denied'
      ? 'repeat the call in your client if you want to try again'
      : 'repeat the call in your client; run parley auth doctor if it fails again',
  );
}
