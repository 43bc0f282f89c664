/** The login and consent pages: what a person sees between the client's request and its code. */
import { createHash, randomBytes } from 'node:crypto';
import { type AuditTrail, stored } from '../../core/audit-trail.js';
import type { Seal } from '../../core/seal.js';
import type { AuditedRefusals } from '../../identity/audited-refusals.js';
import type { LoginLimits } from '../../identity/oauth-server/login-limits.js';
import type { OAuthServer, PendingInteraction } from '../../identity/oauth-server/oauth-server.js';
import { LoginRefused, type OpenIdLogin } from '../../identity/oauth-server/openid-login.js';
import { TooManyHashes } from '../../identity/oauth-server/password.js';
import { PATHS } from '../../identity/oauth-server/paths.js';
import { type Users, userName } from '../../identity/oauth-server/users.js';
import type { OAuthUser } from '../../state/index.js';
import type { Log } from '../../telemetry/log.js';
import type { RequestContext } from '../http/route.js';
import { type CookieStyle, cookieOf, flowCookie, isUid, setCookie } from './flow-cookies.js';
import { consentPage, errorPage, loginPage, type PageLinks } from './html-pages.js';
import { formTarget, seeOther, sendPage } from './page-response.js';

export interface InteractionPagesOptions {
  readonly server: OAuthServer;
  readonly users: Users;
  user(id: string): Promise<OAuthUser | undefined>;
  /** The key of the principal that the tokens of a user establish, for the audit trail. */
  callerKey(user: OAuthUser): string;
  readonly limits: LoginLimits;
  /** Whether local users may sign in with their passwords. */
  readonly passwords: boolean;
  readonly upstream: OpenIdLogin | undefined;
  readonly seal: Seal;
  readonly cookies: CookieStyle;
  /** The prefix of all paths, if a proxy serves the gateway below a path. */
  readonly base: string;
  readonly audit: AuditTrail;
  /** Receives failed sign-ins. */
  readonly refusals: Pick<AuditedRefusals, 'add'>;
  readonly log: Log;
}

/** The longest id of a client in the audit trail. */
const MOST_ID = 256;
const FORM_LIMIT = 16 * 1024;
const DEVICE_COOKIE = 'device';
const DEVICE_LIFE = 180 * 24 * 3_600;

const EXPIRED =
  'This sign-in is over: it has expired, was already used, or began in another browser. Nothing was granted.';

export class InteractionPages {
  constructor(private readonly options: InteractionPagesOptions) {}

  private get style(): string {
    return this.options.base + PATHS.style;
  }

  /** Shows the question. */
  async show(context: RequestContext): Promise<void> {
    const pending = await this.pending(context);
    if (!pending) return;
    if (pending.kind === 'login' || pending.account === undefined) await this.showLogin(context, pending);
    else {
      const user = await this.options.user(pending.account);
      const links = await this.links(pending.uid);
      sendPage(context, {
        body: consentPage({ ...links, interaction: pending, account: user?.name ?? pending.account }),
        formTarget: formTarget(pending.client.redirectUri),
      });
    }
  }

  /** A local user signs in with its password. */
  async login(context: RequestContext): Promise<void> {
    const form = await this.form(context);
    if (!form) return;
    const { pending, fields } = form;
    const { users, limits, server, log, passwords } = this.options;
    if (!passwords) return this.over(context);
    const name = userName(fields.get('name') ?? '').slice(0, 64);
    const address = context.req.clientAddress;
    const device = this.device(context, name);
    const wait = await limits.attempt({ address, account: name, device });
    if (wait !== undefined) {
      const known = await this.refused(context, 'password', 'rate_limited', name);
      log.warn({ event: 'oauth.login.limited', address, ...known }, 'refused a login: too many attempts');
      const problem = `Too many attempts. Try again in ${Math.ceil(wait / 60)} minutes.`;
      return this.showLogin(context, pending, { problem, name, status: 429, headers: ['Retry-After', String(wait)] });
    }
    let user: OAuthUser | undefined;
    try {
      user = await users.authenticate(name, fields.get('password') ?? '');
    } catch (error) {
      if (!(error instanceof TooManyHashes)) throw error;
      const problem = 'Many people sign in right now. Try again in a few seconds.';
      return this.showLogin(context, pending, { problem, name, status: 503, headers: ['Retry-After', '5'] });
    }
    if (!user) {
      const known = await this.refused(context, 'password', 'wrong_password', name);
      log.warn({ event: 'oauth.login.failed', address, ...known }, 'refused a login: wrong name or password');
      const problem = 'The user name or the password is wrong. Check both; capital letters count in the password.';
      return this.showLogin(context, pending, { problem, name, status: 401 });
    }
    await limits.succeeded({ address, account: name, device });
    await this.signedIn(context, 'password', user);
    log.info({ event: 'oauth.login', address, user: user.id, client: pending.client.id }, 'a user signed in');
    const next = await server.signIn(pending.uid, user.id);
    if (next === undefined) return this.over(context);
    seeOther(context, next, [this.deviceCookie(user.id)]);
  }

