import type { Principal } from '../../core/caller.js';
import type { Condition, PartValue, Truth } from './condition.js';
import { Failure } from './failure.js';
import { Facts, type Question, type Subject } from './policy-question.js';
import { isOfCaller, type VariableName } from './variables.js';

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

/** Receives a rule that could not be evaluated. */
export type OnFailure = (rule: Rule, failure: Failure, principal: Principal) => void;

/** The rules without the parts that are already decided: each condition is a value, or the part that is still open. */
type Left = readonly { readonly rule: Rule; readonly when: Condition | Truth }[];

/** The rules that are still open for one caller. */
interface OfCaller {
  readonly rules: Left;
  /**
   * The rules that are still open for a target, after the evaluation of the parts that are the same for every call.
   */
  readonly targets: Map<string, { readonly definition: unknown; readonly rules: Left }>;
}

/** The values of those parts of conditions that are the same for every caller of a tool. */
interface OfTool {
  readonly server: string | undefined;
  readonly name: string;
  readonly values: Map<object, unknown>;
}

const DENIED: Decision = { effect: 'deny', rule: undefined };
/** Limit on the targets that are remembered for each caller. Beyond the limit all of them are forgotten. */
const MOST_TARGETS = 2_000;
/** Longer names are not remembered: callers choose the URIs that they ask for. */
const MOST_NAME = 300;

/**
 * Ordered rules; the first that matches decides, and a call that no rule matches is denied. A condition that fails
 * counts as no match for `allow` and as a match for `deny`.
 */
export class Policy {
  private readonly callers = new WeakMap<Principal, OfCaller>();
  /** Keyed by the definition of the tool. */
  private readonly tools = new WeakMap<object, OfTool>();

  constructor(
    readonly rules: readonly Rule[],
    private readonly failed: OnFailure = () => {},
  ) {}

  /** The decision about a call. */
  decide(question: Question): Decision {
    const facts = this.factsOf(question);
    return this.run(this.leftFor(question, facts), facts, question, false);
  }

  /**
   * The most permissive decision that any call of this question could get: parts that depend on the single call stay
   * open. A list asks this once about every tool, so the rules are not prepared for another question about the same
   * tool.
   */
  couldBe(question: Question): Decision {
    const facts = this.factsOf(question);
    return this.run(this.ofCaller(question, facts).rules, facts, question, true);
  }

  private run(left: Left, facts: Facts, { principal }: Question, generous: boolean): Decision {
    let unsure: Decision | undefined;
    for (const { rule, when } of left) {
      const value = isCondition(when) ? when.evaluate(facts) : when;
      if (value === false || value === 'absent') continue;
      if (value instanceof Failure) {
        this.failed(rule, value, principal);
        if (rule.effect === 'deny') return { effect: 'deny', rule };
        // If an `approve` rule cannot be evaluated, the call needs an approval if a later rule allows the call.
        if (rule.effect === 'approve') unsure ??= { effect: 'approve', rule };
        continue;
      }
      if (value === 'unknown' && generous !== (rule.effect !== 'deny')) continue;
      if (rule.effect === 'allow' && unsure) return unsure;
      return value === 'unknown' ? { effect: rule.effect, rule, partly: true } : { effect: rule.effect, rule };
    }
    return DENIED;
  }

  private ofCaller({ principal }: Question, facts: Facts): OfCaller {
    let known = this.callers.get(principal);
    if (!known) {
      const rules = this.rules.map((rule) => ({ rule, when: rule.when as Condition | Truth }));
      known = { rules: reduced(rules, facts, isOfCaller), targets: new Map() };
      this.callers.set(principal, known);
    }
    return known;
  }

  private leftFor(question: Question, facts: Facts): Left {
    const { protocol, method, subject } = question;
    const { rules, targets } = this.ofCaller(question, facts);
    if (subject.name.length > MOST_NAME) return reduced(rules, facts);
    const open = question.arguments ? '' : 'open';
    const key = `${open} ${protocol} ${method} ${subject.kind} ${subject.server} ${subject.name}`;
    const known = targets.get(key);
    if (known && known.definition === subject.definition) return known.rules;
    if (targets.size >= MOST_TARGETS) targets.clear();
    const left = reduced(rules, facts);
    targets.set(key, { definition: subject.definition, rules: left });
    return left;
  }

  private factsOf(question: Question): Facts {
    const { kind, server, name, definition } = question.subject;
    if (kind !== 'tool' || !definition) return new Facts(question);
    const known = this.tools.get(definition);
    if (known && known.name === name && known.server === server) return new Facts(question, known.values);
    const made: OfTool = { server, name, values: new Map() };
    this.tools.set(definition, made);
    return new Facts(question, made.values);
  }

  /**
   * Whether the rules refuse a method that concerns no single item, such as a list. Only a `deny` rule that names
   * methods refuses such a method. The content of the answer is filtered in any case.
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
    const rules: ExplainedRule[] = [];
    for (const rule of this.rules) {
      // Each rule has the full limits of an evaluation: an explanation evaluates more than a decision.
      const facts = new Facts(question);
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

function reduced(rules: Left, facts: Facts, settled?: (name: VariableName) => boolean): Left {
  const left: { rule: Rule; when: Condition | Truth }[] = [];
  for (const { rule, when: before } of rules) {
    const when = isCondition(before) ? before.reduced(facts, settled) : before;
    if (when === false || when === 'absent') continue;
    left.push({ rule, when });
    if (when === true) break;
  }
  return left;
}
