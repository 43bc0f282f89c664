/** A client of the official TypeScript SDK with an OAuth provider that keeps everything in memory. */
import {
  Client,
  type OAuthClientProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { allow, PageReader, type SignIn } from './page-reader.js';

type Stored<K extends 'clientInformation' | 'tokens'> = Exclude<Awaited<ReturnType<OAuthClientProvider[K]>>, undefined>;

export const REDIRECT = 'http://localhost:33418/callback';

export class MemoryProvider implements OAuthClientProvider {
  readonly redirectUrl: string = REDIRECT;
  readonly clientMetadataUrl?: string;
  client: Stored<'clientInformation'> | undefined;
  saved: Stored<'tokens'> | undefined;
  asked: URL | undefined;
  verifier = '';

  constructor(metadataUrl?: string) {
    if (metadataUrl !== undefined) this.clientMetadataUrl = metadataUrl;
  }

  get clientMetadata() {
    return {
      client_name: 'Test client',
      redirect_uris: [this.redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    };
  }

  clientInformation() {
    return this.client;
  }

  saveClientInformation(client: Stored<'clientInformation'>) {
    this.client = client;
  }

  tokens() {
    return this.saved;
  }

  saveTokens(tokens: Stored<'tokens'>) {
    this.saved = tokens;
  }

  redirectToAuthorization(url: URL) {
    this.asked = url;
  }

  saveCodeVerifier(verifier: string) {
    this.verifier = verifier;
  }

  codeVerifier() {
    return this.verifier;
  }
}

export const transportTo = (url: string, provider: OAuthClientProvider): StreamableHTTPClientTransport =>
  new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });

/** Connects with the tokens of the provider. */
export async function connect(url: string, provider: OAuthClientProvider): Promise<Client> {
  const client = new Client({ name: 'oauth-test', version: '1' });
  await client.connect(transportTo(url, provider));
  return client;
}

/**
 * Connects without tokens: the SDK discovers the server, registers and asks for a code; the page reader signs in; the
 * SDK exchanges the code for tokens.
 */
export async function signIn(
  url: string,
  provider: MemoryProvider,
  user: SignIn,
  reader?: PageReader,
): Promise<Client> {
  const transport = transportTo(url, provider);
  const first = new Client({ name: 'oauth-test', version: '1' });
  const failure = await first.connect(transport).then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(failure instanceof UnauthorizedError)) throw failure ?? new Error('the gateway asked for no token');
  const browser = reader ?? new PageReader(provider.asked!.origin);
  const back = await allow(browser, provider.asked!.href, user);
  await transport.finishAuth(back.searchParams);
  return connect(url, provider);
}
