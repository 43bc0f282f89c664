/**
 * The parts of a caller's request that credential sources may use: its token, for an exchange (RFC 8693), and headers
 * that the configuration names. These parts are held beside the principal and not in it, so that no log, store or
 * message with a principal contains them (S12). They are held only as long as the principal of that request is in use.
 */
import { createHash } from 'node:crypto';
import { ANONYMOUS, type Principal } from '../core/caller.js';
import { type Authenticated, type AuthenticationRequest, type Authenticator, Challenge } from './authenticator.js';

interface Held {
  readonly token: string | undefined;
  readonly headers: ReadonlyMap<string, string>;
}

const NOTHING: ReadonlyMap<string, string> = new Map();

export class CallerRequests {
  private readonly held = new WeakMap<Principal, Held>();
  private readonly headerNames = new Set<string>();
  private tokens = false;

  /** Starts to hold the tokens of callers. */
  wantTokens(): void {
    this.tokens = true;
  }

  /** Starts to hold these headers of callers. */
  wantHeaders(names: readonly string[]): void {
    for (const name of names) this.headerNames.add(name.toLowerCase());
  }

  get wanted(): boolean {
    return this.tokens || this.headerNames.size > 0;
  }

  /** The token that the caller sent, if another party issued it. */
  tokenOf(principal: Principal): string | undefined {
    return this.held.get(principal)?.token;
  }

  headerOf(principal: Principal, name: string): string | undefined {
    return this.held.get(principal)?.headers.get(name.toLowerCase());
  }

  /**
   * Distinguishes requests of one caller that may reach different accounts of a server: a digest of the token and the
   * headers that are held for them. Empty if nothing is held.
   */
  accountOf(principal: Principal): string {
    const { token, headers } = this.held.get(principal) ?? {};
    if (token === undefined && !headers?.size) return '';
    const parts = JSON.stringify([token ?? null, [...(headers ?? NOTHING)].sort()]);
    return createHash('sha256').update(parts).digest('base64url');
  }

  /** The principal of one request, to which its token and headers belong. */
  hold(principal: Principal, request: AuthenticationRequest): Principal {
    const own = { ...principal };
    this.held.set(own, {
      token: this.tokens ? tokenIn(principal, request) : undefined,
      headers: this.headersIn(request),
    });
    return own;
  }

  private headersIn(request: AuthenticationRequest): ReadonlyMap<string, string> {
    if (this.headerNames.size === 0) return NOTHING;
    const headers = new Map<string, string>();
    for (const name of this.headerNames) {
      const value = request.header(name);
      if (value !== undefined) headers.set(name, value);
    }
    return headers;
  }
}

/**
 * API keys and static tokens are secrets between the caller and the gateway. No issuer knows them, so they cannot be
 * exchanged. A token of another issuer can be exchanged, and a JWT of the gateway's own authorization server.
 */
function tokenIn({ issuer }: Principal, request: AuthenticationRequest): string | undefined {
  const [, token] = /^Bearer +([^\s,]+)$/i.exec(request.header('authorization') ?? '') ?? [];
  if (token === undefined) return undefined;
  return issuer !== 'parley' || /^[\w-]+\.[\w-]+\.[\w-]+$/.test(token) ? token : undefined;
}

/** Holds the requests of callers for as long as their principals are in use, if a credential source needs them. */
export class HoldingAuthenticator implements Authenticator {
  constructor(
    private readonly inner: Authenticator,
    private readonly requests: CallerRequests,
  ) {}

  get enabled(): boolean {
    return this.inner.enabled;
  }

  authenticate(request: AuthenticationRequest): Authenticated | Promise<Authenticated> {
    const given = this.inner.authenticate(request);
    if (!this.requests.wanted) return given;
    return given instanceof Promise ? given.then((known) => this.hold(known, request)) : this.hold(given, request);
  }

  private hold(given: Authenticated, request: AuthenticationRequest): Authenticated {
    return given instanceof Challenge || given === ANONYMOUS ? given : this.requests.hold(given, request);
  }
}
