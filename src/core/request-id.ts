import { randomBytes } from 'node:crypto';

/** Accepted request ids from clients and proxies. Logs and headers never contain any other text from outside. */
const ACCEPTABLE = /^[A-Za-z0-9._-]{1,128}$/;

/** Distinguishes this process from all others. */
const PROCESS = randomBytes(6).toString('hex');
/**
 * Random digits for many ids. They are made together, because one system call and one conversion per id would be slow.
 */
let digits = '';
let used = 0;
const DIGITS = 16;
const IDS = 64;

/**
 * Makes a request id that is unique among all processes. This function must be fast, because every call needs an id.
 * The id is not a counter: the distance between two ids would tell a caller how many requests other callers made in
 * between.
 */
export function newRequestId(): string {
  if (used === digits.length) {
    digits = randomBytes((IDS * DIGITS) / 2).toString('hex');
    used = 0;
  }
  used += DIGITS;
  return `${PROCESS}-${digits.slice(used - DIGITS, used)}`;
}

/**
 * The id that the log lines and errors of one request share. The inbound adapter calls this once per request: it
 * accepts the `X-Request-Id` of the client or proxy, or makes a new id.
 */
export const requestIdFrom = (given: string | undefined): string =>
  given !== undefined && ACCEPTABLE.test(given) ? given : newRequestId();
