/** How assessments reach a server or agent of the configuration. */
import type { Config } from '../config/schema.js';
import { GATEWAY } from '../core/caller.js';
import { apiKeySource, basicSource } from '../identity/upstream/configured-key.js';
import { type Credential, CredentialsBySource, configuredCredential } from '../identity/upstream-credentials.js';
import { HttpClient, proxyRuleOf } from '../outbound/http/index.js';

export type UpstreamSettings = Config['servers'][string] | Config['agents'][string];

const CONNECT_TIMEOUT = 5_000;

/** The headers that are the same for all callers: the configured headers, and an API key or a password. */
export async function fixedHeaders({ url, headers, auth }: UpstreamSettings): Promise<[string, string][]> {
  const sources = new CredentialsBySource([basicSource, apiKeySource]);
  const target = { kind: 'server', name: '', url: url ?? '', configured: configuredCredential(headers), auth } as const;
  const credential: Credential = await sources.for(GATEWAY, target);
  const names = credential.headers.filter((_, i) => i % 2 === 0);
  return names.map((name, i) => [name, credential.headers[2 * i + 1]!]);
}

/** A client with the proxy and the certificates of the settings. */
export const clientFor = ({ proxy, tls }: Pick<UpstreamSettings, 'proxy' | 'tls'>): HttpClient =>
  new HttpClient({ connectTimeout: CONNECT_TIMEOUT, proxy: proxyRuleOf(proxy, undefined), tls });
