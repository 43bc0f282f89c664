import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';

/**
 * The cost of scrypt: 32 MiB and about 0.2 s. OWASP recommends these parameters. The hash contains it, so that a later
 * version can raise it.
 */
const COST = { N: 2 ** 15, r: 8, p: 3 } as const;
const KEY_BYTES = 32;
const SALT_BYTES = 16;
/** Limit on concurrent hashes, because each needs a thread of the pool and 32 MiB. */
const CONCURRENT = 2;
/**
 * Limit on the requests that wait for a hash. Further requests are refused, so that a flood cannot fill the memory.
 */
const WAITING = 32;

export const SHORTEST_PASSWORD = 10;
/** The longest password. It is long enough for a passphrase, and a longer input would only cost time. */
export const LONGEST_PASSWORD = 256;

export class TooManyHashes extends Error {
  override readonly name = 'TooManyHashes';

  constructor() {
    super('too many passwords are being checked; try again in a few seconds');
  }
}

let running = 0;
const queue: (() => void)[] = [];

/** Runs scrypt on the thread pool, never on the event loop. */
async function derive(password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> {
  if (running >= CONCURRENT) {
    if (queue.length >= WAITING) throw new TooManyHashes();
    await new Promise<void>((resolve) => queue.push(resolve));
  }
  running++;
  try {
    return await new Promise((resolve, reject) => {
      const maxmem = 256 * (options.N ?? COST.N) * (options.r ?? COST.r);
      scrypt(password.normalize('NFKC'), salt, KEY_BYTES, { ...options, maxmem }, (error, key) =>
        error ? reject(error) : resolve(key),
      );
    });
  } finally {
    running--;
    queue.shift()?.();
  }
}

/** The form of a stored hash: `scrypt$N$r$p$salt$key`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const key = await derive(password, salt, COST);
  return ['scrypt', COST.N, COST.r, COST.p, salt.toString('base64url'), key.toString('base64url')].join('$');
}

const HASH = /^scrypt\$(\d{1,8})\$(\d{1,3})\$(\d{1,3})\$([\w-]{16,64})\$([\w-]{43})$/;
/** A hash that no password has, because its last part was not derived from a password. */
const NOBODY = ['scrypt', COST.N, COST.r, COST.p, 'A'.repeat(22), 'A'.repeat(43)].join('$');

/** Whether the password has this hash. An absent hash takes the same time, so the duration reveals no user names. */
export async function verifyPassword(password: string, hash: string | undefined): Promise<boolean> {
  const [, N, r, p, salt, expected] = HASH.exec(hash ?? NOBODY) ?? HASH.exec(NOBODY)!;
  const options = { N: Number(N), r: Number(r), p: Number(p) };
  const key = await derive(password, Buffer.from(salt!, 'base64url'), options);
  return timingSafeEqual(key, Buffer.from(expected!, 'base64url')) && hash !== undefined;
}
