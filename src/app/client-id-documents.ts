/** The metadata documents of clients, from URLs that anybody may send (S16). */
import { BoundedCache } from '../core/bounded-cache.js';
import type { Egress } from '../outbound/egress.js';
import { type BufferedReply, bufferedRequest, type HttpClient, headerOf } from '../outbound/http/index.js';

const LIMITS = { time: 2_500, size: 64 * 1024 };
/**
 * How long a document, or the failure to get the document, is reused. A flood of requests to the gateway therefore
 * causes no flood of requests to the server of the document.
 */
const RECENT = 10_000;
const MOST_RECENT = 200;
/** Maximum number of documents that are fetched at the same time. */
const CONCURRENT = 16;
const KEPT_HEADERS = ['cache-control', 'content-type', 'expires'];

export class ClientDocuments {
  private readonly recent = new BoundedCache<string, { readonly at: number; readonly reply: Promise<BufferedReply> }>(
    MOST_RECENT,
  );
  private running = 0;

  constructor(
    private readonly client: HttpClient,
    private readonly egress: Egress,
  ) {}

  /**
   * Fetches a document over https, through the connector that refuses private addresses. Rejects if there is no
   * document.
   */
  async fetch(text: string): Promise<Response> {
    const url = this.egress.checkUrl(text);
    if (url.protocol !== 'https:') throw new Error('the document of a client must be at an https URL');
    const { status, headers, body } = await this.reply(url);
    if (status !== 200) throw new Error(`the document of the client has the status ${status}`);
    const kept: Record<string, string> = {};
    for (const name of KEPT_HEADERS) {
      const value = headerOf(headers, name);
      if (value !== undefined) kept[name] = value;
    }
    return new Response(new Uint8Array(body), { status, headers: kept });
  }

  private reply(url: URL): Promise<BufferedReply> {
    const known = this.recent.get(url.href);
    if (known && performance.now() - known.at < RECENT) return known.reply;
    if (this.running >= CONCURRENT) throw new Error('too many documents of clients are being fetched');
    this.running++;
    const request = { method: 'GET', headers: ['Accept', 'application/json'] } as const;
    const reply = bufferedRequest(this.client, url, request, LIMITS).finally(() => this.running--);
    this.recent.set(url.href, { at: performance.now(), reply });
    return reply;
  }
}
