/**
 * Repeats the discovery of an upstream's authorization server step by step, and says which step is wrong and what to
 * do.
 */
import { waysOf } from './client-registration.js';
import { type Challenge, readChallenge } from './discovery.js';
import { hasQuirk, type LoginSettings, type Quirk } from './login-settings.js';
import { type AuthorizationServerMetadata, type Fetch, oauthLibrary } from './oauth-library.js';
import { hostOf, isSecureUrl } from './secure-url.js';

export interface DoctorHop {
  /** The step of the chain, in a few words. */
  readonly hop: string;
  readonly state: 'ok' | 'warning' | 'problem';
  readonly found: string;
  /** The remedy. */
  readonly advice?: string;
  /** The quirk in the configuration that solves the problem. */
  readonly quirk?: Quirk;
}

export interface DoctorOptions {
  readonly url: string;
  readonly settings: LoginSettings;
  readonly fetch: Fetch;
  readonly documentUrl: string | undefined;
}

export interface Diagnosis {
  readonly ok: boolean;
  readonly hops: readonly DoctorHop[];
  /** The quirks to add to the configuration. */
  readonly quirks: readonly Quirk[];
}

interface Fetched {
  readonly status: number | undefined;
  readonly challenge?: string | undefined;
  readonly body?: Readonly<Record<string, unknown>> | undefined;
  /** Why there is no answer. */
  readonly failure?: string;
}

/** Authorization servers whose deviations are known, by host (see docs/upstream-login.md). */
const KNOWN: readonly { readonly host: RegExp; readonly name: string; readonly quirks: readonly Quirk[] }[] = [
  {
    host: /(^|\.)login\.microsoftonline\.(com|us)$|(^|\.)sts\.windows\.net$/,
    name: 'Microsoft Entra',
    quirks: ['no-resource', 'assume-pkce'],
  },
  { host: /(^|\.)amazoncognito\.com$|^cognito-idp\./, name: 'Amazon Cognito', quirks: ['no-resource', 'assume-pkce'] },
  { host: /^github\.com$/, name: 'GitHub', quirks: ['no-resource', 'assume-pkce'] },
  { host: /^slack\.com$/, name: 'Slack', quirks: ['no-resource', 'secret-in-body'] },
];

export async function diagnose(options: DoctorOptions): Promise<Diagnosis> {
  const doctor = new Doctor(options);
  await doctor.walk();
  const { hops } = doctor;
  const quirks = [...new Set(hops.flatMap(({ quirk }) => quirk ?? []))];
  return { ok: hops.every(({ state }) => state !== 'problem'), hops, quirks };
}

class Doctor {
  readonly hops: DoctorHop[] = [];

  constructor(private readonly options: DoctorOptions) {}

  private add(hop: string, state: DoctorHop['state'], found: string, advice?: string, quirk?: Quirk): void {
    const { settings } = this.options;
    const isSet = quirk !== undefined && hasQuirk(settings, quirk);
    this.hops.push({
      hop,
      state: isSet && state === 'problem' ? 'warning' : state,
      found: isSet ? `${found}; the quirk "${quirk}" is set` : found,
      ...(advice !== undefined && !isSet && { advice }),
      ...(quirk !== undefined && !isSet && { quirk }),
    });
  }

  async walk(): Promise<void> {
    const challenge = await this.challenge();
    if (!challenge) return;
    const named = await readChallenge(challenge);
    const resource = await this.resourceMetadata(named.resourceMetadata?.href);
    if (resource) await this.resource(resource);
    const server = this.server(resource);
    if (server === undefined) return;
    const metadata = await this.metadata(server);
    this.known(server);
    if (metadata === undefined) return;
    this.endpoints(metadata);
    this.pkce(metadata);
    this.registration(metadata);
    this.methods(metadata);
    this.issuer(metadata);
    this.scopes(named.scope, resource, metadata);
  }

  private async challenge(): Promise<Challenge | undefined> {
    const { url } = this.options;
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
    const reply = await this.get(url, { method: 'POST', headers, body, redirect: 'manual' });
    const hop = 'request without a token';
    if (reply.status === undefined) {
      this.add(hop, 'problem', `no answer: ${reply.failure}`, 'check the url, and that the server runs');
      return undefined;
    }
    if (reply.status !== 401) {
      this.add(
        hop,
        'warning',
        `HTTP ${reply.status} instead of 401`,
        reply.status < 300
          ? 'the server answers without a token; it may need no sign-in'
          : 'the well-known paths are tried without a challenge',
      );
      return { status: reply.status, header: reply.challenge };
    }
    const named = await readChallenge({ status: 401, header: reply.challenge });
    if (reply.challenge === undefined)
      this.add(hop, 'warning', '401 without WWW-Authenticate', 'the well-known paths are tried instead');
    else if (named.resourceMetadata === undefined)
      this.add(hop, 'warning', 'WWW-Authenticate without resource_metadata', 'the well-known paths are tried instead');
    else this.add(hop, 'ok', `401; resource_metadata="${named.resourceMetadata.href}"`);
    return { status: 401, header: reply.challenge };
  }

