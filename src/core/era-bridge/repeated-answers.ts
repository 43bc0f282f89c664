import { ProtocolError } from '../../protocol/errors.js';
import type { Outcome } from '../gateway.js';
import { readOutcome, writeOutcome } from './outcome-json.js';

/** Limits of time, number and size. They suffice for a client that lost the reply and repeats its answer. */
const KEPT_MS = 60_000;
const MOST = 256;
const MOST_CHARACTERS = 8 * 1024 * 1024;
const LONGEST = 1024 * 1024;

interface Answered {
  readonly principal: string;
  readonly round: number;
  readonly answers: string;
  readonly outcome: string;
  readonly until: number;
}

/**
 * Outcomes of calls whose last question was answered. A repeated answer comes from a client that lost the reply, or
 * from a proxy that repeated the request. The call has run, so both requests get its outcome. Without this memory, the
 * second reply would depend on whether the request arrived before the call had ended.
 */
export class RepeatedAnswers {
  /** The outcomes in the order in which the calls ended, oldest first. */
  private readonly kept = new Map<string, Answered>();
  private characters = 0;

  constructor(private readonly now: () => number = () => performance.now()) {}

  get size(): number {
    return this.kept.size;
  }

  keep(id: string, principal: string, round: number, answers: string, outcome: Outcome): void {
    // A cancelled call has no outcome to repeat.
    if (outcome.kind === 'error' && outcome.error instanceof ProtocolError && outcome.error.reason === 'cancelled')
      return;
    if (this.kept.has(id)) return;
    const text = JSON.stringify(writeOutcome(outcome));
    if (text.length > LONGEST) return;
    this.kept.set(id, { principal, round, answers, outcome: text, until: this.now() + KEPT_MS });
    this.characters += text.length;
    for (const [oldest, { until }] of this.kept) {
      const fits = this.kept.size <= MOST && this.characters <= MOST_CHARACTERS;
      if (fits && until > this.now()) break;
      this.drop(oldest);
    }
  }

  /**
   * Returns the outcome for the same answer, `different` for another answer, or undefined if no outcome is kept or its
   * time is over.
   */
  find(id: string, principal: string, round: number, answers: string): Outcome | 'different' | undefined {
    const known = this.kept.get(id);
    if (!known || known.principal !== principal || known.round !== round) return undefined;
    if (known.until <= this.now()) {
      this.drop(id);
      return undefined;
    }
    return known.answers === answers ? readOutcome(JSON.parse(known.outcome)).outcome : 'different';
  }

  private drop(id: string): void {
    const known = this.kept.get(id);
    if (!known) return;
    this.kept.delete(id);
    this.characters -= known.outcome.length;
  }
}
