/**
 * Finds the token endpoint at which the gateway gets tokens for a server or agent: in the metadata of the authorization
 * server (RFC 8414, OpenID Connect Discovery).
 */
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { metadataUrls } from '../issuer-metadata-urls.js';
import { jsonObjectIn, type OAuthHttp } from './oauth-http.js';

export interface AuthorizationServerMetadata {
  readonly tokenEndpoint: string;
  /** The client authentication methods that the issuer supports; RFC 8414 §2 names the default. */
  readonly authMethods: readonly string[];
}

/** Metadata that cannot be used. The message is for operators. */
export class MetadataError extends Error {
  override readonly name = 'MetadataError';
}

const FRESH_MS = 600_000;
const DEFAULT_METHODS = ['client_secret_basic'];

/** Caches the metadata of one issuer. */
export class AuthorizationServerDiscovery {
  private known: { readonly metadata: AuthorizationServerMetadata; readonly at: number } | undefined;

  constructor(
    private readonly http: OAuthHttp,
    private readonly issuer: string,
  ) {}

  async get(): Promise<AuthorizationServerMetadata> {
    if (this.known && performance.now() - this.known.at < FRESH_MS) return this.known.metadata;
    const metadata = await this.discover();
    this.known = { metadata, at: performance.now() };
    return metadata;
  }

  private async discover(): Promise<AuthorizationServerMetadata> {
    const answers: string[] = [];
    for (const url of metadataUrls(this.issuer)) {
      const { status, body } = await this.http.send({ method: 'GET', url, headers: ['accept', 'application/json'] });
      const document = status === 200 ? jsonObjectIn(body) : undefined;
      if (document) return this.read(document);
      answers.push(status === 200 ? 'no JSON object' : `HTTP ${status}`);
    }
    throw new MetadataError(`the issuer has no metadata (${[...new Set(answers)].join(', ')})`);
  }

  /** The issuer in the document must be the configured one: otherwise another party answers for it (RFC 8414 §3.3). */
  private read(document: JsonObject): AuthorizationServerMetadata {
    const { issuer, token_endpoint: endpoint, token_endpoint_auth_methods_supported: methods } = document;
    if (typeof issuer !== 'string' || withoutSlash(issuer) !== withoutSlash(this.issuer))
      throw new MetadataError('the metadata names another issuer than the configured one');
    if (typeof endpoint !== 'string' || !isUsable(endpoint, this.issuer))
      throw new MetadataError('the metadata names no token endpoint with an https:// URL');
    const supported = Array.isArray(methods) ? methods.filter((each) => typeof each === 'string') : DEFAULT_METHODS;
    return { tokenEndpoint: endpoint, authMethods: supported };
  }
}

const withoutSlash = (url: string): string => url.replace(/\/$/, '');

/** S9: https; http only if the operator configured the issuer itself with http. */
function isUsable(url: string, issuer: string): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, username, password } = new URL(url);
  if (username !== '' || password !== '') return false;
  return protocol === 'https:' || (protocol === 'http:' && issuer.startsWith('http:'));
}
