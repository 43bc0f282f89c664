import { ProtocolError } from '../../protocol/errors.js';
import type { Outcome } from '../gateway.js';
import { readOutcome, writeOutcome } from './outcome-json.js';

/** How long, how many and how large: enough for a client that lost the reply and asks once more. */
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
 * Outcomes of calls whose last question was answered. The same answer again is a client that lost the reply, or a proxy
 * that repeated the request: the call has run, and its outcome is the reply to both. Without this memory, the reply to
 * the second would depend on whether it arrived before the call had ended.
 */
export class AnsweredCalls {
  /** In the order in which they ended, the oldest first. */
  private readonly kept = new Map<string, Answered>();
  private characters = 0;

  constructor(private readonly now: () => number = () => performance.now()) {}

  get size(): number {
    return this.kept.size;
  }

  keep(id: string, principal: string, round: number, answers: string, outcome: Outcome): void {
    // Nobody waited for the outcome of a cancelled call, and there is none to repeat.
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

  /** The outcome for the same answer; `different` for another one; undefined where nothing is known (any more). */
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
