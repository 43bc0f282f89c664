import { type Adapter, type AdapterPayload, errors } from 'oidc-provider';
import type { Seal } from '../../core/seal.js';
import type { OAuthRecords, StoredOAuthRecord } from '../../state/index.js';
import { recordId } from './record-id.js';
import type { Revocations } from './revoke-tokens.js';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** A registered client that never signs in is forgotten soon, because anybody may register. */
const UNUSED_CLIENT = DAY;
/** A used client is kept this long after its last sign-in or refresh. */
export const USED_CLIENT = 90 * DAY;
/** How long after its first use a second use of a code or refresh token is noticed. */
const NOTICE_REUSE = DAY;
/**
 * Encrypted values stay readable for longer than their rows live, because the rows of a client in use are kept for
 * years.
 */
const SEALED_FOR = 3_650 * DAY;

/**
 * Limit on the rows of each kind that anybody can make without signing in. Beyond this number the rows that would end
 * first are removed. If new rows were refused instead, a flood of a few addresses would keep everybody out for a day.
 */
const MOST: Readonly<Record<string, number>> = { Client: 10_000, Interaction: 20_000, Session: 100_000 };
/**
 * The most rows of these kinds of a user, beside the one that was just made. Those that would end first are removed:
 * they were not used for the longest time.
 */
const MOST_OF_USER: Readonly<Record<string, number>> = { Grant: 50, Session: 100 };
/** The most refresh tokens of a grant that can be used. The ones that were issued first are removed. */
const MOST_UNUSED = 50;
/** The most used refresh tokens of a grant that are kept, if not `mostUsed`. */
const MOST_USED = 2_000;
const COUNT_EVERY = 5_000;
/** The part of the rows that is removed at a time. */
const REMOVED_PART = 0.01;

export interface RecordAdapterOptions {
  readonly records: OAuthRecords;
  readonly revocations: Pick<Revocations, 'endGrant'>;
  readonly seal: Seal;
  readonly now: () => number;
  /** Limit on the rows of a kind, in place of `MOST`. */
  readonly most?: Readonly<Record<string, number>>;
  /**
   * The most used refresh tokens of a grant that are kept to notice their second use. Beyond this number the grant waits
   * until the first ones are forgotten. If they were removed instead, a thief could hide a theft behind many refreshes.
   */
  readonly mostUsed?: number | undefined;
}

/** Stores the models of oidc-provider in our database: encrypted, bound to their row (S18), bounded in number. */
export class RecordAdapter implements Adapter {
  private counted = { at: Number.NEGATIVE_INFINITY, rows: 0 };

  constructor(
    private readonly model: string,
    private readonly options: RecordAdapterOptions,
  ) {}

  async upsert(value: string, payload: AdapterPayload, expiresIn?: number): Promise<void> {
    await this.makeRoom();
    const { records, now } = this.options;
    const id = recordId(value);
    const { grantId, uid, accountId } = payload;
    const expiresAt = now() + (expiresIn === undefined ? UNUSED_CLIENT : expiresIn * 1_000);
    // A grant lives as long as its newest refresh token, so that a client that only refreshes keeps its access.
    if (this.model === 'RefreshToken' && grantId !== undefined)
      await records.extend('Grant', recordId(grantId), expiresAt);
    await records.put({
      model: this.model,
      id,
      sealed: this.sealed(id, payload),
      grantId: grantId === undefined ? undefined : recordId(grantId),
      uid: uid === undefined ? undefined : recordId(uid),
      account: accountId,
      expiresAt,
    });
    if (this.model === 'RefreshToken' && grantId !== undefined)
      await records.removeUnused(this.model, recordId(grantId), MOST_UNUSED);
    if (accountId !== undefined) await this.limitUser(accountId, id);
  }

  async find(value: string): Promise<AdapterPayload | undefined> {
    return this.opened(await this.options.records.get(this.model, recordId(value)));
  }

