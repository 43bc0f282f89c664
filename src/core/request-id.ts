import { randomBytes } from 'node:crypto';

/** Accepted request ids from clients and proxies. Logs and headers never contain any other text from outside. */
const ACCEPTABLE = /^[A-Za-z0-9._-]{1,128}$/;

/** Distinguishes this process from all others. */
const PROCESS = randomBytes(6).toString('hex');
let count = 0;

/** Makes a request id that is unique among all processes. It is cheap, because every call needs one. */
export const newRequestId = (): string => `${PROCESS}-${(++count).toString(36)}`;

/**
 * The id that the log lines and errors of one request share. The inbound adapter calls this once per request: it
 * accepts the `X-Request-Id` of the client or proxy, or makes a new id.
 */
export const requestIdFrom = (given: string | undefined): string =>
  given !== undefined && ACCEPTABLE.test(given) ? given : newRequestId();
