/** The routes by which users sign in at upstreams in a browser. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { ANONYMOUS, type Principal } from '../../core/caller.js';
import { OWN_CLIENT } from '../../identity/oauth-server/paths.js';
import { clientMetadata } from '../../identity/upstream-login/client-registration.js';
import {
  type ConnectLinks,
  isSameCode,
  LINK_TTL,
  type LinkContent,
  split,
} from '../../identity/upstream-login/connect-links.js';
import { LoginError } from '../../identity/upstream-login/login-error.js';
import {
  CALLBACK_PATH,
  DOCUMENT_PATH,
  type Logins,
  type LoginUpstream,
} from '../../identity/upstream-login/login-flow.js';
import { scopeOf } from '../../identity/upstream-login/scopes.js';
import { hostOf } from '../../identity/upstream-login/secure-url.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { ErrorFormat, RequestContext, Route } from '../http/route.js';
import { sendJson, sendText } from '../http/send-body.js';
import { CONNECT_HEADERS, connectedPage, consentPage, failurePage, leavingPage } from './connect-pages.js';

/** The identity of a browser, where the gateway itself signs users in. */
export interface BrowserIdentity {
  /** Whether this principal can sign in at the gateway with a browser. */
  knows(principal: Pick<Principal, 'issuer'>): boolean;
  /** The key of the principal that is signed in at the gateway in this browser; undefined if nobody is signed in. */
  identify(context: RequestContext): Promise<string | undefined>;
  /**
   * The URL at which a user signs in at the gateway and returns to `path`. `again`: even if another user is signed in.
   */
  signIn(path: string, again: boolean): string;
  /** The path for a browser that returns from a sign-in; undefined if the gateway did not send this browser. */
  returnPath(state: string): string | undefined;
}

export interface ConnectEndpointOptions {
  readonly logins: Logins;
  readonly links: ConnectLinks;
  /** The URL at which browsers reach the gateway. */
  base(): string | undefined;
  /** Whether callers are identified. Otherwise all callers count as one user. */
  readonly identified: boolean;
  readonly browser?: BrowserIdentity | undefined;
  /** Counts attempts across replicas. Returns the number of attempts, including this one. */
  count(key: string, ttl: number): Promise<number>;
}

const MOST_CODES = 5;
const MOST_BODY = 16 * 1024;

const BAD_LINK = new LoginError(
  'authorization',
  'this link is not valid, or it is older than 10 minutes',
  'repeat the call in your client to get a new link',
);

const NOT_IDENTIFIED = new LoginError(
  'authorization',
  'you did not sign in at the gateway',
  'open the link of your client again, and sign in as the user of the client',
);

export class ConnectEndpoint {
  constructor(private readonly options: ConnectEndpointOptions) {}

  routes(errors: ErrorFormat): Route[] {
    const route = { access: 'public', errors } as const;
    const page = (path: string, kind: string): Route[] => [
      {
        ...route,
        method: 'GET',
        path,
        description: `Sign-in at one ${kind}: asks the user`,
        handle: (context) => this.page(context, kind, (upstream, link) => this.ask(context, upstream, link)),
      },
      {
        ...route,
        method: 'POST',
        path,
        description: `Sign-in at one ${kind}: begins after the user has agreed`,
        handle: (context) => this.agreed(context, kind),
      },
    ];
    return [
      ...page('/connect/{name}', 'server'),
      ...page('/connect/agents/{name}', 'agent'),
      ...(this.options.browser
        ? [
            {
              ...route,
              method: 'GET' as const,
              path: OWN_CLIENT.returnPath,
              description: 'A user returns from the sign-in at the gateway',
              handle: (context: RequestContext) => this.returned(context),
            },
          ]
        : []),
      {
        ...route,
        method: 'GET',
        path: CALLBACK_PATH,
        description: 'Answer of an authorization server to a sign-in',
        handle: (context) => this.callback(context),
      },
      {
        ...route,
        method: 'GET',
        path: DOCUMENT_PATH,
        description: 'Client ID Metadata Document of the gateway',
        handle: (context) => this.document(context),
      },
    ];
  }

