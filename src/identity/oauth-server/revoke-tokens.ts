import type { Bus, OAuthRevocations } from '../../state/index.js';
import { grantRevocation, REVOCATION_LIFE, tokenRevocation, userRevocation } from './revocation-list.js';

/**
 * The most rows for single tokens of a user, and for single grants of a user, during the life of a row. A further token
 * is ended with its grant, and a further grant with all access tokens of the user: that is one row, however often.
 */
const MOST_SINGLE = 100;
/** Clocks may differ by this much. */
const CLOCKS_DIFFER = 3_600_000;

export interface EndedToken {
  readonly jti: string;
  readonly user: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

/** Ends access tokens before they expire. A client that ends its tokens in a loop makes a bounded number of rows. */
export class Revocations {
  constructor(
    private readonly store: Pick<OAuthRevocations, 'add'>,
    private readonly counters: Pick<Bus, 'incr'>,
    private readonly now: () => number,
  ) {}

  /** Ends the access tokens of a grant of this user. */
  async endGrant(grant: string, user: string): Promise<void> {
    const single = await this.isSingle(`grants ${user}`);
    await this.store.add(single ? grantRevocation(grant) : userRevocation(user), REVOCATION_LIFE);
  }

  /** Returns false, and ends nothing, if the user has ended so many tokens that the grant has to end instead. */
  async endToken({ jti, user, expiresAt }: EndedToken): Promise<boolean> {
    if (!(await this.isSingle(`tokens ${user}`))) return false;
    const life = Math.min(expiresAt - this.now() + CLOCKS_DIFFER, REVOCATION_LIFE);
    await this.store.add(tokenRevocation(jti), life);
    return true;
  }

  /** If the counter cannot be read, the revocation is made all the same. */
  private async isSingle(key: string): Promise<boolean> {
    const count = await this.counters.incr(`oauth revoked ${key}`, 1, REVOCATION_LIFE).catch(() => 0);
    return count <= MOST_SINGLE;
  }
}
