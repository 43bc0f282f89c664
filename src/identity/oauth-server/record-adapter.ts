import { type Adapter, type AdapterPayload, errors } from 'oidc-provider';
import type { Seal } from '../../core/seal.js';
import type { OAuthRecords, OAuthRevocations, StoredOAuthRecord } from '../../state/index.js';
import { recordId } from './record-id.js';
import { grantRevocation, REVOCATION_LIFE } from './revocation-list.js';

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
const COUNT_EVERY = 5_000;
/** The part of the rows that is removed at a time. */
const REMOVED_PART = 0.01;

export interface RecordAdapterOptions {
  readonly records: OAuthRecords;
  readonly revocations: Pick<OAuthRevocations, 'add'>;
  readonly seal: Seal;
  readonly now: () => number;
  /** Limit on the rows of a kind, in place of `MOST`. */
  readonly most?: Readonly<Record<string, number>>;
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
    const { records } = this.options;
    const id = recordId(value);
    if (await records.consume(this.model, id, NOTICE_REUSE)) return;
    const grant = this.opened(await records.get(this.model, id))?.grantId;
    if (grant !== undefined) await this.revokeByGrantId(grant);
    throw new errors.InvalidGrant(`the ${this.model} was used already`);
  }

  async destroy(value: string): Promise<void> {
    const id = recordId(value);
    await this.options.records.remove(this.model, id);
    if (this.model === 'Grant') await this.options.revocations.add(grantRevocation(id), REVOCATION_LIFE);
  }

  /** Ends the grant with all its codes and tokens. Its access tokens are refused within a second on every replica. */
  async revokeByGrantId(grantId: string): Promise<void> {
    await revokeGrant(this.options, recordId(grantId));
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

/** Revokes a grant by the id of its record. */
export async function revokeGrant(
  { records, revocations }: Pick<RecordAdapterOptions, 'records' | 'revocations'>,
  id: string,
): Promise<void> {
  // The tokens of the grant are refused before its records are gone.
  await revocations.add(grantRevocation(id), REVOCATION_LIFE);
  await records.removeGrant(id);
  await records.remove('Grant', id);
}
