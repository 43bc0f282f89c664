import { BoundedCache } from '../core/bounded-cache.js';
import { ProtocolError } from '../protocol/errors.js';
import { type Authenticated, type AuthenticationRequest, type Authenticator, Challenge } from './authenticator.js';
import { bearerOf, tokenDigest } from './bearer-token.js';

export interface FailureLimits {
  /** Maximum number of failures of one address within the window. */
  readonly perAddress: number;
  /** Maximum number of failures for one account within the window, from all addresses. */
  readonly perAccount: number;
  /** The length of the window in milliseconds. */
  readonly window: number;
}

/** The failures since the beginning of a window. */
interface Count {
  failures: number;
  readonly since: number;
}

/**
 * Maximum number of addresses and accounts that are counted, together. It bounds the memory that an attacker can fill.
 */
const MOST = 20_000;

/** Counts failed authentications by address and by account. */
export class FailedAttempts {
  private readonly counts = new BoundedCache<string, Count>(MOST);
  private lastFailure = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly limits: FailureLimits,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Whether no attempt failed within a window; then no caller is refused. */
  get quiet(): boolean {
    return this.now() - this.lastFailure > this.limits.window;
  }

  /**
   * Milliseconds until an attempt is examined again; 0 if it is examined now. An account with too many failures is
   * refused only at addresses that failed for it, so that nobody can lock its owner out from elsewhere.
   */
  blockedFor(address: string | undefined, account: string | undefined): number {
    if (address === undefined) return 0;
    const network = networkOf(address);
    const own = this.blocked(`address ${network}`, this.limits.perAddress);
    if (own > 0 || account === undefined) return own;
    if (this.current(`pair ${network} ${account}`) === undefined) return 0;
    return this.blocked(`account ${account}`, this.limits.perAccount);
  }

  failed(address: string | undefined, account: string | undefined): void {
    if (address === undefined) return;
    this.lastFailure = this.now();
    const network = networkOf(address);
    this.count(`address ${network}`);
    if (account === undefined) return;
    this.count(`account ${account}`);
    this.count(`pair ${network} ${account}`);
  }

  private blocked(key: string, most: number): number {
    const count = this.current(key);
    return count === undefined || count.failures < most ? 0 : count.since + this.limits.window - this.now();
  }

  private current(key: string): Count | undefined {
    const count = this.counts.get(key);
    return count && this.now() - count.since < this.limits.window ? count : undefined;
  }

  private count(key: string): void {
    const count = this.current(key);
    if (count) count.failures++;
    else this.counts.set(key, { failures: 1, since: this.now() });
  }
}

/** The hosts of one IPv6 /64 network count as one address. */
function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const more = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - groups.length - more.length);
  return [...groups, ...Array<string>(zeros).fill('0'), ...more].slice(0, 4).join(':');
}

/** Tokens that were accepted recently. Their callers are served even at an address with too many failed attempts. */
const MOST_KNOWN = 10_000;

/** Refuses credentials of addresses and accounts with too many failures, without examining them. */
export class LimitedAuthenticator implements Authenticator {
  readonly enabled = true;
  private readonly succeeded = new BoundedCache<string, true>(MOST_KNOWN);

  constructor(
    private readonly inner: Authenticator,
    private readonly attempts: FailedAttempts,
  ) {}

  authenticate(request: AuthenticationRequest): Authenticated | Promise<Authenticated> {
    const token = bearerOf(request);
    // A request without a credential is not an attempt: clients ask without one to get the challenge.
    if (token === undefined && request.header('authorization') === undefined) return this.inner.authenticate(request);
    if (!this.attempts.quiet) this.check(request.peer, token);
    const given = this.inner.authenticate(request);
    if (given instanceof Promise) return given.then((known) => this.counted(known, request.peer, token));
    return this.counted(given, request.peer, token);
  }

  private check(peer: string | undefined, token: string | undefined): void {
    const wait = this.attempts.blockedFor(peer, accountOf(token));
    if (wait > 0 && !(token !== undefined && this.succeeded.get(tokenDigest(token)))) throw tooManyFailures(wait);
  }

  private counted(given: Authenticated, peer: string | undefined, token: string | undefined): Authenticated {
    if (given instanceof Challenge) {
      if (given.reason === 'unauthorized' && !given.bearer.genuine) this.attempts.failed(peer, accountOf(token));
    } else if (token !== undefined) {
      const digest = tokenDigest(token);
      if (!this.succeeded.get(digest)) this.succeeded.set(digest, true);
    }
    return given;
  }
}

export const tooManyFailures = (wait: number): ProtocolError =>
  new ProtocolError('rate_limited', 'Too many failed authentications; wait before the next one', {
    headers: { 'Retry-After': String(Math.max(1, Math.ceil(wait / 1_000))) },
  });

const LONGEST_ACCOUNT = 256;

/** The account that a JWT names, not verified: it only chooses the counter. Other tokens name no account. */
function accountOf(token: string | undefined): string | undefined {
  const [, payload, signature] = token?.split('.', 4) ?? [];
  if (payload === undefined || signature === undefined) return undefined;
  try {
    const { iss, sub } = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as Record<string, unknown>;
    return typeof sub === 'string' ? `${String(iss)}#${sub}`.slice(0, LONGEST_ACCOUNT) : undefined;
  } catch {
    return undefined;
  }
}
