import { type ASTNode, serialize } from '@marcbachmann/cel-js';
import { beginEvaluation, visitedElements } from './evaluation-cost.js';
import { Failure } from './failure.js';
import { fastComparison } from './fast-comparisons.js';
import { compilePattern } from './linear-regex.js';
import {
  ENVIRONMENT,
  isFixed,
  isOfTool,
  isVariable,
  LINEAR_MATCHES,
  type VariableName,
  variablesBelow,
} from './variables.js';

/** The values of variables, by their names in an expression. */
export type Values = Readonly<Record<string, unknown>>;

/**
 * The value of a condition. `unknown`: it depends on a variable that the question leaves open, such as the arguments in
 * a list. `absent`: it reads a variable that this kind of target does not have, such as the tool of a prompt.
 */
export type Truth = boolean | 'unknown' | 'absent' | Failure;

/** The values that an evaluation can read. */
export interface KnownVariables {
  /** The decision that the evaluation is a part of: the work of all its evaluations is limited together. */
  readonly decision: number;
  readonly values: Values;
  /** Whether a variable has a value, is left open, or does not exist for this target. */
  state(name: VariableName): 'known' | 'unknown' | 'absent';
  /** The values of parts that are the same for every caller of this tool; undefined if there is no such memory. */
  readonly ofTool?: Map<object, unknown> | undefined;
}

interface Leaf {
  readonly kind: 'leaf';
  readonly text: string;
  readonly reads: readonly VariableName[];
  readonly evaluate: (values: Values) => unknown;
  /**
   * Whether to remember the value with the tool: the value is the same for every caller, and the library is slow to
   * evaluate the part.
   */
  readonly ofTool?: boolean;
}

interface Branch {
  readonly kind: 'and' | 'or' | 'not' | 'choice';
  readonly parts: readonly Node[];
}

type Node = Leaf | Branch;

/** A condition that cannot be read; `at` is the offset of the wrong part in the source. */
export class ConditionError extends Error {
  constructor(
    message: string,
    readonly at: number,
  ) {
    super(message);
  }
}

/** One part of an evaluated condition, for explanations. */
export interface PartValue {
  readonly text: string;
  readonly value: unknown;
}

const MAX_SOURCE = 10_000;

/**
 * A boolean CEL expression, parsed once. It is split at `&&`, `||`, `!` and `?:`, so that it can be evaluated while
 * some variables are unknown, and so that an explanation can show the value of each part.
 */
export class Condition {
  private constructor(
    private readonly root: Node,
    readonly reads: ReadonlySet<VariableName>,
  ) {}

  /** Throws `ConditionError`. */
  static parse(source: string): Condition {
    if (source.length > MAX_SOURCE) throw new ConditionError(`has more than ${MAX_SOURCE} characters`, 0);
    const whole = checked(source);
    const root = split(whole.ast as ASTNode);
    return new Condition(root, new Set(leavesOf(root).flatMap(({ reads }) => reads)));
  }

  evaluate(known: KnownVariables): Truth {
    return truthOf(this.root, known);
  }

  /** The values of the parts, in the order of the source; a part that the result does not need is evaluated too. */
  parts(known: KnownVariables): PartValue[] {
    return leavesOf(this.root).map((leaf) => ({ text: leaf.text, value: leafValue(leaf, known) }));
  }

  /**
   * Evaluates the parts of the condition that read only `settled` variables. Returns the value of the condition, or a
   * condition of the remaining parts. By default, the settled variables are those with one value for a caller and a
   * target.
   */
  reduced(variables: KnownVariables, settled: (name: VariableName) => boolean = isFixed): Truth | Condition {
    const known = reduce(this.root, variables, settled);
    if (isTruth(known)) return known;
    return known === this.root ? this : new Condition(known, new Set(leavesOf(known).flatMap(({ reads }) => reads)));
  }
}

function checked(source: string): { ast: unknown; evaluate: (values: Values) => unknown } {
  let parsed: ReturnType<typeof ENVIRONMENT.parse>;
  try {
    parsed = ENVIRONMENT.parse(source);
  } catch (error) {
    throw conditionError(error);
  }
  // The AST is changed below, and the texts of its parts are those of the source.
  replaceMatches(parsed.ast);
  const { valid, type, error } = parsed.check();
  if (!valid) throw conditionError(error);
  if (type !== 'bool' && type !== 'dyn') throw new ConditionError(`is a ${type} instead of a bool`, 0);
  limitMacros(parsed.ast);
  return { ast: parsed.ast, evaluate: parsed };
}

