/** The configuration of oidc-provider. This file is loaded only if `auth.builtin` is enabled. */
import { type AccessToken, type Configuration, errors, type KoaContextWithOIDC, Provider } from 'oidc-provider';
import type { OAuthUser } from '../../state/index.js';
import { type ClientMetadata, checkClient } from './client-rules.js';
import { FLOW_COOKIES, INTERACTION_LIFE, OWN_CLIENT, PATHS, sessionCookie } from './paths.js';
import { RecordAdapter, type RecordAdapterOptions, USED_CLIENT } from './record-adapter.js';
import { recordId } from './record-id.js';
import { ALGORITHM, type CurrentKeys } from './signing-keys.js';

export interface ProviderSettings {
  readonly issuer: string;
  /** The current time in milliseconds. */
  readonly accessTokenLife: number;
  readonly refreshTokenLife: number;
  readonly sessionLife: number;
  readonly registration: boolean;
  readonly clientMetadata: boolean;
  /** The scopes of the gateway's resources. */
  readonly scopes: readonly string[];
}

export interface ProviderOptions {
  readonly settings: ProviderSettings;
  readonly keys: CurrentKeys;
  readonly storage: RecordAdapterOptions;
  user(id: string): Promise<OAuthUser | undefined>;
  /** Whether the gateway is or contains this resource (RFC 8707). */
  isOurs(resource: string): boolean;
  /** Fetches the metadata document of a client through the safe connector (S16). */
  fetch(url: string): Promise<Response>;
  /** Writes an error page. */
  errorPage(error: { readonly error: string; readonly description: string | undefined }): string;
  failed(error: unknown): void;
  /** Called when a code or a refresh token was used twice, which ended its grant. */
  reused(by: { readonly account: string | undefined; readonly client: string | undefined }): void;
}

const seconds = (milliseconds: number): number => Math.max(1, Math.floor(milliseconds / 1_000));
/** The errors of oidc-provider and of our storage. */
const REUSED = /already (used|consumed)|used already/;
const CODE_LIFE = 60_000;

export function buildProvider(options: ProviderOptions): Provider {
  const { settings, storage, failed, reused } = options;
  const provider = new Provider(settings.issuer, configuration(options));
  provider.on('server_error', (_ctx, error) => failed(error));
  provider.on('grant.error', (ctx, error) => {
    if (!REUSED.test(`${error.error_detail ?? ''} ${error.error_description ?? ''}`)) return;
    reused({ account: ctx.oidc.account?.accountId, client: ctx.oidc.client?.clientId });
  });
  // Each use extends the life of the client's record.
  provider.on('grant.success', (ctx) => {
    const id = ctx.oidc.client?.clientId;
    if (id !== undefined)
      storage.records
        .extend('Client', recordId(id), storage.now() + USED_CLIENT)
        .catch((error: unknown) => failed(error));
  });
  return provider;
}

