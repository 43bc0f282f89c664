/** The routes of the built-in authorization server. All are public: clients and browsers come here to get a token. */
import { type AuditTrail, GATEWAY_ACTOR, type GivenChange } from '../../core/audit-trail.js';
import { ANYBODY } from '../../identity/authenticator.js';
import type { RequestLimits } from '../../identity/oauth-server/login-limits.js';
import type { OAuthServer } from '../../identity/oauth-server/oauth-server.js';
import { INTERACTION_LIFE, OWN_CLIENT, PATHS } from '../../identity/oauth-server/paths.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { OAuthUser } from '../../state/index.js';
import { headersOf, type NodeReply, runNodeHandler } from '../http/node-handler.js';
import type { Method, RequestContext, Route } from '../http/route.js';
import { sendJson, sendText } from '../http/send-body.js';
import {
  begunFlow,
  type CookieStyle,
  cookieOf,
  flowCookie,
  isUid,
  providerCookies,
  setCookie,
  surplusFlows,
  withoutFlowCookies,
} from './flow-cookies.js';
import type { InteractionPages } from './login-and-consent.js';
import { OAUTH_ERRORS } from './oauth-errors.js';
import { pageHeaders } from './page-response.js';
import { STYLE } from './style.js';

export interface OAuthRoutesOptions {
  readonly server: OAuthServer;
  readonly pages: InteractionPages;
  readonly limits: RequestLimits;
  readonly cookies: CookieStyle;
  readonly registration: boolean;
  /** Receives a record of registered clients, and of issued and revoked tokens. */
  readonly audit: AuditTrail;
  user(id: string): Promise<OAuthUser | undefined>;
  /** The key of the principal that the tokens of a user establish. */
  callerKey(user: OAuthUser): string;
}

/** Limit on the bytes of a body; oidc-provider reads no larger body. */
const BODY_LIMIT = 56 * 1024;
const FORWARDED = ['accept', 'authorization', 'content-type', 'cookie', 'origin', 'user-agent'];
const MINUTE = 60_000;

/** Limits on the requests of one address, which many people may share. */
const LIMITS: Readonly<Record<string, { readonly most: number; readonly window: number }>> = {
  authorize: { most: 300, window: MINUTE },
  register: { most: 60, window: 10 * MINUTE },
  token: { most: 1_200, window: MINUTE },
};

export class OAuthRoutes {
  /** The path of the issuer, which is the prefix of all paths. */
  private readonly base: string;
  private readonly host: string;

  constructor(private readonly options: OAuthRoutesOptions) {
    const { pathname, host } = new URL(options.server.issuer);
    this.base = pathname.replace(/\/$/, '');
    this.host = host;
  }

  routes(): Route[] {
    const { pages, registration, server } = this.options;
    const route = (
      method: Method,
      path: string,
      description: string,
      handle: (context: RequestContext) => Promise<void>,
    ): Route => ({ method, path, access: 'public', errors: OAUTH_ERRORS, authenticator: ANYBODY, description, handle });
    const document = (context: RequestContext): Promise<void> => this.metadata(context);
    const documents = ['/.well-known/openid-configuration', '/.well-known/oauth-authorization-server'];
    const places = documents.flatMap((path) => (this.base === '' ? [path] : [path, path + this.base]));
    const interaction = `${PATHS.interaction}/{uid}`;
    return [
      ...places.map((path) => route('GET', path, 'Metadata of the authorization server (RFC 8414)', document)),
      route('GET', PATHS.keys, 'The keys that sign tokens', async ({ res, headers }) =>
        sendJson(
          res,
          200,
          [...headers, 'Cache-Control', 'public, max-age=60'],
          [Buffer.from(JSON.stringify(await server.publicKeys()))],
        ),
      ),
      route('GET', PATHS.authorize, 'A client begins a sign-in', (context) => this.authorize(context)),
      route('GET', `${PATHS.authorize}/{uid}`, 'A sign-in goes on', (context) => this.resume(context)),
      route('POST', PATHS.token, 'A client gets tokens', (context) => this.token(context)),
      route('POST', PATHS.revoke, 'A client revokes a token (RFC 7009)', (context) => this.revoke(context)),
      ...(registration
        ? [route('POST', PATHS.register, 'A client registers itself (RFC 7591)', (context) => this.register(context))]
        : []),
      route('GET', interaction, 'The login or consent page', (context) => pages.show(context)),
      route('POST', `${interaction}/login`, 'A user signs in', (context) => pages.login(context)),
      route('POST', `${interaction}/elsewhere`, 'A user goes to another provider', async (context) => {
        await this.limit('authorize', context);
        await pages.elsewhere(context);
      }),
      route('POST', `${interaction}/consent`, 'A user allows or refuses a client', (context) => pages.consent(context)),
      route('POST', `${interaction}/switch`, 'A user signs out', (context) => pages.switchUser(context)),
      route('GET', PATHS.callback, 'A user returns from another provider', (context) => pages.callback(context)),
      route('GET', PATHS.style, 'The style of the pages', async ({ res }) =>
        sendText(res, 200, ['Cache-Control', 'public, max-age=3600'], 'text/css; charset=utf-8', STYLE),
      ),
    ];
  }

