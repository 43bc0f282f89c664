import { ProtocolError } from '../protocol/errors.js';
import { type Authenticated, type AuthenticationRequest, type Authenticator, Challenge } from './authenticator.js';
import { bearerOf } from './bearer-token.js';
import type { ProtectedResources } from './protected-resource.js';

/** The challenge of every authenticator that reads a bearer token. */
const PLAIN = /^Bearer realm="parley"(, error="\w+")?/;

/**
 * Adds two parameters to each challenge (S14): `resource_metadata` says where the client gets a token, and `scope` says
 * which scopes the token needs. Clients of older revisions ignore both parameters.
 */
export class BearerChallenges implements Authenticator {
  readonly enabled = true;

  constructor(
    private readonly inner: Authenticator,
    private readonly resources: ProtectedResources,
  ) {}

  authenticate(request: AuthenticationRequest): Authenticated | Promise<Authenticated> {
    refuseSecondToken(request);
    const given = this.inner.authenticate(request);
    if (given instanceof Promise) return given.then((known) => this.explained(known, request));
    return this.explained(given, request);
  }

  private explained(given: Authenticated, request: AuthenticationRequest): Authenticated {
    if (!(given instanceof Challenge)) return given;
    const { message, headers, reason, bearer } = given;
    const header = bearerChallenge(this.resources, request, {
      error: bearer.error ?? (bearerOf(request) === undefined ? undefined : 'invalid_token'),
      description: bearer.description,
      scopes: bearer.scopes ?? this.resources.requiredScopes,
    });
    const others = headers['WWW-Authenticate'];
    const all =
      others === undefined ? header : PLAIN.test(others) ? others.replace(PLAIN, () => header) : `${header}, ${others}`;
    return new Challenge(message, { ...headers, 'WWW-Authenticate': all }, reason, bearer);
  }
}

export interface ChallengeDetails {
  readonly error?: string | undefined;
  readonly description?: string | undefined;
  readonly scopes: readonly string[];
}

/**
 * The value of `WWW-Authenticate` (RFC 6750 §3, RFC 9728 §5.1). Without a request it names the metadata of the whole
 * gateway, which covers every endpoint.
 */
export function bearerChallenge(
  resources: ProtectedResources,
  request: AuthenticationRequest | undefined,
  { error, description, scopes }: ChallengeDetails,
): string {
  const parts = ['Bearer realm="parley"'];
  if (error !== undefined) parts.push(`error="${error}"`);
  if (description !== undefined) parts.push(`error_description="${quotable(description)}"`);
  if (resources.published) {
    if (scopes.length > 0) parts.push(`scope="${scopes.join(' ')}"`);
    parts.push(`resource_metadata="${resources.metadataUrl(request)}"`);
  }
  return parts.join(', ');
}

/** RFC 6750 §3: the characters of `error_description`. */
const quotable = (text: string): string => text.replace(/["\\]/g, "'").replace(/[^\x20-\x7e]/g, '?');

/**
 * A token in the query is never read, because URLs are written to logs. A token only in the query is not a credential.
 * A token in the query beside another credential makes the request malformed (RFC 6750 §2, §3.1; S14).
 */
function refuseSecondToken(request: AuthenticationRequest): void {
  const { url } = request;
  const mark = url.indexOf('?');
  if (mark < 0 || !/access_token/i.test(url) || request.header('authorization') === undefined) return;
  if (!new URLSearchParams(url.slice(mark + 1)).has('access_token')) return;
  throw new ProtocolError('invalid_request', 'A token in the URL is refused; send it as "Authorization: Bearer"', {
    headers: { 'WWW-Authenticate': 'Bearer realm="parley", error="invalid_request"' },
  });
}
