import { type CryptoKey, decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose';
import { BoundedCache } from '../core/bounded-cache.js';
import { type Principal, principalOf } from '../core/caller.js';
import { ProtocolError } from '../protocol/errors.js';
import {
  type Authenticated,
  type AuthenticationRequest,
  type Authenticator,
  type BearerProblem,
  Challenge,
} from './authenticator.js';
import { bearerOf, tokenDigest } from './bearer-token.js';
import { assertedBy, type ClaimNames, type Claims } from './claims.js';
import { type KeyResolver, KeysUnavailable } from './key-sets.js';
import { lackingScopes, type ScopeRules } from './scopes.js';

export interface JwtAuthenticatorOptions {
  /** The issuer, which is compared with `iss` as plain text. */
  readonly issuer: string;
  /**
   * Whether a token for this audience may be used for requests to this path (RFC 8707): our canonical resource URLs. An
   * answer never changes.
   */
  accepts(audience: string, request: Pick<AuthenticationRequest, 'url'>): boolean;
  /** Accepted signature algorithms; only asymmetric ones. */
  readonly algorithms: readonly string[];
  readonly keys: KeyResolver;
  readonly claims: ClaimNames;
  /** Scopes that every request needs. */
  readonly requiredScopes?: readonly string[];
  readonly scopes?: ScopeRules;
  /** The issuer of the principals if it is not `issuer`: `OWN_ISSUER` for the users of the gateway itself. */
  readonly principalIssuer?: string;
  /** Called for every request, also for a cached token. A revoked token is refused. */
  revoked?(claims: Claims): boolean | Promise<boolean>;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/**
 * Accepted types: access tokens of RFC 9068, and JWTs of issuers that set only the type `jwt` or no type. ID tokens of
 * some issuers have other types, and are refused.
 */
const TYPES: ReadonlySet<string | undefined> = new Set([undefined, 'jwt', 'at+jwt', 'application/at+jwt']);
/** Differences between the clocks of the issuer and the gateway that are tolerated, in seconds. */
const SKEW = 60;
/** A verified token is verified again after this time at most, in milliseconds. */
const CACHED_FOR = 60_000;
const MOST_CACHED = 10_000;
/** Maximum length of a token. Longer tokens are not decoded. */
const LONGEST = 16_384;
/** Limit on concurrent verifications, so that a flood of forged tokens does not fill the memory. */
const MOST_PENDING = 1_000;

const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/;

interface Verified {
  readonly principal: Principal;
  readonly audiences: readonly string[];
  readonly claims: Claims;
  /** The time until which the token counts as verified. */
  readonly until: number;
  /** The path and query of the last request that the token was accepted for. */
  acceptedUrl: string | undefined;
}

const NOT_OURS = new Challenge('Unauthorized: Invalid or missing API key', {
  'WWW-Authenticate': 'Bearer realm="parley"',
});

const invalid = (why: string, more: Pick<BearerProblem, 'revoked' | 'genuine'> = {}): Challenge =>
  new Challenge(
    `Unauthorized: ${why}`,
    { 'WWW-Authenticate': 'Bearer realm="parley", error="invalid_token"' },
    'unauthorized',
    { error: 'invalid_token', description: why, ...more },
  );
const GENUINE = { genuine: true } as const;
const REVOKED = invalid('The token was revoked', { revoked: true, genuine: true });

/** Authenticates callers by JWT access tokens of one issuer (S13). */
export class JwtAuthenticator implements Authenticator {
  readonly enabled = true;
  private verified = new BoundedCache<string, Verified>(MOST_CACHED);
  private readonly pending = new Map<string, Promise<Verified | Challenge>>();
  private readonly now: () => number;

  constructor(private readonly options: JwtAuthenticatorOptions) {
    this.now = options.now ?? Date.now;
  }

  authenticate(request: AuthenticationRequest): Authenticated | Promise<Authenticated> {
    const token = bearerOf(request);
    if (token === undefined || token.length > LONGEST) return NOT_OURS;
    const digest = tokenDigest(token);
    const known = this.verified.get(digest);
    if (known && known.until > this.now()) return this.admit(known, request);
    if (!COMPACT.test(token) || issuerOf(token) !== this.options.issuer) return NOT_OURS;
    return this.verify(token, digest).then((found) =>
      found instanceof Challenge ? found : this.admit(found, request),
    );
  }

  /** Forgets every verified token, so that each is verified again. */
  invalidate(): void {
    this.verified = new BoundedCache(MOST_CACHED);
  }

  /** The checks that depend on the request, or whose result can change while the token is valid. */
  private admit(token: Verified, request: AuthenticationRequest): Authenticated | Promise<Authenticated> {
    const { accepts, revoked, requiredScopes = [], scopes } = this.options;
    if (token.acceptedUrl !== request.url) {
      if (!token.audiences.some((audience) => accepts(audience, request)))
        return invalid('The token is for another resource', GENUINE);
      token.acceptedUrl = request.url;
    }
    const lacking = lackingScopes(token.principal.scopes, requiredScopes, scopes);
    if (lacking.length > 0) return insufficient(requiredScopes);
    const gone = revoked?.(token.claims) ?? false;
    const decide = (is: boolean): Authenticated => (is ? REVOKED : token.principal);
    return typeof gone === 'boolean' ? decide(gone) : gone.then(decide);
  }

  /** Verifies a token once, for all concurrent requests that carry it. */
  private verify(token: string, digest: string): Promise<Verified | Challenge> {
    const waiting = this.pending.get(digest);
    if (waiting) return waiting;
    if (this.pending.size >= MOST_PENDING)
      throw new ProtocolError('overloaded', 'Too many tokens are being verified', { headers: { 'Retry-After': '1' } });
    const { verified } = this;
    const verifying = this.check(token)
      .then((found) => {
        // After `invalidate`, the old cache is no longer used.
        if (!(found instanceof Challenge)) verified.set(digest, found);
        return found;
      })
      .finally(() => this.pending.delete(digest));
    this.pending.set(digest, verifying);
    return verifying;
  }

  private async check(token: string): Promise<Verified | Challenge> {
    const { algorithms, keys } = this.options;
    const { alg, kid, typ } = decodeProtectedHeader(token);
    if (alg === undefined || !algorithms.includes(alg)) return invalid('The algorithm of the token is not accepted');
    if (!TYPES.has(typ?.toLowerCase())) return invalid('The type of the token is not accepted');
    let candidates: readonly CryptoKey[];
    try {
      candidates = await keys({ alg, kid });
    } catch (error) {
      if (!(error instanceof KeysUnavailable)) return invalid('The key of the token cannot be used');
      throw new ProtocolError('overloaded', 'The keys of the token issuer cannot be loaded', {
        headers: { 'Retry-After': '5' },
      });
    }
    let refusal = invalid('The token was signed with an unknown key');
    for (const key of candidates) {
      const found = await this.checkWith(key, token);
      if (!(found instanceof Challenge)) return found;
      refusal = found;
      if (refusal !== FORGED) break;
    }
    return refusal;
  }

  /** Returns the verified token, or the reason why it is refused. */
  private async checkWith(key: CryptoKey, token: string): Promise<Verified | Challenge> {
    const { issuer, algorithms, claims: names, principalIssuer = issuer } = this.options;
    const now = this.now();
    let payload: JWTPayload;
    try {
      ({ payload } = await jwtVerify(token, key, {
        issuer,
        algorithms: [...algorithms],
        clockTolerance: SKEW,
        currentDate: new Date(now),
        requiredClaims: ['exp', 'aud'],
      }));
    } catch (error) {
      return refusalOf(error);
    }
    const { subject, ...asserted } = assertedBy(payload, names);
    if (subject === undefined) return invalid(`The token has no claim "${names.subject}"`, GENUINE);
    if (names.tenant !== undefined && names.tenantOptional !== true && asserted.tenant === undefined)
      return invalid(`The token has no claim "${names.tenant}"`, GENUINE);
    const { aud, exp, jti } = payload;
    const credential = { kind: 'jwt', id: jti ?? '' } as const;
    return {
      principal: principalOf({ issuer: principalIssuer, subject, ...asserted, credential, claims: payload }),
      audiences: Array.isArray(aud) ? aud : aud === undefined ? [] : [aud],
      claims: payload,
      until: Math.min((exp! + SKEW) * 1_000, now + CACHED_FOR),
      acceptedUrl: undefined,
    };
  }
}

/** `iss`, not yet verified: it only decides which authenticator verifies the token. */
function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

const FORGED = invalid('The signature of the token is invalid');
const EXPIRED = invalid('The token has expired', GENUINE);

/** The claims are checked after the signature. */
function refusalOf(error: unknown): Challenge {
  if (error instanceof errors.JWTExpired) return EXPIRED;
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { reason, claim } = error;
    const why =
      reason === 'missing' ? `The token has no claim "${claim}"` : `The claim "${claim}" of the token is not accepted`;
    return invalid(why, GENUINE);
  }
  return error instanceof errors.JWSSignatureVerificationFailed ? FORGED : invalid('The token cannot be read');
}

const insufficient = (scopes: readonly string[]): Challenge =>
  new Challenge(
    `Forbidden: the token needs the scopes ${scopes.join(' ')}`,
    { 'WWW-Authenticate': 'Bearer realm="parley", error="insufficient_scope"' },
    'forbidden',
    { error: 'insufficient_scope', scopes },
  );