function configuration(options: ProviderOptions): Configuration {
  const { settings, keys, storage, user, errorPage } = options;
  const secure = settings.issuer.startsWith('https:');
  const browserOnly = { httpOnly: true, sameSite: 'lax', overwrite: true, secure } as const;
  const base = new URL(settings.issuer).pathname.replace(/\/$/, '');
  return {
    adapter: (model: string) => new RecordAdapter(model, storage),
    jwks: { keys: [keys.signing as Required<Configuration>['jwks']['keys'][number]] },
    cookies: {
      keys: [keys.secret],
      names: { ...FLOW_COOKIES, session: sessionCookie(secure) },
      long: { ...browserOnly, signed: true, path: '/' },
      // The HTTP layer binds these two cookies to the browser by a keyed digest.
      short: { ...browserOnly, signed: false },
    },
    features: {
      devInteractions: { enabled: false },
      // The metadata names only what the gateway serves: it has no route for pushed requests, and reads bearer tokens.
      pushedAuthorizationRequests: { enabled: false },
      dPoP: { enabled: false },
      userinfo: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      registration: { enabled: settings.registration, initialAccessToken: false, issueRegistrationAccessToken: false },
      revocation: { enabled: true, allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId },
      resourceIndicators: resourceIndicators(options),
      clientIdMetadataDocument: { enabled: settings.clientMetadata, ack: 'draft-02' },
    },
    fetch: (url) => options.fetch(String(url instanceof Request ? url.url : url)),
    extraClientMetadata: {
      properties: ['parley_rules'],
      validator: (_ctx, _key, _value, metadata) => checkClient(metadata as ClientMetadata),
    },
    clients: [
      {
        client_id: OWN_CLIENT.id,
        client_name: 'Parley',
        redirect_uris: [settings.issuer + OWN_CLIENT.returnPath],
        grant_types: ['authorization_code'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      },
    ],
    loadExistingGrant,
    clientDefaults: {
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      id_token_signed_response_alg: ALGORITHM,
    },
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
    enabledJWA: { idTokenSigningAlgValues: [ALGORITHM] },
    responseTypes: ['code'],
    scopes: ['openid', 'offline_access', ...settings.scopes],
    claims: { openid: ['sub'] },
    pkce: { required: () => true },
    routes: {
      authorization: PATHS.authorize,
      jwks: PATHS.keys,
      registration: PATHS.register,
      revocation: PATHS.revoke,
      token: PATHS.token,
    },
    ttl: {
      AccessToken: seconds(settings.accessTokenLife),
      AuthorizationCode: seconds(CODE_LIFE),
      Grant: seconds(settings.refreshTokenLife),
      IdToken: 600,
      Interaction: seconds(INTERACTION_LIFE),
      RefreshToken: seconds(settings.refreshTokenLife),
      Session: seconds(settings.sessionLife),
    },
    interactions: { url: (_ctx, interaction) => `${base}${PATHS.interaction}/${interaction.uid}` },
    findAccount: async (_ctx, id) => (await user(id)) && { accountId: id, claims: async () => ({ sub: id }) },
    issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    // Closing the browser ends no grant: an agent works while its user is away.
    expiresWithSession: () => false,
    extraTokenClaims: async (_ctx, token) => tokenClaims(options, token as AccessToken),
    clientBasedCORS: () => true,
    renderError: (ctx, out) => {
      ctx.type = 'html';
      ctx.body = errorPage({ error: out.error, description: out.error_description });
    },
  };
}

/** The gateway's own pages need no consent: they learn only who is signed in, and no token is made for them. */
async function loadExistingGrant(ctx: KoaContextWithOIDC) {
  const { client, session, result, provider, account } = ctx.oidc;
  const clientId = client?.clientId ?? '';
  const known = result?.consent?.grantId ?? session?.grantIdFor(clientId);
  const grant = known === undefined ? undefined : await provider.Grant.find(known);
  if (clientId !== OWN_CLIENT.id || grant || !account) return grant;
  const own = new provider.Grant({ accountId: account.accountId, clientId });
  own.addOIDCScope('openid');
  await own.save();
  return own;
}

function resourceIndicators({ settings, isOurs }: ProviderOptions) {
  const info = {
    scope: settings.scopes.join(' '),
    accessTokenFormat: 'jwt' as const,
    accessTokenTTL: seconds(settings.accessTokenLife),
    jwt: { sign: { alg: ALGORITHM as 'ES256' } },
  };
  return {
    enabled: true,
    // Clients of older revisions name no resource: their tokens are for the gateway as a whole.
    defaultResource: (_ctx: KoaContextWithOIDC, _client: unknown, oneOf?: readonly string[]) =>
      oneOf?.[0] ?? settings.issuer,
    useGrantedResource: () => true,
    getResourceServerInfo: (_ctx: KoaContextWithOIDC, resource: string) => {
      if (!isOurs(resource)) throw new errors.InvalidTarget('this resource is not a URL of the gateway');
      return { ...info, audience: resource };
    },
  };
}

/** The claims from which the gateway makes the caller: its roles, its tenant, and the grant for revocations. */
async function tokenClaims({ user }: ProviderOptions, token: AccessToken): Promise<Record<string, unknown>> {
  const known = token.accountId === undefined ? undefined : await user(token.accountId);
  return {
    gid: recordId(token.grantId ?? ''),
    roles: known?.roles ?? [],
    ...(known?.tenant !== undefined && { tenant: known.tenant }),
  };
}
