/** Finds the authorization server of an upstream and checks that a sign-in there is safe (mcp.md 3.2, AUC-01 to 06). */
import { LoginError } from './login-error.js';
import { hasQuirk, type LoginServer, type LoginSettings } from './login-settings.js';
import { type AuthorizationServerMetadata, type Fetch, oauthLibrary, type ResourceMetadata } from './oauth-library.js';
import { securedUrl } from './secure-url.js';

/** Everything that a sign-in needs to know about the authorization server. */
export interface LoginPlan {
  /** Identifies the authorization server; credentials of another issuer are never sent to it. */
  readonly issuer: string;
  /** The URL that the metadata was found at; the base of the default endpoints. */
  readonly server: string;
  /**
   * The metadata. Undefined for a server of the first MCP revision with OAuth, which has default endpoints instead.
   */
  readonly metadata: AuthorizationServerMetadata | undefined;
  /** The value of the `resource` parameter, as the upstream wrote it; undefined to send none. */
  readonly resource: string | undefined;
  /** Scopes that the upstream asked for, or that it supports. */
  readonly scope: string | undefined;
  /** Whether the answer of the authorization server must name its issuer (RFC 9207). */
  readonly namesIssuer: boolean;
}

/** The refusal of a request without a token, from the upstream. */
export interface Challenge {
  readonly status: number;
  readonly header: string | undefined;
}

export interface ChallengeParameters {
  readonly resourceMetadata: URL | undefined;
  readonly scope: string | undefined;
  readonly error: string | undefined;
}

/** The parameters of a `WWW-Authenticate` header. */
export async function readChallenge({ header }: Challenge): Promise<ChallengeParameters> {
  if (header === undefined) return { resourceMetadata: undefined, scope: undefined, error: undefined };
  const { extractWWWAuthenticateParams } = await oauthLibrary();
  const found = extractWWWAuthenticateParams(new Response(null, { headers: { 'WWW-Authenticate': header } }));
  return { resourceMetadata: found.resourceMetadataUrl, scope: found.scope, error: found.error };
}

export interface DiscoveryOptions {
  /** The URL of the upstream. */
  readonly url: string;
  readonly settings: LoginSettings;
  readonly fetch: Fetch;
  /** The refusal of a request, if there was one. */
  readonly challenge: Challenge | undefined;
  /** The authorization server that the card of an agent names. */
  readonly card?: LoginServer | undefined;
}

export async function discover(options: DiscoveryOptions): Promise<LoginPlan> {
  const { url, settings } = options;
  const challenge = options.challenge && (await readChallenge(options.challenge));
  const protectedBy = await resourceMetadata(options, challenge?.resourceMetadata);
  const resource = protectedBy && (await checkedResource(url, protectedBy, settings));
  const { card } = options;
  const named = settings.issuer ?? protectedBy?.authorization_servers?.[0] ?? card?.issuer;
  if (named === undefined && card?.authorizationUrl !== undefined && card.tokenUrl !== undefined)
    return planOfCard(card, card.authorizationUrl, card.tokenUrl, settings);
  const server = named ?? new URL('/', url).href;
  securedUrl(server, 'the URL of the authorization server');
  const metadata = await serverMetadata(server, options);
  if (metadata) checkMetadata(metadata, settings);
  const supported = protectedBy?.scopes_supported;
  return {
    issuer: metadata?.issuer ?? server,
    server,
    metadata,
    resource: hasQuirk(settings, 'no-resource') ? undefined : resource,
    scope: challenge?.scope ?? spaced(supported) ?? spaced(card?.scopes),
    namesIssuer: metadata?.authorization_response_iss_parameter_supported === true,
  };
}

const spaced = (scopes: readonly string[] | undefined): string | undefined =>
  scopes && scopes.length > 0 ? scopes.join(' ') : undefined;

/** A card may name the endpoints themselves. Their origin identifies the authorization server. */
function planOfCard(card: LoginServer, authorizationUrl: string, tokenUrl: string, settings: LoginSettings): LoginPlan {
  const issuer = securedUrl(tokenUrl, 'the token URL in the card of the agent').origin;
  const metadata = {
    issuer,
    authorization_endpoint: authorizationUrl,
    token_endpoint: tokenUrl,
    response_types_supported: ['code'],
    ...(card.pkce && { code_challenge_methods_supported: ['S256'] }),
  } as AuthorizationServerMetadata;
  checkMetadata(metadata, settings);
  return { issuer, server: issuer, metadata, resource: undefined, scope: spaced(card.scopes), namesIssuer: false };
}

