/** Fetches small JSON documents that services publish about themselves: metadata and keys. */
import { BodyBuffer } from '../../protocol/http/body-buffer.js';
import type { HttpHeaders } from '../../protocol/http/headers.js';
import type { HttpClient } from './client.js';
import { type HttpFailure, type HttpReply, httpTarget } from './client-types.js';

export interface DocumentLimits {
  /** Milliseconds for the whole exchange. */
  readonly time: number;
  /** Maximum number of bytes. */
  readonly size: number;
}

const LIMITS: DocumentLimits = { time: 10_000, size: 1024 * 1024 };

/** The document cannot be fetched or is not JSON. `status` is the status of the reply, if there was a reply. */
export class DocumentError extends Error {
  override readonly name = 'DocumentError';

  constructor(
    message: string,
    readonly status?: number,
  ) {
    super(message);
  }
}

/** Fetches a JSON document without credentials. Follows no redirects. Rejects with `DocumentError`. */
export function fetchJson(client: HttpClient, url: string, limits: DocumentLimits = LIMITS): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const fail = (message: string, status?: number): void => {
      clearTimeout(timer);
      reject(new DocumentError(message, status));
    };
    const reply = new Document(limits.size, fail, (document) => {
      clearTimeout(timer);
      resolve(document);
    });
    const timer = setTimeout(() => {
      fail(`no answer within ${limits.time} ms`);
      exchange.abort();
    }, limits.time).unref();
    const headers = ['accept', 'application/json, application/jwk-set+json'];
    const exchange = client.request(httpTarget(url), { method: 'GET', headers }, reply);
  });
}

class Document implements HttpReply {
  private readonly parts = new BodyBuffer();
  private status = 0;

  constructor(
    private readonly limit: number,
    private readonly failed: (message: string, status?: number) => void,
    private readonly done: (document: unknown) => void,
  ) {}

  start(status: number, _: HttpHeaders): void {
    this.status = status;
  }

  /** An exception fails the exchange. */
  data(chunk: Buffer): void {
    if (this.parts.size + chunk.length > this.limit) throw new Error(`more than ${this.limit} bytes`);
    this.parts.add(chunk);
  }

  end(): void {
    const { status } = this;
    if (status !== 200) {
      this.failed(`status ${status}`, status);
      return;
    }
    let document: unknown;
    try {
      document = JSON.parse(this.parts.take().toString('utf8'));
    } catch {
      this.failed('the answer is not JSON', status);
      return;
    }
    this.done(document);
  }

  fail({ error }: HttpFailure): void {
    this.failed(error.message);
  }
}