  private async authorize(context: RequestContext): Promise<void> {
    await this.limit('authorize', context);
    const { req } = context;
    const query = new URLSearchParams(context.query);
    const wanted = new Set((query.get('scope') ?? '').split(' ').filter((scope) => scope !== ''));
    const { scopes } = this.options.server;
    // Clients of older revisions name no scope. The first scope is added, because a token without it gives no access.
    if (scopes[0] !== undefined && query.get('client_id') !== OWN_CLIENT.id) wanted.add(scopes[0]);
    query.set('scope', [...wanted].join(' '));
    // oidc-provider supports this response mode, but its page could not run. An unknown mode makes oidc-provider refuse
    // the request.
    if (query.get('response_mode') === UNSERVED_MODE) query.set('response_mode', `not ${UNSERVED_MODE}`);
    const reply = await this.run(context, `${PATHS.authorize}?${query}`, Buffer.alloc(0));
    const uid = begunFlow(reply.headers);
    const { cookies, server } = this.options;
    const flow =
      uid === undefined
        ? []
        : [
            ...surplusFlows(cookies, req.header('cookie')),
            setCookie(cookies, flowCookie(uid), await server.proof('flow', uid), INTERACTION_LIFE / 1_000),
          ];
    this.send(context, reply, flow);
  }

  /** S5: only the browser that began the sign-in gets the code; the cookie of the flow proves it. */
  private async resume(context: RequestContext): Promise<void> {
    await this.limit('authorize', context);
    const { req, path, params } = context;
    const { cookies, server } = this.options;
    const uid = params['uid'] ?? '';
    const given = isUid(uid) ? cookieOf(cookies, req.header('cookie'), flowCookie(uid)) : undefined;
    const proven = await server.proves('flow', uid, given);
    const reply = await this.run(context, path, Buffer.alloc(0), proven ? uid : undefined);
    const next = begunFlow(reply.headers);
    const flow = [
      ...(proven ? [setCookie(cookies, flowCookie(uid), '', 0)] : []),
      ...(next === undefined
        ? []
        : [setCookie(cookies, flowCookie(next), await server.proof('flow', next), INTERACTION_LIFE / 1_000)]),
    ];
    this.send(context, reply, flow);
  }

  private async token(context: RequestContext): Promise<void> {
    await this.limit('token', context);
    const body = await context.req.read(BODY_LIMIT, 'fixed');
    const form = new URLSearchParams(body.toString('utf8'));
    const action = form.get('grant_type') === 'refresh_token' ? 'token.refresh' : 'token.issue';
    const reply = await this.changing(context, action, () => this.run(context, PATHS.token, body));
    this.send(context, reply);
  }

  /**
   * Runs a change of a client (S24). Anybody may send such a request, so a refused request is not recorded, except as
   * an intent with `audit.onFailure: closed`. The id of a client is recorded once the provider has found the client:
   * until then it is a text of a stranger. `revoking` is the id in a request whose answer names no client.
   */
  private async changing(
    { req }: RequestContext,
    action: GivenChange['action'],
    run: () => Promise<NodeReply>,
    revoking?: string,
  ): Promise<NodeReply> {
    const { audit, user, callerKey } = this.options;
    let caller: OAuthUser | undefined;
    const { reply } = await audit.change(
      { ...GATEWAY_ACTOR, address: req.clientAddress, action },
      async () => {
        const reply = await run();
        const { sub, client = revoking } = reply.status < 300 ? namedIn(reply.body) : NOBODY;
        if (sub !== undefined) caller = await user(sub);
        return { reply, client };
      },
      ({ reply, client }) =>
        reply.status >= 300
          ? undefined
          : {
              ...(caller && { caller: callerKey(caller) }),
              ...(client !== undefined && { subject: client.slice(0, MOST_ID) }),
            },
    );
    return reply;
  }

  private async register(context: RequestContext): Promise<void> {
    await this.limit('register', context);
    const body = await context.req.read(BODY_LIMIT, 'fixed');
    const register = (): Promise<NodeReply> => this.run(context, PATHS.register, body);
    this.send(context, await this.changing(context, 'client.register', register));
  }