  private async resourceMetadata(named: string | undefined): Promise<Fetched['body']> {
    const { url } = this.options;
    const { origin, pathname } = new URL(url);
    const path = pathname.replace(/\/$/, '');
    const known = [
      ...new Set([
        `${origin}/.well-known/oauth-protected-resource${path}`,
        `${origin}/.well-known/oauth-protected-resource`,
      ]),
    ];
    const hop = 'resource metadata (RFC 9728)';
    const tried: string[] = [];
    for (const place of [...(named === undefined ? [] : [named]), ...known.filter((each) => each !== named)]) {
      const reply = await this.get(place);
      tried.push(`${place}: ${outcomeOf(reply)}`);
      if (reply.status !== 200 || reply.body === undefined) continue;
      if (place === named || named === undefined) this.add(hop, 'ok', place);
      else this.add(hop, 'warning', `${tried.join('; ')}`, 'correct resource_metadata in the challenge of the server');
      return reply.body;
    }
    this.add(
      hop,
      'warning',
      tried.join('; '),
      'the origin of the server is assumed to be its authorization server, as in the first MCP revision with OAuth; set "issuer" if that is wrong',
    );
    return undefined;
  }

  private async resource(body: NonNullable<Fetched['body']>): Promise<void> {
    const { url } = this.options;
    const { checkResourceAllowed, resourceUrlFromServerUrl } = await oauthLibrary();
    const { resource } = body;
    const hop = 'resource of the metadata';
    if (typeof resource !== 'string' || !URL.canParse(resource)) {
      this.add(hop, 'problem', 'the metadata names no resource', 'ask the operator of the server to add "resource"');
      return;
    }
    const requestedResource = resourceUrlFromServerUrl(url);
    if (checkResourceAllowed({ requestedResource, configuredResource: resource })) this.add(hop, 'ok', resource);
    else
      this.add(
        hop,
        'problem',
        `${resource} is not the configured url ${url}`,
        'write the url as the metadata does, or set the quirk "any-resource" if the operator of the server confirms it',
        'any-resource',
      );
  }

  private server(resource: Fetched['body']): string | undefined {
    const { url, settings } = this.options;
    const listed = resource?.['authorization_servers'];
    const named = Array.isArray(listed) ? listed.filter((each): each is string => typeof each === 'string') : [];
    const server = settings.issuer ?? named[0] ?? new URL('/', url).href;
    const hop = 'authorization server';
    if (!isSecureUrl(server)) {
      this.add(hop, 'problem', `${server} is not an https URL`, 'ask the operator of the server for an https URL');
      return undefined;
    }
    if (resource !== undefined && named.length === 0 && settings.issuer === undefined)
      this.add(hop, 'problem', 'the metadata names none', 'set "issuer" to the authorization server');
    else if (settings.issuer !== undefined && named.length > 0 && !named.includes(settings.issuer))
      this.add(hop, 'warning', `${settings.issuer} from the configuration; the server names ${named.join(', ')}`);
    else this.add(hop, 'ok', server);
    return server;
  }

  private async metadata(server: string): Promise<AuthorizationServerMetadata | undefined> {
    const { buildDiscoveryUrls } = await oauthLibrary();
    const hop = 'metadata of the authorization server (RFC 8414, OpenID Connect)';
    const tried: string[] = [];
    for (const { url } of buildDiscoveryUrls(server)) {
      const reply = await this.get(url.href);
      tried.push(`${url.href}: ${outcomeOf(reply)}`);
      if (reply.failure?.includes('not allowed')) {
        this.add(hop, 'problem', tried.join('; '), 'allow the host in "egress", or set "issuer"');
        return undefined;
      }
      if (reply.status !== 200 || reply.body === undefined) continue;
      const { issuer } = reply.body;
      this.add(hop, 'ok', url.href);
      const same = issuer === server || (typeof issuer === 'string' && `${issuer}/` === server);
      if (same) this.add('issuer of the metadata', 'ok', String(issuer));
      else
        this.add(
          'issuer of the metadata',
          'problem',
          `${String(issuer)} is not ${server}`,
          `set issuer: ${String(issuer)}, or the quirk "any-issuer" if the document is the same for all tenants`,
          'any-issuer',
        );
      return reply.body as unknown as AuthorizationServerMetadata;
    }
    this.add(
      hop,
      this.options.settings.issuer === undefined ? 'warning' : 'problem',
      tried.join('; '),
      'the default paths /authorize, /token and /register are used; set "issuer" if the authorization server is another one',
    );
    return undefined;
  }

