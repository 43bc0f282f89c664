/**
 * The gateway as a client of an authorization server: pre-registered, by a metadata document, or registered by request.
 */
import type { UpstreamClientKey } from '../../state/index.js';
import type { LoginPlan } from './discovery.js';
import { LoginError } from './login-error.js';
import { hasQuirk, type LoginSettings } from './login-settings.js';
import { type ClientInformation, type Fetch, oauthLibrary } from './oauth-library.js';

export interface ClientStore {
  get<T>(key: UpstreamClientKey): Promise<T | undefined>;
  add<T extends object>(key: UpstreamClientKey, client: T): Promise<T>;
  remove(key: UpstreamClientKey): Promise<void>;
}

export interface RegistrationOptions {
  readonly upstream: string;
  readonly plan: LoginPlan;
  readonly settings: LoginSettings;
  readonly redirectUri: string;
  /** The URL of the gateway's own Client ID Metadata Document; undefined if the gateway has no https URL. */
  readonly documentUrl: string | undefined;
  readonly scope: string | undefined;
  readonly clients: ClientStore;
  readonly fetch: Fetch;
}

/** The name that users see at the authorization server. */
export const CLIENT_NAME = 'Parley';

/** The metadata of the gateway as a client: the document, and the body of a registration. */
export const clientMetadata = (redirectUri: string, name = CLIENT_NAME) => ({
  client_name: name,
  redirect_uris: [redirectUri],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
});

/** The ways by which the gateway can become a client, best first (AUC-07 to 09). */
export type Way = 'static' | 'metadata' | 'dynamic';

/** The ways that the settings and the authorization server allow, in the order in which they are tried. */
export function waysOf(
  { metadata }: Pick<LoginPlan, 'metadata'>,
  settings: LoginSettings,
  documentUrl: string | undefined,
): Way[] {
  const { registration = 'auto', clientId } = settings;
  if (registration !== 'auto') return [registration];
  if (clientId !== undefined) return ['static'];
  const ways: Way[] = [];
  if (metadata?.client_id_metadata_document_supported === true && documentUrl !== undefined) ways.push('metadata');
  if (metadata === undefined || metadata.registration_endpoint !== undefined) ways.push('dynamic');
  return ways;
}

/** The gateway's client at the authorization server. */
export async function clientAt(options: RegistrationOptions): Promise<ClientInformation> {
  const { plan, settings, documentUrl } = options;
  const [way] = waysOf(plan, settings, documentUrl);
  switch (way) {
    case 'static':
      return configuredClient(options);
    case 'metadata': {
      const client_id = settings.clientId ?? documentUrl;
      if (client_id !== undefined) return { client_id, token_endpoint_auth_method: 'none' } as ClientInformation;
      throw new LoginError(
        'registration',
        'the gateway has no https URL for its Client ID Metadata Document',
        'set "publicUrl" to the https URL of the gateway, or "clientId" to the URL of a document that you publish',
      );
    }
    case 'dynamic':
      return registeredClient(options);
    default:
      throw new LoginError(
        'registration',
        'the authorization server accepts neither a metadata document nor a registration of the gateway',
        'register the gateway there by hand, and set "clientId" (and "clientSecret")',
      );
  }
}

const keyOf = ({ plan, upstream, redirectUri }: RegistrationOptions): UpstreamClientKey => ({
  issuer: plan.issuer,
  upstream,
  redirectUri,
});

/** A configured client belongs to the issuer that the operator named, or else to the issuer of its first use. */
async function configuredClient(options: RegistrationOptions): Promise<ClientInformation> {
  const { settings, plan, clients, upstream } = options;
  const { clientId, clientSecret } = settings;
  if (clientId === undefined)
    throw new LoginError('registration', 'there is no "clientId"', 'set "clientId", or another "registration"');
  if (settings.issuer === undefined) {
    const pin = { issuer: '', upstream, redirectUri: clientId };
    const { issuer } = await clients.add(pin, { issuer: plan.issuer });
    if (issuer !== plan.issuer)
      throw new LoginError(
        'registration',
        'the configured client was used at a different authorization server than the one that the server names now',
        'set "issuer" to the authorization server at which the client is registered',
      );
  }
  const method = hasQuirk(settings, 'secret-in-body')
    ? 'client_secret_post'
    : hasQuirk(settings, 'secret-in-header')
      ? 'client_secret_basic'
      : undefined;
  return {
    client_id: clientId,
    ...(clientSecret !== undefined && { client_secret: clientSecret }),
    ...(method !== undefined && clientSecret !== undefined && { token_endpoint_auth_method: method }),
  } as ClientInformation;
}

interface StoredClient {
  readonly client: ClientInformation;
}

async function registeredClient(options: RegistrationOptions): Promise<ClientInformation> {
  const { clients } = options;
  const key = keyOf(options);
  const known = await clients.get<StoredClient>(key);
  if (known && !hasExpired(known.client)) return known.client;
  if (known) await clients.remove(key);
  const client = await register(options);
  return (await clients.add<StoredClient>(key, { client })).client;
}

function hasExpired(client: ClientInformation): boolean {
  const at = (client as { client_secret_expires_at?: number }).client_secret_expires_at;
  return at !== undefined && at > 0 && at * 1000 <= Date.now();
}

async function register(options: RegistrationOptions): Promise<ClientInformation> {
  const { plan, settings, redirectUri, scope, fetch } = options;
  const { registerClient, resolveClientMetadata } = await oauthLibrary();
  const methods = plan.metadata?.token_endpoint_auth_methods_supported;
  const method = registeredMethod(methods, settings);
  const metadata = { ...clientMetadata(redirectUri, settings.clientName), token_endpoint_auth_method: method };
  const resolved = resolveClientMetadata({
    clientMetadata: metadata,
    redirectUrl: redirectUri,
  } as unknown as Parameters<typeof resolveClientMetadata>[0]);
  const attempt = (asked: string | undefined): Promise<ClientInformation> =>
    registerClient(plan.server, {
      ...(plan.metadata && { metadata: plan.metadata }),
      clientMetadata: resolved,
      ...(asked !== undefined && { scope: asked }),
      fetchFn: fetch,
    });
  try {
    return await attempt(scope).catch((error: unknown) => {
      // AUC-09: some servers know the scopes of resources only in authorization requests.
      if (scope === undefined || statusOf(error) !== 400) throw error;
      return attempt(undefined);
    });
  } catch (error) {
    const status = statusOf(error);
    throw new LoginError(
      'registration',
      `the authorization server refused to register the gateway${status === undefined ? '' : ` (HTTP ${status})`}`,
      'register the gateway there by hand, and set "clientId" (and "clientSecret")',
    );
  }
}

const statusOf = (error: unknown): number | undefined => {
  const { status } = error as { status?: unknown };
  return typeof status === 'number' ? status : undefined;
};

function registeredMethod(methods: readonly string[] | undefined, settings: LoginSettings): string {
  if (hasQuirk(settings, 'secret-in-body')) return 'client_secret_post';
  if (hasQuirk(settings, 'secret-in-header')) return 'client_secret_basic';
  // RFC 8414: the default of a server that names no method is client_secret_basic.
  if (methods === undefined || methods.length === 0) return 'client_secret_basic';
  return ['client_secret_basic', 'client_secret_post', 'none'].find((each) => methods.includes(each)) ?? methods[0]!;
}

/** Forgets a registration that the authorization server no longer knows. */
export const forgetClient = (options: RegistrationOptions): Promise<void> => options.clients.remove(keyOf(options));
