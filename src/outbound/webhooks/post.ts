import { type Abortable, type HttpClient, headerOf, httpTarget } from '../http/index.js';

export interface Answered {
  readonly status: number;
  readonly retryAfter: string | undefined;
}

export interface Post {
  /** The receiver's word, or why there is none. Its body is no part of it. */
  readonly answer: Promise<Answered | { readonly error: string }>;
  /** Resolves when the connection has nothing more to bring. */
  readonly over: Promise<void>;
  abort(): void;
}

/** Of an answer's body so much is read for the sake of the connection, and then no more. */
const BODY_LIMIT = 64 * 1024;
/** … and for no longer than this. */
const DRAIN_MS = 1_000;

/** Posts once, within `budgetMs` from the first look at the name to the status line. Follows nothing. */
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
          answer({ status, retryAfter: headerOf(replied, 'retry-after') });
          clearTimeout(timer);
          timer = setTimeout(() => end(''), DRAIN_MS);
        },
        data: (chunk) => {
          size += chunk.length;
          if (size > BODY_LIMIT) end('');
        },
        end: () => settle(''),
        fail: ({ error }) => settle(said(error)),
      },
    );
  } catch (error) {
    settle(said(error));
  }
  return result;
}

/** The code alone where there is one: a message may tell of addresses that are nobody's business. */
function said(error: unknown): string {
  if (!(error instanceof Error)) return 'the request could not be sent';
  const { code, name } = error as NodeJS.ErrnoException;
  if (name === 'EgressRefused') return `the host ${error.message}`;
  return typeof code === 'string' ? code : name;
}

/** Milliseconds, from seconds or a date; 0 where it says nothing. */
export function retryAfterMs(value: string | undefined, now: number): number {
  if (value === undefined) return 0;
  const given = value.trim();
  // What is neither is nothing: the parser would make a date of almost any number.
  const date = /^[A-Z][a-z]+,? .*GMT$/.test(given) ? Date.parse(given) : Number.NaN;
  const ms = /^\d{1,9}$/.test(given) ? Number(given) * 1_000 : date - now;
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), LONGEST_WAIT) : 0;
}

/** Whatever a receiver asks for, it is asked again twice a day. */
const LONGEST_WAIT = 12 * 60 * 60 * 1000;