function conditionError(error: unknown): ConditionError {
  const { summary, range, message } = error as { summary?: string; range?: { start: number }; message?: string };
  const text = (summary ?? message ?? String(error)).replaceAll(LINEAR_MATCHES, 'matches');
  return new ConditionError(text.charAt(0).toLowerCase() + text.slice(1), range?.start ?? 0);
}

/** `matches` of the library uses JavaScript's backtracking expressions, so every use is replaced (S10). */
function replaceMatches(ast: unknown): void {
  visit(ast, (node) => {
    if (node.op !== 'rcall' || node.args[0] !== 'matches') return;
    const [, , [pattern]] = node.args;
    (node.args as unknown[])[0] = LINEAR_MATCHES;
    if (pattern?.op !== 'value' || typeof pattern.args !== 'string') return;
    try {
      compilePattern(pattern.args);
    } catch (error) {
      throw new ConditionError((error as Error).message, pattern.start);
    }
  });
}

/** Counts the elements that each macro visits (S10), by wrapping `handle`, the function that runs a macro. */
function limitMacros(ast: unknown): void {
  visit(ast, (node) => {
    if ((node.op as string) !== 'comprehension') return;
    const macro = node as unknown as { handle: (items: unknown, ...more: unknown[]) => unknown };
    const { handle } = macro;
    macro.handle = (items, ...more) => handle(visitedElements(items), ...more);
  });
}

/** Calls `see` for every node, inside macros too. */
function visit(value: unknown, see: (node: ASTNode) => void, seen = new Set<unknown>()): void {
  if (typeof value !== 'object' || value === null || seen.has(value)) return;
  seen.add(value);
  if ('op' in value && typeof value.op === 'string') see(value as ASTNode);
  if ('meta' in value) visit(value.meta, see, seen);
  for (const each of Object.values(value)) visit(each, see, seen);
}

const BRANCHES: Readonly<Record<string, Branch['kind']>> = { '&&': 'and', '||': 'or', '!_': 'not', '?:': 'choice' };

function split(ast: ASTNode): Node {
  const kind = BRANCHES[ast.op];
  if (kind) {
    const parts = (Array.isArray(ast.args) ? ast.args : [ast.args]) as readonly ASTNode[];
    return { kind, parts: parts.map(split) };
  }
  const text = serialize(ast).replaceAll(LINEAR_MATCHES, 'matches');
  const library = withoutStacks(checked(text).evaluate);
  const reads = readsOf(ast);
  const evaluate = fastComparison(ast, library);
  return { kind: 'leaf', text, reads, evaluate, ofTool: evaluate === library && reads.every(isOfTool) };
}

/**
 * The variables that an expression reads. If a macro gives its own variable the name of one of these variables, that
 * variable counts too.
 */
function readsOf(ast: ASTNode): VariableName[] {
  const found = new Set<VariableName>();
  const objects = new Set<unknown>();
  visit(ast, (node) => {
    if (node.op !== '.' && node.op !== '.?') return;
    const [object, field] = node.args;
    if (object.op !== 'id') return;
    const name = `${object.args}.${field}`;
    if (!isVariable(name)) return;
    found.add(name);
    objects.add(object);
  });
  visit(ast, (node) => {
    if (node.op === 'id' && !objects.has(node)) for (const name of variablesBelow(node.args)) found.add(name);
  });
  return [...found];
}

function leavesOf(node: Node): Leaf[] {
  return node.kind === 'leaf' ? [node] : node.parts.flatMap(leavesOf);
}

const isTruth = (node: Truth | Node): node is Truth => typeof node !== 'object' || node instanceof Failure;

function truthOf(node: Node, known: KnownVariables): Truth {
  switch (node.kind) {
    case 'leaf': {
      const value = leafValue(node, known);
      return typeof value === 'boolean' || value instanceof Failure || value === UNKNOWN || value === ABSENT
        ? plain(value)
        : new Failure(`${node.text} is not a bool`);
    }
    case 'and':
      return joined(node.parts, known, false);
    case 'or':
      return joined(node.parts, known, true);
    case 'not':
      return negated(truthOf(node.parts[0]!, known));
    case 'choice': {
      const chosen = truthOf(node.parts[0]!, known);
      if (typeof chosen === 'boolean') return truthOf(node.parts[chosen ? 1 : 2]!, known);
      return chosen;
    }
  }
}

