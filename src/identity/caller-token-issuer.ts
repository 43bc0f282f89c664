/** The metadata and the keys of the issuers whose access tokens callers present. */
import type { JSONWebKeySet } from 'jose';
import { isObject } from '../protocol/jsonrpc/raw.js';
import { metadataUrls } from './issuer-metadata-urls.js';

/** Fetches a JSON document; rejects if there is none. */
export type FetchJson = (url: string) => Promise<unknown>;

export type IssuerMetadata = Readonly<Record<string, unknown>> & { readonly issuer: string };

/** The metadata of an issuer. A document that names another issuer is refused, because anybody could publish it. */
export async function issuerMetadata(issuer: string, fetchJson: FetchJson): Promise<IssuerMetadata> {
  const problems: string[] = [];
  for (const url of metadataUrls(issuer)) {
    let document: unknown;
    try {
      document = await fetchJson(url);
    } catch (error) {
      problems.push(`${url}: ${error instanceof Error ? error.message : String(error)}`);
      continue;
    }
    if (isObject(document) && document['issuer'] === issuer) return document as IssuerMetadata;
    const named = isObject(document) ? JSON.stringify(document['issuer']) : 'none';
    problems.push(`${url}: the document names the issuer ${named}`);
  }
  throw new Error(`the issuer ${issuer} has no usable metadata (${problems.join('; ')})`);
}

/** The keys of an issuer: at the configured URL, or at the URL that its metadata names. */
export async function issuerKeys(
  issuer: string,
  configured: string | undefined,
  fetchJson: FetchJson,
): Promise<JSONWebKeySet> {
  const url = configured ?? keysUrl(await issuerMetadata(issuer, fetchJson));
  const document = await fetchJson(url);
  const keys = isObject(document) ? document['keys'] : undefined;
  if (!Array.isArray(keys)) throw new Error(`${url} is not a JSON Web Key Set`);
  return { keys: keys.filter(isObject) as unknown as JSONWebKeySet['keys'] };
}

/** Keys of an https issuer never come over plain HTTP, and never from a URL that is not HTTP (S9). */
function keysUrl({ issuer, jwks_uri: url }: IssuerMetadata): string {
  if (typeof url !== 'string' || !URL.canParse(url)) throw new Error(`the metadata of ${issuer} has no jwks_uri`);
  const { protocol } = new URL(url);
  if (protocol !== 'https:' && !(protocol === 'http:' && issuer.startsWith('http:')))
    throw new Error(`the metadata of ${issuer} has a jwks_uri that is not https`);
  return url;
}
