import { ANONYMOUS, LOCAL, type Principal } from '../core/caller.js';
import { ProtocolError } from '../protocol/errors.js';

/** The client's certificate, verified against `tls.clientCa`. */
export interface ClientCertificate {
  /** The distinguished name, one attribute per line, such as `CN=ada`. */
  readonly subject: string;
  readonly commonName: string | undefined;
  /** Subject alternative names, such as `DNS:host, URI:spiffe://…`. */
  readonly names: string | undefined;
  /** SHA-256 of the certificate. */
  readonly fingerprint: string;
}

/** A request as authenticators see it: over HTTP, over gRPC, or from the program that started the gateway. */
export interface AuthenticationRequest {
  /** The HTTP method. gRPC uses POST; pipes have none. */
  readonly method: string;
  /** Path and query as sent. */
  readonly url: string;
  /** The address of the client; undefined on pipes. */
  readonly peer: string | undefined;
  readonly certificate: ClientCertificate | undefined;
  /** A header, or a gRPC metadata value, by its name in lower case. */
  header(name: string): string | undefined;
}

/** The answer to an unknown caller: how it can authenticate. */
export class Challenge {
  constructor(
    readonly message: string,
    /** Headers of the answer, such as `WWW-Authenticate`. */
    readonly headers: Readonly<Record<string, string>> = {},
    /** `forbidden` if the caller is known but lacks a permission, such as a scope. */
    readonly reason: 'unauthorized' | 'forbidden' = 'unauthorized',
    /** Why a token was refused, for the `WWW-Authenticate` of bearer tokens (RFC 6750 §3). */
    readonly bearer: BearerProblem = {},
  ) {}
}

export interface BearerProblem {
  readonly error?: 'invalid_token' | 'insufficient_scope';
  readonly description?: string;
  /** The scopes that the request needs. */
  readonly scopes?: readonly string[];
  /** Whether the token was revoked, so that its open exchanges end too. */
  readonly revoked?: true;
  /**
   * Whether the gateway or the issuer made the credential, such as an expired token, so that the attempt is not a
   * guess.
   */
  readonly genuine?: true;
}

export type Authenticated = Principal | Challenge;

/** Returns the principal. Throws a challenge as the error of the request, and a `TypeError` for any other value. */
export function admitted(given: Authenticated): Principal {
  if (given instanceof Challenge) throw new ProtocolError(given.reason, given.message, { headers: given.headers });
  if (!isPrincipal(given)) throw new TypeError('an authenticator returned neither a principal nor a challenge');
  return given;
}

const isPrincipal = (given: unknown): given is Principal =>
  typeof given === 'object' && given !== null && typeof (given as Partial<Principal>).key === 'string';

/**
 * Establishes the caller of every request. The result is a promise only if one is needed, so most requests add no
 * event-loop turn. An authenticator that calls another service must limit its own time.
 */
export interface Authenticator {
  /** Whether callers are distinguished. */
  readonly enabled: boolean;
  authenticate(request: AuthenticationRequest): Authenticated | Promise<Authenticated>;
}

/** Every caller is the local operator: on pipes, and on loopback addresses without configured authentication. */
export const OPEN: Authenticator = { enabled: false, authenticate: () => LOCAL };

/** For paths that need no identity: every caller is anonymous. */
export const ANYBODY: Authenticator = { enabled: false, authenticate: () => ANONYMOUS };

/**
 * Combines authenticators: the first that knows the caller decides, and an unknown caller gets the challenges of all.
 */
export function anyOf(authenticators: readonly Authenticator[]): Authenticator {
  const [first, ...others] = authenticators;
  if (first === undefined) return OPEN;
  return others.length === 0 ? first : new AnyOf(authenticators);
}

class AnyOf implements Authenticator {
  readonly enabled = true;

  constructor(private readonly authenticators: readonly Authenticator[]) {}

  authenticate(request: AuthenticationRequest): Authenticated | Promise<Authenticated> {
    return this.from(0, request, []);
  }

  private from(
    at: number,
    request: AuthenticationRequest,
    challenges: readonly Challenge[],
  ): Authenticated | Promise<Authenticated> {
    const next = this.authenticators[at];
    if (next === undefined) return joined(challenges);
    const given = next.authenticate(request);
    const go = (known: Authenticated): Authenticated | Promise<Authenticated> =>
      known instanceof Challenge ? this.from(at + 1, request, [...challenges, known]) : known;
    return given instanceof Promise ? given.then(go) : go(given);
  }
}

/** The first challenge, with the headers of all: `WWW-Authenticate` may list several schemes (RFC 9110 §11.6.1). */
function joined(challenges: readonly Challenge[]): Challenge {
  const headers: Record<string, string> = {};
  for (const challenge of challenges) {
    for (const [name, value] of Object.entries(challenge.headers)) {
      const before = headers[name];
      // Several authenticators may read bearer tokens, but one challenge for bearer tokens is enough.
      if (before?.startsWith('Bearer ') && value.startsWith('Bearer ')) continue;
      headers[name] = before === undefined ? value : `${before}, ${value}`;
    }
  }
  // If the caller is known but lacks a permission, the challenge says this. Otherwise the challenge of the
  // authenticator that found a fault in the token is used.
  const told =
    challenges.find(({ reason }) => reason === 'forbidden') ??
    challenges.find(({ bearer }) => bearer.error !== undefined) ??
    challenges[0]!;
  return new Challenge(told.message, headers, told.reason, told.bearer);
}
