/**
 * Limits the work of one evaluation and of all evaluations of one decision (S10). Arguments come from callers. Without
 * a limit, a macro within a macro over a body of some hundred kilobytes blocks the process for minutes. With a limit
 * for single evaluations only, a decision could take the limit once for each rule.
 */

/** Limit on the elements that all macros of one evaluation visit together. */
const MOST_ELEMENTS = 100_000;
/** Limits on the steps of all patterns: in one evaluation, and in one decision. */
const MOST_STEPS = 5_000_000;
const MOST_STEPS_OF_DECISION = 4 * MOST_STEPS;
/**
 * Time limit for a decision with macros, in milliseconds. Each element may cause a search in a long list or text, which
 * the counters do not count. The limit is far above what conditions need, so that a slow machine does not change
 * decisions.
 */
const MOST_TIME = 500;
const MEASURED_EVERY = 8;
/** Shorter lists are not measured, because measuring costs more than visiting them. */
const SHORT = 16;

// The current decision. There is never more than one, because a decision is synchronous.
let elements = 0;
let visited = 0;
let steps = 0;
let decision: number | undefined;
let stepsOfDecision = 0;
let began: number | undefined;
let lastDecision = 0;

/** A number for a new decision. Each evaluation of the decision names this number. */
export const newDecision = (): number => ++lastDecision;

/** Begins an evaluation of a decision. */
export function beginEvaluation(of: number): void {
  elements = 0;
  visited = 0;
  steps = 0;
  if (of === decision) return;
  decision = of;
  stepsOfDecision = 0;
  began = undefined;
}

/**
 * Counts the elements that a macro is about to visit: the elements of a list, or the keys of a map. Throws if there are
 * too many.
 */
export function visitedElements(items: unknown): unknown {
  if (typeof items !== 'object' || items === null) return items;
  const list: unknown[] = Array.isArray(items) ? items : Object.keys(items);
  elements += list.length;
  if (elements > MOST_ELEMENTS) throw new Error(`the macros of a condition visit at most ${MOST_ELEMENTS} elements`);
  if (began === undefined) began = performance.now();
  else measure(began);
  return list.length < SHORT ? list : new Proxy(list, MEASURED);
}

const MEASURED: ProxyHandler<unknown[]> = {
  get(list, key) {
    if (key !== 'length' && ++visited % MEASURED_EVERY === 0) measure(began!);
    return Reflect.get(list, key);
  },
};

function measure(since: number): void {
  if (performance.now() - since > MOST_TIME)
    throw new Error(`the macros of a decision take at most ${MOST_TIME} milliseconds`);
}

/** Counts the steps of a match that is about to run. Throws if there are too many. */
export function matchSteps(count: number): void {
  steps += count;
  stepsOfDecision += count;
  if (stepsOfDecision > MOST_STEPS_OF_DECISION)
    throw new Error(`the patterns of a decision take at most ${MOST_STEPS_OF_DECISION} steps`);
  if (steps > MOST_STEPS) throw new Error(`the patterns of a condition take at most ${MOST_STEPS} steps`);
}
