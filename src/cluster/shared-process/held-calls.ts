import { randomUUID } from 'node:crypto';
import { Quota, type QuotaLimits, type Release } from '../../core/count-and-byte-limit.js';
import { writeOutcome } from '../../core/era-bridge/outcome-json.js';
import { REQUEST_BYTES } from '../../core/era-bridge/request-byte-limits.js';
import { type Call, failed, type Outcome, type ParkedCall } from '../../core/gateway.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { InputResponses } from '../../protocol/mcp/model.js';

interface Held {
  readonly call: ParkedCall;
  /** The replica of the caller. */
  readonly from: string;
  readonly expiry: NodeJS.Timeout;
  readonly release: Release;
}

/** The callers' replicas limit their own calls; this bounds the sum of all replicas. */
const MOST_HELD: QuotaLimits = { count: 10_000, bytes: REQUEST_BYTES.inAll };

/**
 * Parked calls of a shared process, which its owner holds for callers at other replicas. An entry ends when the call
 * ends, when the caller's replica abandons the call or dies, and after `lifetime` at the latest, because a replica that
 * never received the question cannot abandon the call.
 */
export class HeldCalls {
  private readonly held = new Map<string, Held>();

  private readonly room: Quota;

  constructor(
    private readonly lifetime: number,
    most: QuotaLimits = MOST_HELD,
  ) {
    this.room = new Quota(most);
  }

  get size(): number {
    return this.held.size;
  }

  /** The outcome of a new call with a request of this size. */
  begin(outcome: Outcome, from: string, bytes: number): JsonObject {
    if (outcome.kind !== 'input_required' || !outcome.parked) return writeOutcome(outcome);
    const release = this.room.take(bytes);
    if (release) return this.hold(randomUUID(), outcome, outcome.parked, from, release);
    outcome.parked.abandon(FULL);
    return writeOutcome(failed(new ProtocolError('overloaded', FULL, { outcome: 'unknown' })));
  }

  /** The next outcome of a held call. */
  settle(id: string, outcome: Outcome, from: string): JsonObject {
    const before = this.held.get(id);
    if (before && outcome.kind === 'input_required' && outcome.parked) {
      clearTimeout(before.expiry);
      return this.hold(id, outcome, outcome.parked, from, before.release);
    }
    this.remove(id);
    if (outcome.kind !== 'input_required' || !outcome.parked) return writeOutcome(outcome);
    outcome.parked.abandon('The call was abandoned');
    return writeOutcome(over());
  }

  /** Writes the outcome for the caller's replica, with the id under which the call is held. */
  private hold(id: string, outcome: Outcome, call: ParkedCall, from: string, release: Release): JsonObject {
    const expiry = setTimeout(() => this.abandon(id, 'The question was not answered in time'), this.lifetime).unref();
    this.held.set(id, { call, from, expiry, release });
    return writeOutcome(outcome, id);
  }

  async resume(id: string, sinks: Pick<Call, 'notify' | 'cancellation'>, answers: InputResponses): Promise<Outcome> {
    const held = this.held.get(id);
    if (!held) return over();
    try {
      return await held.call.resume(sinks, answers);
    } catch (error) {
      this.remove(id);
      throw error;
    }
  }

  abandon(id: string, reason: string): void {
    this.remove(id)?.call.abandon(reason);
  }

  /** Abandons the calls of dead replicas. */
  async sweep(alive: (replica: string) => Promise<boolean>): Promise<void> {
    for (const [id, { from }] of [...this.held])
      if (!(await alive(from))) this.abandon(id, 'The replica that held the question is gone');
  }

  /** Forgets all calls, because the process that ran them has ended. */
  clear(): void {
    for (const id of [...this.held.keys()]) this.remove(id);
  }

  private remove(id: string): Held | undefined {
    const held = this.held.get(id);
    this.held.delete(id);
    clearTimeout(held?.expiry);
    held?.release();
    return held;
  }
}

const FULL = 'Too many calls of other replicas wait for answers; try again later';

const over = (): Outcome => failed(new ProtocolError('invalid_state', 'The call has ended already'));
