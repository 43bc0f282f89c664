/** One small request whose whole reply is kept in memory, with limits for its time and size. Follows no redirects. */
import { BodyBuffer } from '../../protocol/http/body-buffer.js';
import type { HttpHeaders } from '../../protocol/http/headers.js';
import type { HttpClient } from './client.js';
import { HttpError, type HttpRequest, httpTarget } from './client-types.js';

export interface RequestLimits {
  /** Milliseconds for the request and its whole reply. */
  readonly time: number;
  /** Maximum number of bytes of the reply. */
  readonly size: number;
}

export interface BufferedReply {
  readonly status: number;
  readonly headers: HttpHeaders;
  readonly body: Buffer;
}

export function bufferedRequest(
  client: Pick<HttpClient, 'request'>,
  url: string | URL,
  request: HttpRequest,
  limits: RequestLimits,
): Promise<BufferedReply> {
  return new Promise((resolve, reject) => {
    const parts = new BodyBuffer();
    let status = 0;
    let headers: HttpHeaders = [];
    const timer = setTimeout(() => {
      reject(new HttpError('REPLY_TIMEOUT', `no complete reply within ${limits.time} ms`));
      exchange.abort();
    }, limits.time).unref();
    const exchange = client.request(httpTarget(url), request, {
      start: (given, fields) => {
        status = given;
        headers = fields;
      },
      // An exception fails the exchange.
      data: (chunk) => {
        if (parts.size + chunk.length > limits.size)
          throw new HttpError('REPLY_TOO_LARGE', `the reply has more than ${limits.size} bytes`);
        parts.add(chunk);
      },
      end: () => {
        clearTimeout(timer);
        resolve({ status, headers, body: parts.take() });
      },
      fail: ({ error }) => {
        clearTimeout(timer);
        reject(error);
      },
    });
  });
}
