import { retryAfterOf } from '../../protocol/http/retry-after.js';
import { type Abortable, type HttpClient, httpTarget } from '../http/index.js';

export interface Answered {
  readonly status: number;
  readonly retryAfter: string | undefined;
}

export interface Post {
  /** The receiver's answer without its body, or the error. */
  readonly answer: Promise<Answered | { readonly error: string }>;
  /** Resolves when the body of the answer is read or the connection is closed. */
  readonly over: Promise<void>;
  abort(): void;
}

/** Maximum bytes of an answer's body that are read to keep the connection usable. */
const BODY_LIMIT = 64 * 1024;
/** Time limit for reading that body. */
const DRAIN_MS = 1_000;

/** Posts once. `budgetMs` limits the time from name resolution to the status line. Follows no redirect. */
export function post(
  client: Pick<HttpClient, 'request'>,
  url: string,
  headers: readonly string[],
  body: Buffer,
  budgetMs: number,
): Post {
  let answer!: (value: Answered | { error: string }) => void;
  let over!: () => void;
  const result: Post = {
    answer: new Promise((resolve) => {
      answer = resolve;
    }),
    over: new Promise((resolve) => {
      over = resolve;
    }),
    abort: () => end('the gateway is stopping'),
  };
  let exchange: Abortable | undefined;
  let size = 0;
  const settle = (error: string): void => {
    clearTimeout(timer);
    answer({ error });
    over();
  };
  const end = (error: string): void => {
    settle(error);
    exchange?.abort();
  };
  let timer = setTimeout(() => end(`no answer within ${budgetMs} ms`), budgetMs);
  try {
    exchange = client.request(
      httpTarget(url),
      { method: 'POST', headers, body },
      {
        start: (status, replied) => {
          answer({ status, retryAfter: retryAfterOf(replied) });
          clearTimeout(timer);
          timer = setTimeout(() => end(''), DRAIN_MS);
        },
        data: (chunk) => {
          size += chunk.length;
          if (size > BODY_LIMIT) end('');
        },
        end: () => settle(''),
        fail: ({ error }) => settle(describeError(error)),
      },
    );
  } catch (error) {
    settle(describeError(error));
  }
  return result;
}

/** The error code, if there is one. The message is not used, because it may contain internal addresses. */
function describeError(error: unknown): string {
  if (!(error instanceof Error)) return 'the request could not be sent';
  const { code, name } = error as NodeJS.ErrnoException;
  if (name === 'EgressRefused') return `the host ${error.message}`;
  return typeof code === 'string' ? code : name;
}
