import { tenantOf } from './caller-key.js';
import type { KeptOutcome, OutcomeListener } from './outcomes.js';
import { hashOf } from './tokenize.js';

/** The most outcomes of one caller that are read for one term. Earlier outcomes have no effect. */
const MOST_PER_CALLER = 20;
/** The most other callers that are read for one term. Callers with the latest outcomes are read first. */
const MOST_CALLERS = 30;

/** The caller that searches, and the other callers of its tenant whose outcomes may count for it. */
export interface Reader {
  readonly caller: string;
  counts(caller: string): boolean;
}

interface Own {
  readonly caller: string;
  /** The oldest outcome is first. */
  readonly outcomes: KeptOutcome[];
}

/** The outcomes with one term in one tenant. */
class Callers {
  /** The caller with the latest outcome is last. */
  private readonly byCaller = new Map<string, Own>();
  /** The callers in reverse order. Computed on the first read after a change. */
  private newest: readonly Own[] | undefined;

  get size(): number {
    return this.byCaller.size;
  }

  get newestFirst(): readonly Own[] {
    this.newest ??= [...this.byCaller.values()].reverse();
    return this.newest;
  }

  of(caller: string): Own | undefined {
    return this.byCaller.get(caller);
  }

  add(outcome: KeptOutcome): void {
    const { caller } = outcome;
    const own = this.byCaller.get(caller) ?? { caller, outcomes: [] };
    own.outcomes.push(outcome);
    this.byCaller.delete(caller);
    this.byCaller.set(caller, own);
    this.newest = undefined;
  }

  remove(outcome: KeptOutcome): void {
    const own = this.byCaller.get(outcome.caller);
    const at = own?.outcomes.indexOf(outcome) ?? -1;
    if (!own || at < 0) return;
    own.outcomes.splice(at, 1);
    if (own.outcomes.length > 0) return;
    this.byCaller.delete(outcome.caller);
    this.newest = undefined;
  }
}

/**
 * Finds outcomes by the hashes of their terms, separately for each tenant and caller, so that the outcomes of one
 * caller never displace those of another.
 */
export class OutcomesByTerm implements OutcomeListener {
  private readonly tenants = new Map<string, Map<number, Callers>>();

  added(outcome: KeptOutcome): void {
    const tenant = tenantOf(outcome.caller);
    const byTerm = this.tenants.get(tenant) ?? new Map<number, Callers>();
    this.tenants.set(tenant, byTerm);
    for (const hash of new Set(outcome.terms.map(hashOf))) {
      const callers = byTerm.get(hash) ?? new Callers();
      byTerm.set(hash, callers);
      callers.add(outcome);
    }
  }

  removed(outcome: KeptOutcome): void {
    const tenant = tenantOf(outcome.caller);
    const byTerm = this.tenants.get(tenant);
    for (const hash of new Set(outcome.terms.map(hashOf))) {
      const callers = byTerm?.get(hash);
      callers?.remove(outcome);
      if (callers?.size === 0) byTerm!.delete(hash);
    }
    if (byTerm?.size === 0) this.tenants.delete(tenant);
  }

  /** The latest outcomes with a term: the reader's own, and those of other callers that count for the reader. */
  *outcomes(term: number, { caller, counts }: Reader): Generator<KeptOutcome> {
    const callers = this.tenants.get(tenantOf(caller))?.get(term);
    if (!callers) return;
    const own = callers.of(caller);
    if (own) yield* latestOf(own);
    let others = 0;
    for (const other of callers.newestFirst) {
      if (other === own || !counts(other.caller)) continue;
      others += 1;
      if (others > MOST_CALLERS) return;
      yield* latestOf(other);
    }
  }
}

/** The outcomes, newest first. */
function* latestOf({ outcomes }: Own): Generator<KeptOutcome> {
  const end = Math.max(0, outcomes.length - MOST_PER_CALLER);
  for (let at = outcomes.length - 1; at >= end; at -= 1) yield outcomes[at]!;
}