  /**
   * oidc-provider revokes stored tokens only, and access tokens are not stored. oidc-provider still has to authenticate
   * the client, so it gets the request with an unknown token in place of the access token.
   */
  private async revoke(context: RequestContext): Promise<void> {
    await this.limit('token', context);
    const { server } = this.options;
    const body = await context.req.read(BODY_LIMIT, 'fixed');
    const form = new URLSearchParams(body.toString('utf8'));
    const token = form.get('token') ?? '';
    const client = clientOf(context, form);
    const revoke = async (): Promise<NodeReply> => {
      if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) return this.run(context, PATHS.revoke, body);
      form.set('token', 'an-access-token');
      form.delete('token_type_hint');
      const reply = await this.run(context, PATHS.revoke, Buffer.from(form.toString()));
      const claims = reply.status === 200 ? await server.accessToken(token, client) : undefined;
      if (claims) await server.revokeAccessToken(claims);
      return reply;
    };
    this.send(context, await this.changing(context, 'token.revoke', revoke, client));
  }

  private async metadata(context: RequestContext): Promise<void> {
    const { body, ...reply } = await this.run(context, '/.well-known/openid-configuration', Buffer.alloc(0));
    const headers = [...reply.headers, 'cache-control', 'public, max-age=300'];
    this.send(context, { ...reply, headers, body: reply.status === 200 ? servedModes(body) : body });
  }

  private async limit(kind: string, { req }: RequestContext): Promise<void> {
    const { most, window } = LIMITS[kind]!;
    if (await this.options.limits.allows(kind, req.clientAddress, most, window)) return;
    throw new ProtocolError('rate_limited', 'Too many requests from this address; try again later', {
      headers: { 'Retry-After': String(window / 1_000) },
    });
  }

  private async run(context: RequestContext, url: string, body: Buffer, uid?: string): Promise<NodeReply> {
    const { req } = context;
    const { cookie, ...headers } = headersOf(context, FORWARDED);
    const cookies = providerCookies(cookie, uid);
    const handler = await this.options.server.handler();
    return runNodeHandler(
      async (message, response) => {
        // oidc-provider takes the part of `originalUrl` before its own path for the path of its issuer.
        Object.assign(message, { originalUrl: this.base + url });
        await handler(message, response);
      },
      {
        method: req.method === 'HEAD' ? 'GET' : req.method,
        url,
        headers: {
          ...headers,
          host: this.host,
          ...(cookies !== undefined && { cookie: cookies }),
          ...(body.length > 0 && { 'content-length': String(body.length) }),
        },
        body,
        encrypted: this.options.cookies.secure,
        address: req.clientAddress,
      },
    );
  }

  /** Sends the answer of oidc-provider with the gateway's own headers for CORS and pages. */
  private send({ res, headers }: RequestContext, reply: NodeReply, cookies: readonly string[] = []): void {
    const kept: string[] = [];
    let page = false;
    const own = withoutFlowCookies(reply.headers);
    for (let i = 0; i < own.length; i += 2) {
      const name = own[i]!.toLowerCase();
      if (name.startsWith('access-control-') || name === 'vary') continue;
      if (name === 'content-type' && own[i + 1]!.startsWith('text/html')) page = true;
      else kept.push(own[i]!, own[i + 1]!);
    }
    const security = page ? pageHeaders() : [...headers];
    const all = page ? kept.filter((_, i) => !isCacheControl(kept, i)) : kept;
    res.send(reply.status, [...security, ...all, ...cookies.flatMap((cookie) => ['Set-Cookie', cookie])], reply.body);
  }
}

/**
 * The page of this response mode sends the code to another origin with a script. The policy of the gateway's pages
 * allows neither scripts nor other origins.
 */
const UNSERVED_MODE = 'form_post';

/** Removes the response mode that the gateway does not serve from the metadata. */
function servedModes(document: NodeReply['body']): Buffer[] {
  const { response_modes_supported: modes, ...others } = JSON.parse(String(Buffer.concat(document))) as {
    readonly response_modes_supported: readonly string[];
  };
  const served = modes.filter((mode) => mode !== UNSERVED_MODE);
  return [Buffer.from(JSON.stringify({ ...others, response_modes_supported: served }))];
}

/** The longest id of a client in the audit trail. */
const MOST_ID = 256;
const NOBODY: { readonly sub?: string; readonly client?: string } = {};

/**
 * The user and the client of an issued access token, or the id of a registered client, in an answer of the provider.
 */
function namedIn(body: NodeReply['body']): typeof NOBODY {
  try {
    const { access_token: token, client_id: client } = JSON.parse(String(body)) as Record<string, unknown>;
    if (typeof token !== 'string') return typeof client === 'string' ? { client } : NOBODY;
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
    return { sub: String(claims.sub), client: String(claims.client_id) };
  } catch {
    return NOBODY;
  }
}

/** Whether this is the Cache-Control header, which pages set themselves. */
const isCacheControl = (headers: readonly string[], i: number): boolean =>
  headers[i - (i % 2)]!.toLowerCase() === 'cache-control';

/** The client that a request to the revocation endpoint authenticates (RFC 6749 §2.3.1). */
function clientOf({ req }: RequestContext, form: URLSearchParams): string {
  const basic = /^Basic +([A-Za-z0-9+/=]+)$/i.exec(req.header('authorization') ?? '')?.[1];
  if (basic === undefined) return form.get('client_id') ?? '';
  try {
    return decodeURIComponent(Buffer.from(basic, 'base64').toString('utf8').split(':', 1)[0]!.replaceAll('+', ' '));
  } catch {
    return '';
  }
}
