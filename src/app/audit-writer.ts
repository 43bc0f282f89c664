/** Writes the records of the audit trail into the database. */
import { createHash, createHmac, hash } from 'node:crypto';
import type { Config } from '../config/schema.js';
import {
  type AuditRecord,
  type AuditStatus,
  type AuditTrail,
  type ChangeRecord,
  type FoundChange,
  type GivenChange,
  NO_AUDIT,
} from '../core/audit-trail.js';
import { globOf } from '../core/catalog/glob.js';
import type { CallAuditOptions } from '../interceptors/audit.js';
import { ProtocolError } from '../protocol/errors.js';
import { type Audit, isStateError, type Keyring, type State } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { ThrottledLog } from '../telemetry/throttled-log.js';
import { textOf } from './audit-record-json.js';

/** The trail of the configuration. Commands that change the database use it too, and close the state afterwards. */
export function auditTrailOf(
  { audit }: Config,
  state: Pick<State, 'audit'>,
  log: Log,
  observe?: (record: AuditRecord) => void,
): AuditTrail {
  return audit.enabled ? new StoredAuditTrail(state.audit, audit.onFailure === 'closed', log, observe) : NO_AUDIT;
}

/** The settings of the interceptor that records calls; undefined if calls are not recorded. */
export function callAuditOf(
  { audit }: Config,
  { keyring }: Pick<State, 'keyring'>,
  trail: AuditTrail,
  identified: boolean,
): CallAuditOptions | undefined {
  const calls = audit.calls === 'auto' ? identified : audit.calls === 'all';
  if (!audit.enabled || !calls) return undefined;
  const patterns = audit.exclude.map(globOf);
  const known = new Map<string, boolean>();
  return {
    trail,
    hash: audit.arguments === 'hash' ? argumentHash(keyring) : undefined,
    excludes: (method) => {
      let excluded = known.get(method);
      if (excluded === undefined) {
        excluded = patterns.some((pattern) => pattern.test(method));
        // Clients choose the names of methods, so the number of remembered names is limited.
        if (known.size < MOST_METHODS) known.set(method, excluded);
      }
      return excluded;
    },
  };
}

const MOST_METHODS = 200;

/** 128 bits: no two arguments collide by chance. */
const HASH_DIGITS = 32;
/**
 * Arguments up to this size, in bytes, are copied into one buffer after the key and hashed in one call. For larger
 * arguments the copy costs more than a hash object, which takes key and arguments one after the other.
 */
const COPIED_BYTES = 16_384;

/**
 * A keyed hash of arguments: without the key, nobody can confirm a guess of the arguments. The hash is the first half
 * of the SHA-256 of a secret prefix and the text. An attacker cannot compute the hash of an extended text, because this
 * needs all of the SHA-256. This hash takes less than half of the time of an HMAC, which matters because the gateway
 * hashes the arguments of every call.
 */
function argumentHash(keyring: Keyring): (text: Buffer | string) => string {
  let from: Buffer | undefined;
  let prefix = '';
  let keyBytes = 0;
  const input = Buffer.allocUnsafeSlow(64 + COPIED_BYTES);
  return (text) => {
    const { active } = keyring;
    if (from !== active.key) {
      keyBytes = createHmac('sha256', active.key).update('parley audit arguments').digest().copy(input);
      prefix = `${active.id}:`;
      from = active.key;
    }
    const size = typeof text === 'string' ? Buffer.byteLength(text) : text.length;
    let digest: string;
    if (size > COPIED_BYTES) {
      digest = createHash('sha256').update(input.subarray(0, keyBytes)).update(text).digest('hex');
    } else {
      if (typeof text === 'string') input.write(text, keyBytes);
      else text.copy(input, keyBytes);
      digest = hash('sha256', input.subarray(0, keyBytes + size), 'hex');
    }
    return prefix + digest.slice(0, HASH_DIGITS);
  };
}

class StoredAuditTrail implements AuditTrail {
  private readonly losses: ThrottledLog;
  private dropped = 0;
  private lost = 0;

  constructor(
    private readonly audit: Audit,
    readonly closed: boolean,
    log: Log,
    /** Receives every record. Must not throw. */
    private readonly observe?: (record: AuditRecord) => void,
  ) {
    this.losses = new ThrottledLog(log);
  }

  record(record: AuditRecord): void {
    this.observe?.(record);
    if (!this.audit.addText(textOf(record))) this.dropped += 1;
    this.report();
  }

  private report(): void {
    const lost = this.dropped + this.audit.lost;
    if (lost === this.lost) return;
    this.lost = lost;
    this.losses.error('audit', { event: 'audit.lost', lost }, 'lost audit records: the database does not accept them');
  }

  before(record: AuditRecord): Promise<void> | undefined {
    if (!this.closed) return undefined;
    this.observe?.(record);
    return this.audit.writeNow(record).catch((error: unknown) => {
      this.losses.error('refused', { err: error }, 'refused a call or change: its audit record cannot be stored');
      throw new ProtocolError(
        'audit_unavailable',
        'The audit trail cannot store the record of this request, so the request was not executed; try again later',
        { outcome: 'not_executed', headers: { 'Retry-After': '1' } },
      );
    });
  }

  async change<T>(
    given: GivenChange,
    work: () => T | Promise<T>,
    found: (result: T) => FoundChange | undefined = () => ({}),
  ): Promise<T> {
    const record: ChangeRecord = { kind: 'change', ...given };
    await this.before({ ...record, phase: 'intent' });
    let result: T;
    try {
      result = await work();
    } catch (error) {
      const reason = error instanceof ProtocolError ? error.reason : error instanceof Error ? error.name : 'internal';
      await this.stored({ ...record, outcome: 'error', reason });
      throw error;
    }
    // With `closed` the intent is already stored, so its outcome must be recorded too.
    const facts = found(result) ?? (this.closed ? { reason: 'unchanged' } : undefined);
    if (facts !== undefined) {
      const details = { ...given.details, ...facts.details };
      const hasDetails = Object.keys(details).length > 0;
      await this.stored({ ...record, outcome: 'ok', ...facts, ...(hasDetails && { details }) });
    }
    return result;
  }

  status(): AuditStatus {
    return { lost: this.dropped + this.audit.lost, waiting: this.audit.waiting };
  }

  /** P1: the record of a change is durable when the change is acknowledged, unless the database does not answer. */
  private async stored(record: AuditRecord): Promise<void> {
    this.observe?.(record);
    try {
      await this.audit.writeNow(record);
    } catch (error) {
      const refused = isStateError(error) && (error.code === 'overloaded' || error.code === 'closed');
      if (refused) this.dropped += 1;
      this.report();
    }
  }
}
