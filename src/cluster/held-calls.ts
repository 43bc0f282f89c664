import { randomUUID } from 'node:crypto';
import { writeOutcome } from '../core/era-bridge/outcome-json.js';
import { type Call, failed, type Outcome, type ParkedCall } from '../core/gateway.js';
import { ProtocolError } from '../protocol/errors.js';
import type { JsonObject } from '../protocol/jsonrpc/raw.js';
import type { InputResponses } from '../protocol/mcp/model.js';

interface Held {
  readonly call: ParkedCall;
  /** The replica of the caller. */
  readonly from: string;
  readonly expiry: NodeJS.Timeout;
}

/**
 * Parked calls of a shared process, which its owner holds for callers at other replicas. An entry ends when the call
 * ends, when the caller's replica abandons the call or dies, and after `lifetime` at the latest, because a replica that
 * never received the question cannot abandon the call.
 */
export class HeldCalls {
  private readonly held = new Map<string, Held>();

  constructor(private readonly lifetime: number) {}

  get size(): number {
    return this.held.size;
  }

  /** Writes the outcome for the caller's replica. Holds a call that needs input, under the id in that outcome. */
  settle(outcome: Outcome, from: string, before?: string): JsonObject {
    const abandoned = before !== undefined && !this.remove(before);
    if (outcome.kind !== 'input_required' || !outcome.parked) return writeOutcome(outcome);
    if (abandoned) {
      outcome.parked.abandon('The call was abandoned');
      return writeOutcome(over());
    }
    const id = before ?? randomUUID();
    const expiry = setTimeout(() => this.abandon(id, 'The question was not answered in time'), this.lifetime).unref();
    this.held.set(id, { call: outcome.parked, from, expiry });
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
    return held;
  }
}

const over = (): Outcome => failed(new ProtocolError('invalid_state', 'The call has ended already'));
