import { ANONYMOUS, LOCAL, type Principal } from '../core/caller.js';
import { ProtocolError } from '../protocol/errors.js';

/** The client's certificate, checked against `tls.clientCa`. */
export interface ClientCertificate {
  /** The distinguished name, one attribute a line, such as `CN=ada`. */
  readonly subject: string;
  readonly commonName: string | undefined;
  /** Alternative names, such as `DNS:host, URI:spiffe://…`. */
  readonly names: string | undefined;
  /** SHA-256 of the certificate. */
  readonly fingerprint: string;
}

/** A request as authenticators see it: of HTTP, of gRPC, or of the program that started the gateway. */
export interface AuthenticationRequest {
  /** The HTTP method; gRPC has POST, and pipes have none. */
  readonly method: string;
  /** Path and query, as they were sent. */
  readonly url: string;
  /** The address of the client; undefined on pipes. */
  readonly peer: string | undefined;
  readonly certificate: ClientCertificate | undefined;
  /** A header, or a piece of gRPC metadata, by its name in lower case. */
  header(name: string): string | undefined;
}

/** The answer to a caller that is not known: how it can prove its identity. */
export class Challenge {
  constructor(
    readonly message: string,
    /** Headers of the answer, such as `WWW-Authenticate`. */
    readonly headers: Readonly<Record<string, string>> = {},
    /** `forbidden` where the caller is known and lacks something, such as a scope. */
    readonly reason: 'unauthorized' | 'forbidden' = 'unauthorized',
  ) {}
}

export type Authenticated = Principal | Challenge;

/**
 * The principal. A challenge is thrown, as the error of a request that needs a known caller; so is whatever an authenticator
 * returns that is neither.
 */
export function admitted(given: Authenticated): Principal {
  if (given instanceof Challenge) throw new ProtocolError(given.reason, given.message, { headers: given.headers });
  if (!isPrincipal(given)) throw new TypeError('an authenticator returned neither a principal nor a challenge');
  return given;
}

const isPrincipal = (given: unknown): given is Principal =>
  typeof given === 'object' && given !== null && typeof (given as Partial<Principal>).key === 'string';

/**
 * Establishes the caller of every request. The answer is a promise only where one is needed: most requests are
 * authenticated without a turn. An authenticator that asks another service bounds its own time.
 */
export interface Authenticator {
  /** Whether callers are told apart. */
  readonly enabled: boolean;
  authenticate(request: AuthenticationRequest): Authenticated | Promise<Authenticated>;
}

/** Everybody is the local operator: on pipes, and at an address of this machine where no authentication is configured. */
export const OPEN: Authenticator = { enabled: false, authenticate: () => LOCAL };

/** For paths that serve everybody alike: nobody is asked for an identity. */
export const ANYBODY: Authenticator = { enabled: false, authenticate: () => ANONYMOUS };

/** Several ways to authenticate: the first that knows the caller counts, and a stranger is told of all of them. */
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
    for (const [name, value] of Object.entries(challenge.headers))
      headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
  }
  // A caller that is known and lacks something hears of that.
  const told = challenges.find(({ reason }) => reason === 'forbidden') ?? challenges[0]!;
  return new Challenge(told.message, headers, told.reason);
}
