import type { OAuthHttp, OAuthReply, OAuthRequest } from '../../identity/upstream/oauth-http.js';
import { bufferedRequest, type RequestLimits } from './buffered-request.js';
import type { HttpClient } from './client.js';

const LIMITS: RequestLimits = { time: 10_000, size: 256 * 1024 };

/** Requests to authorization servers that the operator named. */
export class OAuthRequests implements OAuthHttp {
  constructor(private readonly client: Pick<HttpClient, 'request'>) {}

  async send({ method, url, headers, body }: OAuthRequest): Promise<OAuthReply> {
    const request = { method, headers, ...(body !== undefined && { body: Buffer.from(body) }) };
    const reply = await bufferedRequest(this.client, url, request, LIMITS);
    return { status: reply.status, body: reply.body.toString('utf8') };
  }
}
