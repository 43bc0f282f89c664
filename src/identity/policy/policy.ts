import type { Principal } from '../../core/caller.js';
import { type Condition, Failure, type PartValue, type Truth } from './condition.js';
import { Facts, type Question, type Subject } from './question.js';

export const EFFECTS = ['allow', 'deny', 'approve'] as const;
export type Effect = (typeof EFFECTS)[number];

/** A rule whose condition was parsed when the configuration was read. */
export interface Rule {
  readonly name: string;
  readonly effect: Effect;
  readonly when: Condition;
}

export interface Decision {
  readonly effect: Effect;
  /** The rule that decided; undefined if no rule matched, which denies. */
  readonly rule: Rule | undefined;
  /** Whether the rule matches only some of the calls that the question is about. */
  readonly partly?: true;
}

/** One rule of an explanation. */
export interface ExplainedRule {
  readonly name: string;
  readonly effect: Effect;
  readonly value: Truth;
  readonly decides: boolean;
  readonly parts: readonly PartValue[];
}

/** Takes a rule that could not be evaluated. */
export type OnFailure = (rule: Rule, failure: Failure, principal: Principal) => void;

/** The rules that are left for one caller and one target, after the parts that are the same for every call. */
interface Left {
  readonly definition: unknown;
  readonly rules: readonly { readonly rule: Rule; readonly when: Condition | Truth }[];
}

const DENIED: Decision = { effect: 'deny', rule: undefined };
/** Targets remembered for each caller. Beyond it all are forgotten. */
const MOST_TARGETS = 2_000;
/** Longer names are not remembered: callers choose the URIs that they ask for. */
const MOST_NAME = 300;

/**
 * Ordered rules; the first that matches decides, and a call that no rule matches is denied. A condition that fails
 * counts as no match for `allow` and as a match for `deny`.
 */
export class Policy {
  private readonly left = new WeakMap<Principal, Map<string, Left>>();

  constructor(
    readonly rules: readonly Rule[],
    private readonly failed: OnFailure = () => {},
  ) {}

  /** The decision about a call. */
  decide(question: Question): Decision {
    return this.run(question, false);
  }

  /** The most that some call of this question could be allowed: parts that depend on the single call are left open. */
  couldBe(question: Question): Decision {
    return this.run(question, true);
  }

  private run(question: Question, generous: boolean): Decision {
    const facts = new Facts(question);
    let unsure: Decision | undefined;
    for (const { rule, when } of this.leftFor(question, facts)) {
      const value = isCondition(when) ? when.evaluate(facts) : when;
      if (value === false || value === 'absent') continue;
      if (value instanceof Failure) {
        this.failed(rule, value, question.principal);
        if (rule.effect === 'deny') return { effect: 'deny', rule };
        // A call whose need of approval is not certain is approved if a later rule allows it.
        if (rule.effect === 'approve') unsure ??= { effect: 'approve', rule };
        continue;
      }
      if (value === 'unknown' && generous !== (rule.effect !== 'deny')) continue;
      if (rule.effect === 'allow' && unsure) return unsure;
      return value === 'unknown' ? { effect: rule.effect, rule, partly: true } : { effect: rule.effect, rule };
    }
    return DENIED;
  }

  private leftFor(question: Question, facts: Facts): Left['rules'] {
    const { principal, protocol, method, subject } = question;
    if (subject.name.length > MOST_NAME) return reduced(this.rules, facts);
    let targets = this.left.get(principal);
    if (!targets) {
      targets = new Map();
      this.left.set(principal, targets);
    }
    const open = question.arguments ? '' : 'open';
    const key = `${open} ${protocol} ${method} ${subject.kind} ${subject.server} ${subject.name}`;
    const known = targets.get(key);
    if (known && known.definition === subject.definition) return known.rules;
    if (targets.size >= MOST_TARGETS) targets.clear();
    const rules = reduced(this.rules, facts);
    targets.set(key, { definition: subject.definition, rules });
    return rules;
  }

  /**
   * Whether a method is refused that concerns no single item, such as a list: only by a `deny` rule that names methods.
   * The content of the answer is filtered in any case.
   */
  refusesMethod(question: Question & { readonly subject: Subject }): Decision | undefined {
    const facts = new Facts(question);
    for (const rule of this.rules) {
      const value = rule.when.evaluate(facts);
      if (value !== true) continue;
      if (rule.effect !== 'deny') return undefined;
      if (rule.when.reads.has('method')) return { effect: 'deny', rule };
    }
    return undefined;
  }

  /** Every rule with the values of its parts, up to the rule that decides. */
  explain(question: Question): { readonly decision: Decision; readonly rules: readonly ExplainedRule[] } {
    const decision = this.decide(question);
    const facts = new Facts(question);
    const rules: ExplainedRule[] = [];
    for (const rule of this.rules) {
      const decides = rule === decision.rule;
      const { name, effect, when } = rule;
      rules.push({ name, effect, value: when.evaluate(facts), decides, parts: when.parts(facts) });
      if (decides) break;
    }
    return { decision, rules };
  }
}

const isCondition = (when: Condition | Truth): when is Condition =>
  typeof when === 'object' && !(when instanceof Failure);

function reduced(rules: readonly Rule[], facts: Facts): Left['rules'] {
  const left: { rule: Rule; when: Condition | Truth }[] = [];
  for (const rule of rules) {
    const when = rule.when.reduced(facts);
    if (when === false || when === 'absent') continue;
    left.push({ rule, when });
    if (when === true) break;
  }
  return left;
}