  /**
   * The user chooses the other OpenID provider. Only this form sets `state`, so the person has seen which client asks
   * (S5).
   */
  async elsewhere(context: RequestContext): Promise<void> {
    const form = await this.form(context);
    if (!form) return;
    const { upstream } = this.options;
    if (!upstream) return this.over(context);
    try {
      seeOther(context, await upstream.begin(form.pending.uid));
    } catch (error) {
      if (!(error instanceof LoginRefused)) throw error;
      await this.showLogin(context, form.pending, { problem: error.message, status: 502 });
    }
  }

  /** The other OpenID provider sends the browser back. */
  async callback(context: RequestContext): Promise<void> {
    const { upstream, server, log } = this.options;
    const state = context.query.get('state');
    const login = state === null ? undefined : await upstream?.take(state);
    if (!upstream || !login || !(await this.began(context, login.uid))) return this.over(context);
    const pending = await server.interaction(login.uid);
    if (!pending) return this.over(context);
    try {
      const user = await upstream.complete(login, context.query);
      const address = context.req.clientAddress;
      await this.signedIn(context, 'oidc', await this.options.user(user));
      log.info({ event: 'oauth.login', address, user, client: pending.client.id }, 'a user signed in');
      const next = await server.signIn(login.uid, user);
      if (next === undefined) return this.over(context);
      seeOther(context, next);
    } catch (error) {
      if (!(error instanceof LoginRefused)) throw error;
      log.warn({ event: 'oauth.login.failed', reason: error.message }, 'a sign-in at another provider failed');
      await this.refused(context, 'oidc', 'login_refused');
      await this.showLogin(context, pending, { problem: error.message, status: 403 });
    }
  }

  async consent(context: RequestContext): Promise<void> {
    const form = await this.form(context);
    if (!form) return;
    const { server, audit, log } = this.options;
    const { uid, client, account, scopes } = form.pending;
    const allowed = form.fields.get('decision') === 'allow';
    const record = {
      caller: await this.callerOf(account),
      address: context.req.clientAddress,
      action: allowed ? 'consent.grant' : 'consent.refuse',
      subject: client.id.slice(0, MOST_ID),
      details: { redirect: client.redirectHost.slice(0, MOST_ID), scopes },
    } as const;
    const next = await audit.change(
      record,
      () => (allowed ? server.agree(uid) : server.refuse(uid)),
      (found) => (found === undefined ? undefined : {}),
    );
    if (next === undefined) return this.over(context);
    log.info(
      { event: 'oauth.consent', user: account, client: client.id, redirect: client.redirectHost, allowed },
      allowed ? 'a user allowed a client' : 'a user refused a client',
    );
    seeOther(context, next);
  }

  async switchUser(context: RequestContext): Promise<void> {
    const form = await this.form(context);
    if (!form) return;
    const next = await this.options.server.switchUser(form.pending.uid);
    if (next === undefined) return this.over(context);
    seeOther(context, next);
  }

