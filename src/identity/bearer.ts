import { createHash } from 'node:crypto';
import type { AuthenticationRequest } from './authenticator.js';

/** RFC 6750: one token after the scheme. A second credential in the same header is refused. */
const BEARER = /^Bearer +([^\s,]+)$/i;

/** The bearer token of a request; undefined without exactly one. */
export function bearerOf(request: AuthenticationRequest): string | undefined {
  const authorization = request.header('authorization');
  return authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
}

let last: { readonly token: string; readonly digest: string } | undefined;

/**
 * The SHA-256 of a token, as the key of caches: memory dumps then contain no old tokens. Several authenticators ask for
 * the digest of the same token, so the last one is remembered.
 */
export function tokenDigest(token: string): string {
  if (last?.token === token) return last.digest;
  const digest = createHash('sha256').update(token).digest('base64');
  last = { token, digest };
  return digest;
}