  private known(server: string): void {
    const issuer = KNOWN.find(({ host }) => host.test(hostOf(server).replace(/:\d+$/, '')));
    if (!issuer) return;
    for (const quirk of issuer.quirks)
      this.add(
        'known authorization server',
        'warning',
        issuer.name,
        `${issuer.name} needs the quirk "${quirk}"`,
        quirk,
      );
  }

  private endpoints(metadata: AuthorizationServerMetadata): void {
    for (const name of ['authorization_endpoint', 'token_endpoint'] as const) {
      const url: unknown = metadata[name];
      if (typeof url === 'string' && isSecureUrl(url)) this.add(name, 'ok', url);
      else
        this.add(
          name,
          'problem',
          url === undefined ? 'is missing' : `${JSON.stringify(url)} is not an https URL`,
          'ask the operator of the authorization server to correct its metadata',
        );
    }
  }

  private pkce({ code_challenge_methods_supported: methods }: AuthorizationServerMetadata): void {
    if (methods?.includes('S256')) this.add('PKCE', 'ok', 'S256');
    else if (methods === undefined)
      this.add(
        'PKCE',
        'problem',
        'the metadata does not name code_challenge_methods_supported',
        'set the quirk "assume-pkce" if the documentation of the server promises S256',
        'assume-pkce',
      );
    else this.add('PKCE', 'problem', methods.join(', '), 'the server does not support S256; a sign-in is not safe');
  }

  private registration(metadata: AuthorizationServerMetadata): void {
    const { settings, documentUrl } = this.options;
    const offered = [
      ...(metadata.client_id_metadata_document_supported === true ? ['Client ID Metadata Document'] : []),
      ...(metadata.registration_endpoint === undefined ? [] : ['dynamic registration']),
    ];
    const [way] = waysOf({ metadata }, settings, documentUrl);
    const found = `offers ${offered.length === 0 ? 'neither a metadata document nor registration' : offered.join(' and ')}`;
    if (way === undefined)
      this.add(
        'registration of the gateway',
        'problem',
        found,
        metadata.client_id_metadata_document_supported === true
          ? 'set "publicUrl" to the https URL of the gateway, or "clientId" (and "clientSecret") of a client that you register'
          : 'register the gateway there by hand, and set "clientId" (and "clientSecret")',
      );
    else this.add('registration of the gateway', 'ok', `${found}; the gateway uses ${way}`);
  }

  private methods({ token_endpoint_auth_methods_supported: methods }: AuthorizationServerMetadata): void {
    const { settings } = this.options;
    const usable = (methods ?? ['client_secret_basic']).filter((method) =>
      ['client_secret_basic', 'client_secret_post', 'none'].includes(method),
    );
    const found = methods?.join(', ') ?? 'not named; client_secret_basic is the default';
    if (usable.length === 0)
      this.add(
        'authentication at the token endpoint',
        'problem',
        found,
        'the gateway supports client_secret_basic, client_secret_post and none',
      );
    else if (settings.clientSecret !== undefined && usable.every((method) => method === 'none'))
      this.add(
        'authentication at the token endpoint',
        'warning',
        found,
        'the server wants no secret; remove "clientSecret"',
      );
    else this.add('authentication at the token endpoint', 'ok', found);
  }

  private issuer(metadata: AuthorizationServerMetadata): void {
    const names = metadata.authorization_response_iss_parameter_supported === true;
    this.add(
      'issuer in the answer (RFC 9207)',
      'ok',
      names ? 'announced; the gateway checks it' : 'not announced; the gateway checks it if the answer has one',
    );
  }

  private scopes(
    challenged: string | undefined,
    resource: Fetched['body'],
    metadata: AuthorizationServerMetadata,
  ): void {
    const { settings } = this.options;
    const supported = resource?.['scopes_supported'];
    const listed = Array.isArray(supported) ? supported.join(' ') : undefined;
    const scope = settings.scopes.length > 0 ? settings.scopes.join(' ') : (challenged ?? listed);
    const offline = metadata.scopes_supported?.includes('offline_access') === true;
    this.add('scopes', 'ok', `${scope ?? 'none'}${offline ? ', and offline_access' : ''}`);
  }

  private async get(url: string, init: RequestInit = {}): Promise<Fetched> {
    try {
      const headers = { Accept: 'application/json', ...(init.headers as Record<string, string> | undefined) };
      const response = await this.options.fetch(url, { ...init, headers });
      const challenge = response.headers.get('www-authenticate') ?? undefined;
      const body: unknown = await response.json().catch(() => undefined);
      const isRecord = typeof body === 'object' && body !== null && !Array.isArray(body);
      return { status: response.status, challenge, ...(isRecord && { body: body as Record<string, unknown> }) };
    } catch (error) {
      return { status: undefined, failure: error instanceof Error ? error.message : 'the request failed' };
    }
  }
}

const outcomeOf = ({ status, body, failure }: Fetched): string =>
  status === undefined
    ? `no answer (${failure})`
    : status === 200 && body === undefined
      ? 'not JSON'
      : `HTTP ${status}`;
