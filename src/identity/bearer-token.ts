import { hash } from 'node:crypto';
import type { AuthenticationRequest } from './authenticator.js';

/** RFC 6750: one token after the scheme. A second credential in the same header is refused. */
const BEARER = /^Bearer +([^\s,]+)$/i;

// Several authenticators read the token of the same request, so the last header and the last digest are remembered.
let read: { readonly authorization: string; readonly token: string | undefined } | undefined;
let hashed: { readonly token: string; readonly digest: string } | undefined;

/** The bearer token of a request; undefined unless the request has exactly one. */
export function bearerOf(request: AuthenticationRequest): string | undefined {
  const authorization = request.header('authorization');
  if (authorization === undefined) return undefined;
  if (read?.authorization !== authorization) read = { authorization, token: BEARER.exec(authorization)?.[1] };
  return read.token;
}

/** The SHA-256 of a token, as the key of caches: memory dumps then contain no old tokens. */
export function tokenDigest(token: string): string {
  if (hashed?.token !== token) hashed = { token, digest: hash('sha256', token, 'base64') };
  return hashed.digest;
}
