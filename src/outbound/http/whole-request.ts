import { sleep } from '../../core/timing.js';
import type { OAuthHttp, OAuthReply, OAuthRequest } from '../../identity/upstream/oauth-http.js';
import type { HttpClient } from './client.js';
import { type Abortable, HttpError, httpTarget } from './exchange.js';

export interface WholeRequestLimits {
  /** Milliseconds for the whole exchange. */
  readonly time: number;
  /** The most bytes of an answer. */
  readonly size: number;
}

const LIMITS: WholeRequestLimits = { time: 10_000, size: 256 * 1024 };

/** Requests whose whole answer fits in memory, to services that the operator named. Follows no redirect. */
export class WholeRequests implements OAuthHttp {
  constructor(
    private readonly client: Pick<HttpClient, 'request'>,
    private readonly limits: WholeRequestLimits = LIMITS,
  ) {}

  send({ method, url, headers, body }: OAuthRequest): Promise<OAuthReply> {
    return new Promise((resolve, reject) => {
      let status = 0;
      let size = 0;
      const chunks: Buffer[] = [];
      let wire: Abortable | undefined;
      const over = new AbortController();
      const stop = (error: Error): void => {
        over.abort();
        reject(error);
        wire?.abort();
      };
      void sleep(this.limits.time, { until: over.signal }).then(() => {
        if (!over.signal.aborted) stop(new HttpError('ETIMEDOUT', 'no answer in time'));
      });
      wire = this.client.request(
        httpTarget(url),
        { method, headers, ...(body !== undefined && { body: Buffer.from(body) }) },
        {
          start: (code) => {
            status = code;
          },
          data: (chunk) => {
            size += chunk.length;
            if (size > this.limits.size) stop(new HttpError('HTTP_INVALID', 'the answer is too large'));
            else chunks.push(chunk);
          },
          end: () => {
            over.abort();
            resolve({ status, body: Buffer.concat(chunks).toString('utf8') });
          },
          fail: ({ error }) => {
            over.abort();
            reject(error);
          },
        },
      );
    });
  }
}