const UNKNOWN = Symbol('unknown');
const ABSENT = Symbol('absent');

const plain = (value: boolean | Failure | typeof UNKNOWN | typeof ABSENT): Truth =>
  value === UNKNOWN ? 'unknown' : value === ABSENT ? 'absent' : (value as boolean | Failure);

function leafValue(leaf: Leaf, { values, state, ofTool, decision }: KnownVariables): unknown {
  let open = false;
  for (const name of leaf.reads) {
    const found = state(name);
    if (found === 'absent') return ABSENT;
    if (found === 'unknown') open = true;
  }
  if (open) return UNKNOWN;
  if (!leaf.ofTool || !ofTool) return evaluated(leaf, values, decision);
  let value = ofTool.get(leaf);
  if (value === undefined) {
    value = evaluated(leaf, values, decision);
    ofTool.set(leaf, value);
  }
  return value;
}

function evaluated({ evaluate }: Leaf, values: Values, decision: number): unknown {
  try {
    beginEvaluation(decision);
    return evaluate(values);
  } catch (error) {
    return new Failure((error as { summary?: string }).summary ?? (error as Error).message);
  }
}

type Evaluate = Leaf['evaluate'];

/**
 * Evaluates without the stacks of errors. Nobody reads these stacks, and making them costs more than the evaluation.
 */
function withoutStacks(evaluate: Evaluate): Evaluate {
  return (values) => {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    try {
      return evaluate(values);
    } finally {
      Error.stackTraceLimit = stackTraceLimit;
    }
  };
}

const negated = (value: Truth): Truth => (typeof value === 'boolean' ? !value : value);

/**
 * As CEL demands, a false part makes `and` false and a true part makes `or` true, whatever the other parts are.
 * Otherwise an unknown part leaves the result open.
 */
function joined(parts: readonly Node[], known: KnownVariables, deciding: boolean): Truth {
  let result: Truth = !deciding;
  for (const part of parts) {
    const value = truthOf(part, known);
    if (value === deciding) return deciding;
    result = weaker(result, value);
  }
  return result;
}

function weaker(a: Truth, b: Truth): Truth {
  if (a === 'unknown' || b === 'unknown') return 'unknown';
  if (a instanceof Failure) return a;
  if (b instanceof Failure) return b;
  return a === 'absent' ? a : b;
}

/** Replaces the parts that are decided already. `unknown` here means: depends on the single call. */
function reduce(node: Node, variables: KnownVariables, settled: (name: VariableName) => boolean): Truth | Node {
  if (node.kind === 'leaf') {
    const { reads } = node;
    if (reads.every(settled) || reads.some((name) => settled(name) && variables.state(name) === 'absent'))
      return truthOf(node, variables);
    return node;
  }
  const parts = node.parts.map((part) => reduce(part, variables, settled));
  if (node.kind === 'not') return isTruth(parts[0]!) ? negated(parts[0]) : { kind: 'not', parts: [parts[0]!] };
  if (node.kind === 'choice') {
    const [chosen] = parts;
    if (typeof chosen === 'boolean') return parts[chosen ? 1 : 2]!;
    return isTruth(chosen!) ? chosen : { ...node, parts: parts.map(asNode) };
  }
  const deciding = node.kind === 'or';
  const left: Node[] = [];
  let known: Truth = !deciding;
  for (const part of parts) {
    if (!isTruth(part)) left.push(part);
    else if (part === deciding) return deciding;
    else known = weaker(known, part);
  }
  if (left.length === 0) return known;
  if (known !== !deciding) left.push(asNode(known));
  return left.length === 1 ? left[0]! : { kind: node.kind, parts: left };
}

/** A part with a decided value. */
function asNode(part: Truth | Node): Node {
  if (!isTruth(part)) return part;
  const value = part === 'absent' ? ABSENT : part === 'unknown' ? UNKNOWN : part;
  return { kind: 'leaf', text: String(part), reads: [], evaluate: () => value };
}
