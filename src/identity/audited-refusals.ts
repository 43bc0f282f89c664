import type { AuditTrail, AuthenticationRecord } from '../core/audit-trail.js';
import { BoundedCache } from '../core/bounded-cache.js';
import type { Principal } from '../core/caller.js';
import { TokenBucket } from '../core/token-bucket.js';
import { ProtocolError } from '../protocol/errors.js';
import type { AuthenticationRequest } from './authenticator.js';

/** Receives requests whose caller is unknown, or whose caller may not use the route. */
export interface Refusals {
  /** `known` is the caller, if it is known. */
  refused(request: RefusedRequest, error: unknown, known?: Principal): void;
}

export type RefusedRequest = Pick<AuthenticationRequest, 'url' | 'peer' | 'header'> & { readonly id?: string };

/**
 * Limits on the records of one address, and of all addresses, so that a flood of bad requests does not fill the
 * database.
 */
const PER_ADDRESS = { burst: 20, second: 0.1 };
const IN_ALL = { burst: 1_000, second: 20 };
const ADDRESSES = 2_000;
const MOST_PATH = 256;

interface Address {
  readonly bucket: TokenBucket;
  suppressed: number;
}

/**
 * Records refused requests in the audit trail (S24). Beyond a rate, refusals are counted and not recorded one by one.
 */
export class AuditedRefusals implements Refusals {
  private readonly addresses = new BoundedCache<string, Address>(ADDRESSES);
  private readonly all = new TokenBucket(IN_ALL);

  constructor(private readonly trail: AuditTrail) {}

  refused(request: RefusedRequest, error: unknown, known?: Principal): void {
    const { url, peer, id } = request;
    const method = methodOf(request);
    this.add({
      reason: error instanceof ProtocolError ? error.reason : 'internal',
      ...(method !== undefined && { method }),
      ...(known && { caller: known.key }),
      ...(peer !== undefined && { address: peer }),
      // The query may contain a token.
      path: url.replace(/[?#].*$/s, '').slice(0, MOST_PATH),
      ...(id !== undefined && { requestId: id }),
    });
  }

  /** Records a refused authentication. If its address has too many refusals, the refusal is only counted. */
  add(refused: Omit<AuthenticationRecord, 'kind' | 'outcome' | 'suppressed'>): void {
    const from = this.address(refused.address ?? '');
    if (!from.bucket.take(1) || !this.all.take(1)) {
      from.suppressed += 1;
      return;
    }
    const { suppressed } = from;
    from.suppressed = 0;
    this.trail.record({
      kind: 'authentication',
      outcome: 'refused',
      ...refused,
      ...(suppressed > 0 && { suppressed }),
    });
  }

  private address(peer: string): Address {
    let found = this.addresses.get(peer);
    if (!found) {
      found = { bucket: new TokenBucket(PER_ADDRESS), suppressed: 0 };
      this.addresses.set(peer, found);
    }
    return found;
  }
}

const SCHEMES = new Set(['bearer', 'basic', 'dpop', 'digest', 'negotiate']);

/** The scheme of the given credentials. An unknown scheme may be the secret itself, so it is not named. */
function methodOf(request: RefusedRequest): string | undefined {
  const given = request.header('authorization');
  if (given === undefined) return undefined;
  const scheme = given.split(' ', 1)[0]!.toLowerCase();
  return SCHEMES.has(scheme) ? scheme : 'other';
}
