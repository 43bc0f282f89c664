import type { Bus } from '../../state/index.js';

const WINDOW = 15 * 60_000;

/** Attempts of one address for any users: an office may share an address. */
const PER_ADDRESS = 100;
/** Attempts of one address, or of one known browser, for one user. */
const PER_PAIR = 10;
/** Attempts of all addresses for one user, after which an unknown browser has fewer attempts. */
const PER_ACCOUNT = 50;
const PER_PAIR_UNDER_ATTACK = 3;

export interface LoginAttempt {
  readonly address: string;
  readonly account: string;
  /** The id of a browser in which this user has signed in before. */
  readonly device: string | undefined;
}

/**
 * Limits the guessing of passwords, over all replicas. Nobody can lock a user out: a browser in which the user has
 * signed in has its own count, and every other address keeps a few attempts, however many others fail.
 */
export class LoginLimits {
  constructor(private readonly bus: Pick<Bus, 'incr'>) {}

  /** Counts an attempt. Returns undefined, or the seconds after which another attempt is possible. */
  async attempt({ address, account, device }: LoginAttempt): Promise<number | undefined> {
    const from = addressUnit(address);
    const count = (key: string): Promise<number> => this.bus.incr(`oauth login ${key}`, 1, WINDOW);
    if (device !== undefined) {
      return (await count(`device ${device} ${account}`)) > PER_PAIR ? WINDOW / 1_000 : undefined;
    }
    const [all, pair, user] = await Promise.all([
      count(`address ${from}`),
      count(`pair ${from} ${account}`),
      count(`user ${account}`),
    ]);
    const most = user > PER_ACCOUNT ? PER_PAIR_UNDER_ATTACK : PER_PAIR;
    return all > PER_ADDRESS || pair > most ? WINDOW / 1_000 : undefined;
  }
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