  async findByUid(uid: string): Promise<AdapterPayload | undefined> {
    return this.opened(await this.options.records.getByUid(this.model, recordId(uid)));
  }

  async findByUserCode(): Promise<undefined> {
    return undefined;
  }

  /** Exactly one request uses a code or refresh token, over all replicas. A second use revokes the grant. */
  async consume(value: string): Promise<void> {
    const { records, mostUsed = MOST_USED } = this.options;
    const id = recordId(value);
    const bound = this.model === 'RefreshToken' ? mostUsed : undefined;
    if (await records.consume(this.model, id, NOTICE_REUSE, bound)) return;
    const found = this.opened(await records.get(this.model, id));
    if (found && found['consumed'] === undefined) throw tooMany();
    if (found?.grantId !== undefined) await revokeGrant(this.options, recordId(found.grantId));
    throw new errors.InvalidGrant(`the ${this.model} was used already`);
  }

  async destroy(value: string): Promise<void> {
    const id = recordId(value);
    if (this.model === 'Grant') await revokeGrant(this.options, id);
    else await this.options.records.remove(this.model, id);
  }

  /**
   * Ends the grant with all its codes and tokens. Its access tokens are refused within a second on every replica.
   * The provider calls this for each model at the same time; the call for access tokens does the work of all.
   */
  async revokeByGrantId(grantId: string): Promise<void> {
    if (this.model === 'AccessToken') await revokeGrant(this.options, recordId(grantId));
  }

  private sealed(id: string, payload: AdapterPayload): string {
    return this.options.seal.close('oauth', `${this.model} ${id}`, payload, SEALED_FOR);
  }

  private opened(found: StoredOAuthRecord | undefined): AdapterPayload | undefined {
    if (!found) return undefined;
    let payload: AdapterPayload;
    try {
      payload = this.options.seal.open('oauth', `${this.model} ${found.id}`, found.sealed) as AdapterPayload;
    } catch {
      // The key was removed from `state.keys`, or somebody changed the row.
      return undefined;
    }
    return {
      ...payload,
      // The life of a grant can be extended after its content was written, so the end of life in the row counts.
      ...(this.model === 'Grant' && { exp: Math.floor(found.expiresAt / 1_000) }),
      ...(found.consumedAt !== undefined && { consumed: Math.floor(found.consumedAt / 1_000) }),
    };
  }

  private async limitUser(account: string, newest: string): Promise<void> {
    const most = MOST_OF_USER[this.model];
    if (most === undefined) return;
    const { records } = this.options;
    for (const id of await records.beyond(this.model, account, { most, newest })) {
      if (this.model === 'Grant') await revokeGrant(this.options, id);
      else await records.remove(this.model, id);
    }
  }

  private async makeRoom(): Promise<void> {
    const most = (this.options.most ?? MOST)[this.model];
    if (most === undefined) return;
    const now = performance.now();
    if (now - this.counted.at > COUNT_EVERY)
      this.counted = { at: now, rows: await this.options.records.count(this.model) };
    this.counted.rows++;
    if (this.counted.rows <= most) return;
    const surplus = this.counted.rows - most + Math.ceil(most * REMOVED_PART);
    this.counted.rows -= surplus;
    await this.options.records.removeFirstToEnd(this.model, surplus);
  }
}

/** The client keeps its refresh token, and may use it later. */
function tooMany(): Error {
  const text = 'too many refreshes of this grant within a day; try again later';
  return Object.assign(new errors.CustomOIDCProviderError('temporarily_unavailable', text), {
    status: 429,
    statusCode: 429,
  });
}

/** Revokes a grant by the id of its record. A grant without a record was revoked before. */
export async function revokeGrant(
  { records, revocations }: Pick<RecordAdapterOptions, 'records' | 'revocations'>,
  id: string,
): Promise<void> {
  const account = await records.accountOf('Grant', id);
  if (account === undefined) return;
  // The tokens of the grant are refused before its records are gone.
  await revocations.endGrant(id, account);
  await records.removeGrant(id);
  await records.remove('Grant', id);
}
