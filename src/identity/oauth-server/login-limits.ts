import type { Bus } from '../../state/index.js';

const WINDOW = 15 * 60_000;

/**
 * Maximum number of attempts of one address for all users together. It is high, because an office may share an address.
 */
const PER_ADDRESS = 100;
/** Maximum number of attempts of one address, or of one known browser, for one user. */
const PER_PAIR = 10;
/** Number of attempts of all addresses for one user, after which an unknown browser has fewer attempts. */
const PER_ACCOUNT = 50;
const PER_PAIR_UNDER_ATTACK = 3;

export interface LoginAttempt {
  readonly address: string;
  readonly account: string;
  /** The id of a browser in which this user has signed in before. */
  readonly device: string | undefined;
}

/**
 * Limits the guessing of passwords, over all replicas: only failed attempts stay counted. Nobody can lock a user out: a
 * browser in which the user has signed in has its own count, and every other address keeps a few attempts, however many
 * others fail.
 */
export class LoginLimits {
  constructor(private readonly bus: Pick<Bus, 'incr'>) {}

  /** Counts an attempt. Returns undefined, or the seconds after which another attempt is possible. */
  async attempt({ address, account, device }: LoginAttempt): Promise<number | undefined> {
    const { pair, all, user } = keysOf({ address, account, device });
    // An address over its limit adds no counters: it could name any number of users.
    if ((await this.add(all, 1)) > PER_ADDRESS) return WINDOW / 1_000;
    const [ofPair, ofUser] = await Promise.all([this.add(pair, 1), this.add(user, 1)]);
    const most = device === undefined && ofUser > PER_ACCOUNT ? PER_PAIR_UNDER_ATTACK : PER_PAIR;
    return ofPair > most ? WINDOW / 1_000 : undefined;
  }

  /** Takes back the count of `attempt`, because the password was right. */
  async succeeded(attempt: LoginAttempt): Promise<void> {
    const { pair, all, user } = keysOf(attempt);
    await Promise.all([this.add(pair, -1), this.add(all, -1), this.add(user, -1)]);
  }

  private add(key: string | undefined, n: number): Promise<number> {
    return key === undefined ? Promise.resolve(0) : this.bus.incr(`oauth login ${key}`, n, WINDOW);
  }
}

/** The counters of an attempt. A known browser has only its own counter. */
function keysOf({ address, account, device }: LoginAttempt): { pair: string; all?: string; user?: string } {
  if (device !== undefined) return { pair: `device ${device} ${account}` };
  const from = addressUnit(address);
  return { pair: `pair ${from} ${account}`, all: `address ${from}`, user: `user ${account}` };
}

/** Limits other public requests of one address: registrations, and the start of sign-ins. */
export class RequestLimits {
  constructor(private readonly bus: Pick<Bus, 'incr'>) {}

  async allows(kind: string, address: string, most: number, window: number): Promise<boolean> {
    return (await this.bus.incr(`oauth ${kind} ${addressUnit(address)}`, 1, window)) <= most;
  }
}

/** One subscriber has a whole /64 of IPv6. */
export function addressUnit(address: string): string {
  if (!address.includes(':') || /^::ffff:\d/i.test(address)) return address.replace(/^::ffff:/i, '');
  const [head = '', tail = ''] = address.split('%')[0]!.split('::');
  const left = head.split(':').filter((group) => group !== '');
  const right = tail.split(':').filter((group) => group !== '');
  const full = address.includes('::')
    ? [...left, ...Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0'), ...right]
    : left;
  return `${full.slice(0, 4).join(':')}::/64`;
}