async function resourceMetadata(
  { url, fetch }: DiscoveryOptions,
  named: URL | undefined,
): Promise<ResourceMetadata | undefined> {
  const { discoverOAuthProtectedResourceMetadata } = await oauthLibrary();
  // AUC-01: the URL of the challenge first, then the well-known paths.
  for (const resourceMetadataUrl of named ? [named, undefined] : [undefined]) {
    if (resourceMetadataUrl) securedUrlOf(resourceMetadataUrl.href, url);
    try {
      return await discoverOAuthProtectedResourceMetadata(
        url,
        { ...(resourceMetadataUrl && { resourceMetadataUrl }) },
        fetch,
      );
    } catch (error) {
      if (isRefused(error)) throw refusedUrl('resource-metadata', error);
    }
  }
  return undefined;
}

/** The metadata of the upstream itself may use http if the operator configured the upstream with http. */
function securedUrlOf(named: string, upstream: string): void {
  if (new URL(named).origin !== new URL(upstream).origin) securedUrl(named, 'the URL of the resource metadata');
}

/** AUC-03: a metadata document for another resource would give the gateway a token for that resource. */
async function checkedResource(url: string, { resource }: ResourceMetadata, settings: LoginSettings): Promise<string> {
  const { checkResourceAllowed, resourceUrlFromServerUrl } = await oauthLibrary();
  const requestedResource = resourceUrlFromServerUrl(url);
  if (hasQuirk(settings, 'any-resource') || checkResourceAllowed({ requestedResource, configuredResource: resource }))
    return resource;
  throw new LoginError(
    'resource',
    'the resource metadata of the server is for another resource than the configured URL',
    'correct the URL of the server, or set the quirk "any-resource" if the operator of the server confirms the metadata',
  );
}

async function serverMetadata(
  server: string,
  { fetch, settings }: DiscoveryOptions,
): Promise<AuthorizationServerMetadata | undefined> {
  const { discoverAuthorizationServerMetadata, IssuerMismatchError } = await oauthLibrary();
  try {
    return await discoverAuthorizationServerMetadata(server, {
      fetchFn: fetch,
      skipIssuerValidation: hasQuirk(settings, 'any-issuer'),
    });
  } catch (error) {
    if (isRefused(error)) throw refusedUrl('server-metadata', error);
    if (error instanceof IssuerMismatchError)
      throw new LoginError(
        'server-metadata',
        'the metadata of the authorization server names an issuer that is not the requested issuer',
        'set "issuer" to the value in the metadata, or the quirk "any-issuer" for servers with one document for all tenants',
      );
    throw new LoginError(
      'server-metadata',
      'the metadata of the authorization server cannot be read',
      'run: parley auth doctor, which shows each URL and its answer',
    );
  }
}

const ENDPOINTS = ['authorization_endpoint', 'token_endpoint', 'registration_endpoint'] as const;

function checkMetadata(metadata: AuthorizationServerMetadata, settings: LoginSettings): void {
  for (const name of ENDPOINTS) {
    const url = metadata[name];
    if (url !== undefined) securedUrl(url, `${name} in the metadata of the authorization server`);
  }
  const methods = metadata.code_challenge_methods_supported;
  if (methods?.includes('S256') || (methods === undefined && hasQuirk(settings, 'assume-pkce'))) return;
  throw new LoginError(
    'pkce',
    'the metadata of the authorization server does not offer PKCE with S256',
    methods === undefined
      ? 'set the quirk "assume-pkce" if the server supports PKCE without saying so, as Microsoft Entra does'
      : 'use another authorization server: a sign-in without PKCE is not safe',
  );
}

/** The egress rules refused a URL. The name is compared, because this layer does not know the HTTP clients. */
const isRefused = (error: unknown): error is Error => error instanceof Error && error.name === 'EgressRefused';

const refusedUrl = (hop: 'resource-metadata' | 'server-metadata', { message }: Error): LoginError =>
  new LoginError(
    hop,
    `a URL that the server names is refused: ${message}`,
    'allow the host in "egress" if it is right, or set "issuer" to the authorization server',
  );
