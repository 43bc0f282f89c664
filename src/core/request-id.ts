import { randomBytes } from 'node:crypto';

/** What a client or proxy may give as the id of its request; anything else is not taken into logs and headers. */
const ACCEPTABLE = /^[A-Za-z0-9._-]{1,128}$/;

/** Tells the requests of this process from those of others. */
const PROCESS = randomBytes(6).toString('hex');
let count = 0;

/** A new id of a request: unique among all processes, and cheap, because each call has one. */
export const newRequestId = (): string => `${PROCESS}-${(++count).toString(36)}`;

/**
 * The id by which the log lines and errors of one request belong together. Made once, where the request comes in: as the
 * client or a proxy in front gave it (`X-Request-Id`), or a new one.
 */
export const requestIdFrom = (given: string | undefined): string =>
  given !== undefined && ACCEPTABLE.test(given) ? given : newRequestId();