  private document({ res, headers, path }: RequestContext): void {
    const { logins } = this.options;
    const client_id = logins.documentUrl();
    // AUC-08: the document is only valid at an https URL.
    if (client_id === undefined) throw new ProtocolError('not_found', `Nothing is served at ${path}`);
    const body = { client_id, ...clientMetadata(`${this.options.base()}${CALLBACK_PATH}`) };
    sendJson(res, 200, [...headers, 'Cache-Control', 'public, max-age=300'], [Buffer.from(JSON.stringify(body))]);
  }

  /** Runs a step of the sign-in, with the content of the link. Failures become pages. */
  private async page(
    context: RequestContext,
    kind: string,
    step: (upstream: LoginUpstream, link: LinkContent) => Promise<void>,
  ): Promise<void> {
    const { logins, links } = this.options;
    const sealed = context.query.get('link');
    const id = `${kind}:${(context.params['name'] ?? '').toLowerCase()}`;
    const upstream = logins.get(id);
    const link = sealed === null ? undefined : links.open(sealed, id);
    try {
      // A server that does not exist gets the same page, because only the link proves that the user may know of the
      // server.
      if (!upstream || !link) throw BAD_LINK;
      await step(upstream, link);
    } catch (error) {
      if (link && error instanceof LoginError)
        logins.failed(link.owner, id, error, undefined, context.req.clientAddress);
      this.failed(context, error);
    }
  }

  private async ask(
    context: RequestContext,
    upstream: LoginUpstream,
    link: LinkContent,
    problem?: string,
  ): Promise<void> {
    const proof = await this.proofOf(context, link);
    if (proof === 'other') return this.refuse(context, link);
    if (proof === 'absent' && link.code === undefined) {
      const { browser } = this.options;
      if (!browser) throw otherUser(link);
      this.redirect(context, browser.signIn(backTo(context), false));
      return;
    }
    const plan = await this.options.logins.plan(upstream);
    const browser = this.browserOf(context) ?? randomBytes(32).toString('base64url');
    const [kind, name] = split(upstream.id);
    const body = consentPage({
      kind,
      name,
      user: link.user,
      issuer: hostOf(plan.issuer),
      scope: scopeOf(plan, upstream.settings, link.scope),
      action: pathOf(this.options.base(), context.path),
      fields: { link: context.query.get('link') ?? '', form: digest(browser) },
      needsCode: proof === 'absent',
      problem,
    });
    this.send(context, problem === undefined ? 200 : 400, body, ['Set-Cookie', this.cookie(browser)]);
  }

  private async agreed(context: RequestContext, kind: string): Promise<void> {
    const form = new URLSearchParams((await context.req.read(MOST_BODY, 'fixed')).toString('utf8'));
    const query = new URLSearchParams(context.query);
    query.set('link', form.get('link') ?? '');
    const posted = { ...context, query };
    await this.page(posted, kind, (upstream, link) => this.begin(posted, upstream, link, form));
  }

  /** S5: the form must come from the page that the gateway showed to this browser. */
  private async begin(
    context: RequestContext,
    upstream: LoginUpstream,
    link: LinkContent,
    form: URLSearchParams,
  ): Promise<void> {
    const browser = this.browserOf(context);
    if (browser === undefined || !isSame(form.get('form') ?? '', digest(browser)) || !this.isOwnOrigin(context))
      throw new LoginError(
        'authorization',
        'this form was not sent from the page of the gateway, or the browser does not keep its cookie',
        'open the link of your client again, and allow the cookie of this page',
      );
    const proof = await this.proofOf(context, link);
    if (proof === 'other') return this.refuse(context, link);
    if (proof === 'absent') {
      // The user has signed out at the gateway after the page was shown.
      if (link.code === undefined) return this.ask(context, upstream, link);
      const tries = await this.options.count(`connect-code:${digest(form.get('link') ?? '')}`, LINK_TTL);
      if (tries > MOST_CODES) throw BAD_LINK;
      if (!isSameCode(form.get('code') ?? '', link.code)) {
        await this.ask(context, upstream, link, 'This is not the code that your client shows.');
        return;
      }
    }
    const url = await this.options.logins.begin(upstream, link, browser);
    this.send(context, 200, leavingPage(url, hostOf(url)));
  }

  private async callback(context: RequestContext): Promise<void> {
    try {
      const { upstream, user } = await this.options.logins.finish(
        context.query,
        this.browserOf(context),
        context.req.clientAddress,
      );
      this.send(context, 200, connectedPage(split(upstream)[1], user));
    } catch (error) {
      this.failed(context, error);
    }
  }

