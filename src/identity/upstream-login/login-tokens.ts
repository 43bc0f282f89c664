/** The tokens of one user at one upstream, and the requests to the token endpoint. */
import type { Tokens } from '../vault/vault.js';
import type { LoginPlan } from './discovery.js';
import { LoginError } from './login-error.js';
import { type AuthorizationServerMetadata, type ClientInformation, type Fetch, oauthLibrary } from './oauth-library.js';

/** The result of discovery that token requests need. It is stored, so that a renewal needs no discovery. */
export interface TokenServer {
  readonly issuer: string;
  readonly server: string;
  readonly tokenEndpoint: string | undefined;
  readonly methods: readonly string[] | undefined;
  readonly resource: string | undefined;
  readonly namesIssuer: boolean;
}

export const tokenServerOf = ({ issuer, server, metadata, resource, namesIssuer }: LoginPlan): TokenServer => ({
  issuer,
  server,
  tokenEndpoint: metadata?.token_endpoint,
  methods: metadata?.token_endpoint_auth_methods_supported?.slice(0, 20),
  resource,
  namesIssuer,
});

/** The vault's entry for a user who signed in. */
export interface LoginSecret extends Tokens {
  /** Changes with every sign-in and not with a renewal, so that sessions of an earlier account end. */
  readonly login: string;
  /** The scope that the sign-in asked for. */
  readonly requested: string | undefined;
  /** The URL of the upstream at the sign-in. Entries of earlier versions lack it. */
  readonly url?: string | undefined;
  readonly at: TokenServer;
  readonly client: ClientInformation;
}

export interface Granted {
  readonly accessToken: string;
  readonly refreshToken?: string;
  readonly scope?: string;
  readonly expiresAt?: number;
}

/** A token request that failed; `code` is the error code of the authorization server, if it gave one. */
export class TokenError extends LoginError {
  constructor(readonly code: string | undefined) {
    const told = code === undefined ? '' : ` (${code})`;
    super(
      'token',
      `the authorization server gave no token${told}`,
      'sign in again; run parley auth doctor if it fails again',
    );
  }

  /** Whether only a new sign-in can help. */
  get isFinal(): boolean {
    return this.code !== undefined && FINAL.has(this.code);
  }
}

const FINAL: ReadonlySet<string> = new Set([
  'invalid_grant',
  'invalid_client',
  'unauthorized_client',
  'invalid_scope',
  'invalid_target',
  'unsupported_grant_type',
  'invalid_request',
]);

/** Error codes have this form (RFC 6749 §5.2). Other text may contain anything, and is not used. */
const CODE = /^[a-z_]{1,60}$/;

export interface CodeExchange {
  readonly at: TokenServer;
  readonly client: ClientInformation;
  readonly code: string;
  readonly iss: string | undefined;
  readonly verifier: string;
  readonly redirectUri: string;
  readonly fetch: Fetch;
  readonly now: () => number;
}

export function exchangeCode({
  at,
  client,
  code,
  iss,
  verifier,
  redirectUri,
  fetch,
  now,
}: CodeExchange): Promise<Granted> {
  return tokenRequest(now, async ({ exchangeAuthorization }) =>
    exchangeAuthorization(at.server, {
      ...metadataOf(at),
      clientInformation: client,
      authorizationCode: code,
      ...(iss !== undefined && { iss }),
      codeVerifier: verifier,
      redirectUri,
      ...(at.resource !== undefined && { resource: at.resource as unknown as URL }),
      fetchFn: fetch,
    }),
  );
}

export function renew(secret: LoginSecret, refreshToken: string, fetch: Fetch, now: () => number): Promise<Granted> {
  const { at, client } = secret;
  return tokenRequest(now, async ({ refreshAuthorization }) =>
    refreshAuthorization(at.server, {
      ...metadataOf(at),
      clientInformation: client,
      refreshToken,
      ...(at.resource !== undefined && { resource: at.resource as unknown as URL }),
      fetchFn: fetch,
    }),
  );
}

type Library = Awaited<ReturnType<typeof oauthLibrary>>;
type SdkTokens = Awaited<ReturnType<Library['exchangeAuthorization']>>;

async function tokenRequest(now: () => number, run: (library: Library) => Promise<SdkTokens>): Promise<Granted> {
  const library = await oauthLibrary();
  let tokens: SdkTokens;
  try {
    tokens = await run(library);
  } catch (error) {
    // The messages of the library contain the body of the answer, so they are not passed on.
    const code = error instanceof library.OAuthError ? String(error.code) : undefined;
    throw new TokenError(code !== undefined && CODE.test(code) ? code : undefined);
  }
  const { access_token, refresh_token, scope, expires_in, token_type } = tokens;
  if (token_type.toLowerCase() !== 'bearer' || !isSendable(access_token)) throw new TokenError(undefined);
  const lifetime = Number(expires_in);
  return {
    accessToken: access_token,
    ...(refresh_token !== undefined && { refreshToken: refresh_token }),
    ...(scope !== undefined && { scope }),
    ...(Number.isFinite(lifetime) && lifetime > 0 && { expiresAt: now() + Math.min(lifetime, MOST_LIFETIME) * 1000 }),
  };
}

const MOST_LIFETIME = 10 * 365 * 24 * 3600;

/** RFC 6750: the characters of a bearer token. Anything else could add a header to the request. */
const isSendable = (token: string): boolean => /^[\x21-\x7e]{1,16384}$/.test(token);

function metadataOf({ issuer, tokenEndpoint, methods, namesIssuer }: TokenServer): {
  metadata?: AuthorizationServerMetadata;
} {
  if (tokenEndpoint === undefined) return {};
  const metadata = {
    issuer,
    token_endpoint: tokenEndpoint,
    authorization_endpoint: tokenEndpoint,
    response_types_supported: ['code'],
    authorization_response_iss_parameter_supported: namesIssuer,
    ...(methods && { token_endpoint_auth_methods_supported: [...methods] }),
  };
  return { metadata: metadata as AuthorizationServerMetadata };
}