  /** With `audit.onFailure: closed`, a sign-in that cannot be recorded is refused. */
  private async signedIn({ req }: RequestContext, method: string, user: OAuthUser | undefined): Promise<void> {
    const { audit, callerKey } = this.options;
    await stored(audit, {
      ...{ kind: 'authentication', outcome: 'succeeded', method, address: req.clientAddress, path: PATHS.interaction },
      ...(user && { caller: callerKey(user) }),
    });
  }

  private async callerOf(account: string | undefined): Promise<string> {
    const user = account === undefined ? undefined : await this.options.user(account);
    return user ? this.options.callerKey(user) : '';
  }

  /**
   * Records a failed sign-in. Returns the user for the log. A name that belongs to no user may be a password in the
   * wrong field, so it is written neither to the log nor to the audit trail.
   */
  private async refused(
    { req }: RequestContext,
    method: string,
    reason: string,
    name?: string,
  ): Promise<{ readonly user?: string }> {
    const { refusals, user, callerKey } = this.options;
    const known = name === undefined ? undefined : await user(name);
    refusals.add({
      ...{ method, reason, address: req.clientAddress, path: PATHS.interaction },
      ...(known && { caller: callerKey(known) }),
    });
    return known ? { user: known.id } : {};
  }

  /** The interaction of a request. Only the browser that began it may see or answer it. */
  private async pending(context: RequestContext): Promise<PendingInteraction | undefined> {
    const uid = context.params['uid'] ?? '';
    const found = (await this.began(context, uid)) ? await this.options.server.interaction(uid) : undefined;
    if (!found) this.over(context);
    return found;
  }

  private async began({ req }: RequestContext, uid: string): Promise<boolean> {
    const { server, cookies } = this.options;
    return isUid(uid) && server.proves('flow', uid, cookieOf(cookies, req.header('cookie'), flowCookie(uid)));
  }

  private async form(
    context: RequestContext,
  ): Promise<{ readonly pending: PendingInteraction; readonly fields: URLSearchParams } | undefined> {
    const fields = new URLSearchParams((await context.req.read(FORM_LIMIT, 'fixed')).toString('utf8'));
    const pending = await this.pending(context);
    if (!pending) return undefined;
    if (await this.options.server.proves('form', pending.uid, fields.get('token') ?? undefined))
      return { pending, fields };
    this.over(context);
    return undefined;
  }

  private async showLogin(
    context: RequestContext,
    { uid, client }: PendingInteraction,
    more: { problem?: string; name?: string; status?: number; headers?: readonly string[] } = {},
  ): Promise<void> {
    const { passwords, upstream } = this.options;
    const { problem, name, status, headers } = more;
    const links = await this.links(uid);
    sendPage(context, {
      ...(status !== undefined && { status }),
      ...(headers && { headers }),
      body: loginPage({ ...links, client, passwords, elsewhere: upstream?.name, problem, name }),
      formTarget: upstream ? `https: ${formTarget(client.redirectUri) ?? ''}`.trim() : formTarget(client.redirectUri),
    });
  }

  private async links(uid: string): Promise<PageLinks> {
    const { server, base } = this.options;
    return {
      action: `${base}${PATHS.interaction}/${uid}`,
      style: this.style,
      token: await server.proof('form', uid),
    };
  }

  private over(context: RequestContext): void {
    sendPage(context, { status: 400, body: errorPage(this.style, 'This sign-in is over', EXPIRED) });
  }

  /** The id of this browser, if this user has signed in with this browser before. */
  private device({ req }: RequestContext, account: string): string | undefined {
    const { seal, cookies } = this.options;
    const value = cookieOf(cookies, req.header('cookie'), DEVICE_COOKIE);
    if (value === undefined) return undefined;
    try {
      return seal.open('oauth', deviceOf(account), value) as string;
    } catch {
      return undefined;
    }
  }

  private deviceCookie(account: string): string {
    const { seal, cookies } = this.options;
    const id = randomBytes(16).toString('base64url');
    return setCookie(
      cookies,
      DEVICE_COOKIE,
      seal.close('oauth', deviceOf(account), id, DEVICE_LIFE * 1_000),
      DEVICE_LIFE,
    );
  }
}

const deviceOf = (account: string): string => `device ${createHash('sha256').update(account).digest('base64url')}`;