  /**
   * Whether the browser belongs to the user who asked for the link. `same`: proven, or there is only one user. `other`:
   * the browser belongs to somebody else. `absent`: the browser has no identity, so the user has to prove this with the
   * code that the client shows.
   */
  private async proofOf(context: RequestContext, { owner, code }: LinkContent): Promise<'same' | 'other' | 'absent'> {
    const { identified, browser } = this.options;
    if (!identified) return 'same';
    const { principal } = context;
    const session = principal === ANONYMOUS && code === undefined ? await browser?.identify(context) : undefined;
    const key = principal === ANONYMOUS ? session : principal.key;
    if (key === undefined) return 'absent';
    return key === owner ? 'same' : 'other';
  }

  /** S5: another user of the gateway gets an error page. This page lets the user of the link sign in instead. */
  private refuse(context: RequestContext, link: LinkContent): void {
    const { browser, logins } = this.options;
    const error = otherUser(link);
    logins.failed(link.owner, link.upstream, error);
    const again = link.code === undefined ? browser?.signIn(backTo(context), true) : undefined;
    this.send(context, 403, failurePage('Not signed in', error.message, error.advice, { user: link.user, again }));
  }

  /** The user has signed in at the gateway, and returns to the page that asked for the sign-in. */
  private async returned(context: RequestContext): Promise<void> {
    const { browser, base } = this.options;
    const path = browser?.returnPath(context.query.get('state') ?? '');
    if (path === undefined) this.failed(context, BAD_LINK);
    else if (context.query.get('error') !== null) this.failed(context, NOT_IDENTIFIED);
    else this.redirect(context, pathOf(base(), path));
  }

  private redirect({ res, headers }: RequestContext, location: string): void {
    res.send(303, [...headers, ...CONNECT_HEADERS, 'Location', location], []);
  }

  private failed(context: RequestContext, error: unknown): void {
    if (error instanceof ProtocolError) {
      this.send(context, error.row.rest, failurePage('Not signed in', error.message, 'try again later'));
      return;
    }
    if (!(error instanceof LoginError)) throw error;
    this.send(
      context,
      error.hop === 'authorization' || error.hop === 'issuer' ? 400 : 502,
      failurePage('Not signed in', error.message, error.advice),
    );
  }

  private send({ res, headers }: RequestContext, status: number, body: string, more: readonly string[] = []): void {
    sendText(res, status, [...headers, ...CONNECT_HEADERS, ...more], 'text/html; charset=utf-8', body);
  }

  private get secure(): boolean {
    return this.options.base()?.startsWith('https:') === true;
  }

  private get cookieName(): string {
    return this.secure ? '__Host-parley-connect' : 'parley-connect';
  }

  private cookie(value: string): string {
    const age = LINK_TTL / 1000;
    const secure = this.secure ? '; Secure' : '';
    return `${this.cookieName}=${value}; Max-Age=${age}; Path=/; HttpOnly; SameSite=Lax${secure}`;
  }

  private browserOf({ req }: RequestContext): string | undefined {
    for (const pair of (req.header('cookie') ?? '').split(';')) {
      const at = pair.indexOf('=');
      const value = pair.slice(at + 1).trim();
      if (pair.slice(0, at).trim() === this.cookieName && /^[\w-]{43}$/.test(value)) return value;
    }
    return undefined;
  }

  private isOwnOrigin({ req }: RequestContext): boolean {
    const origin = req.header('origin');
    const base = this.options.base();
    return origin === undefined || (base !== undefined && origin.toLowerCase() === new URL(base).origin);
  }
}

const otherUser = ({ user }: LinkContent): LoginError =>
  new LoginError(
    'authorization',
    `this link belongs to the gateway user "${user}", and this browser to somebody else`,
    'open only links that your own client shows you; sign in at the gateway as the user of the client',
  );

const backTo = ({ path, query }: RequestContext): string => `${path}?${query}`;

/** The path of the gateway behind a proxy that serves it below a prefix. */
const pathOf = (base: string | undefined, path: string): string =>
  `${base === undefined ? '' : new URL(base).pathname.replace(/\/+$/, '')}${path}`;

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** Characters of several bytes make the buffers of texts of the same length differ in size. */
function isSame(a: string, b: string): boolean {
  const [one, two] = [Buffer.from(a), Buffer.from(b)];
  return one.length === two.length && timingSafeEqual(one, two);
}
