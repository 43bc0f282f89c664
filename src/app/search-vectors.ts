/** The vectors of tool search, if the configuration names an endpoint for them. */
import type { Config } from '../config/schema.js';
import { ToolVectors } from '../core/search/tool-vectors.js';
import { Embeddings } from '../outbound/embeddings.js';
import { bufferedRequest, HttpClient, proxyRule } from '../outbound/http/index.js';
import type { Log } from '../telemetry/log.js';

/** Time limit for a batch of vectors, in milliseconds; a search waits for a shorter time. */
const LIMITS = { time: 30_000, size: 16 * 1024 * 1024 };

export interface SearchVectors {
  readonly tools: ToolVectors;
  close(): Promise<void>;
}

export function searchVectors(
  { url, model, key, weight, timeout }: Config['routing']['vectors'],
  connectTimeout: number,
  log: Log,
): SearchVectors | undefined {
  if (url === undefined || weight === 0) return undefined;
  const client = new HttpClient({ connectTimeout, proxy: proxyRule(undefined) });
  const embedder = new Embeddings({
    url,
    model,
    key,
    post: (to, headers, body) =>
      bufferedRequest(client, to, { method: 'POST', headers, body: Buffer.from(body) }, LIMITS),
  });
  return {
    tools: new ToolVectors({ embedder, weight: weight / 100, patience: timeout, log }),
    close: async () => client.close(),
  };
}
