/**
 * Evaluates the most common parts of conditions without the interpreter of the library. Such a part compares a
 * variable, or a member of a variable, with a literal, searches in it for a literal, or looks it up in a list. The
 * library evaluates everything else, and also these parts if the types of the values are not the expected ones. Errors,
 * and comparisons of other types, are therefore the same with and without the interpreter.
 */
import type { ASTNode } from '@marcbachmann/cel-js';
import { Failure } from './failure.js';
import { matcherOf } from './linear-regex.js';
import { isVariable, type LINEAR_MATCHES } from './variables.js';

type Values = Readonly<Record<string, unknown>>;
type Evaluate = (values: Values) => unknown;

const NUMBERS: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
};

const TEXTS: Readonly<Record<string, (literal: string) => (text: string) => boolean>> = {
  '==': (literal) => (text) => text === literal,
  '!=': (literal) => (text) => text !== literal,
  startsWith: (literal) => (text) => text.startsWith(literal),
  endsWith: (literal) => (text) => text.endsWith(literal),
  contains: (literal) => (text) => text.includes(literal),
  ['matchesInLinearTime' satisfies typeof LINEAR_MATCHES]: matcherOf,
};

/**
 * Returns a function with the same results as `library`, but faster for the parts that this file knows. `ast` is the
 * part that `library` evaluates.
 */
export const fastComparison = (ast: ASTNode, library: Evaluate): Evaluate =>
  comparison(ast, library) ?? membership(ast, library) ?? presence(ast, library) ?? flag(ast, library) ?? library;

/** `args.n > 3`, `tool == "x"`, `tool.startsWith("x")`. */
function comparison(ast: ASTNode, library: Evaluate): Evaluate | undefined {
  const found = comparedIn(ast);
  const read = found && memberOf(found.member);
  if (!read) return undefined;
  const { operator, literal } = found;
  if (typeof literal === 'string' && Object.hasOwn(TEXTS, operator)) {
    const test = TEXTS[operator]!(literal);
    return (values) => {
      const value = read(values);
      if (typeof value === 'string') return test(value);
      return value instanceof Failure ? value : library(values);
    };
  }
  if (!Object.hasOwn(NUMBERS, operator)) return undefined;
  if (typeof literal === 'boolean' && (operator === '==' || operator === '!=')) {
    const equal = operator === '==';
    return (values) => {
      const value = read(values);
      if (typeof value === 'boolean') return (value === literal) === equal;
      return value instanceof Failure ? value : library(values);
    };
  }
  const number = typeof literal === 'bigint' ? Number(literal) : literal;
  if (typeof number !== 'number') return undefined;
  // A larger integer has no exact value as a number.
  if (typeof literal === 'bigint' && !Number.isSafeInteger(number)) return undefined;
  const compare = NUMBERS[operator]!;
  return (values) => {
    const value = read(values);
    if (typeof value === 'number') return compare(value, number);
    return value instanceof Failure ? value : library(values);
  };
}

/** `"admin" in caller.roles` and `tool in ["a", "b"]`. */
function membership(ast: ASTNode, library: Evaluate): Evaluate | undefined {
  if (ast.op !== 'in') return undefined;
  const [item, list] = ast.args;
  if (item.op === 'value' && typeof item.args === 'string') {
    const read = memberOf(list);
    const text = item.args;
    return (
      read &&
      ((values) => {
        const value = read(values);
        if (value instanceof Failure) return value;
        return Array.isArray(value) && value.every(isText) ? value.includes(text) : library(values);
      })
    );
  }
  const read = memberOf(item);
  const texts = read && textsOf(list);
  return (
    texts &&
    ((values) => {
      const value = read(values);
      if (typeof value === 'string') return texts.has(value);
      return value instanceof Failure ? value : library(values);
    })
  );
}

/** `has(args.a.b)`. */
function presence(ast: ASTNode, library: Evaluate): Evaluate | undefined {
  if (ast.op !== 'call' || ast.args[0] !== 'has') return undefined;
  const [, [member]] = ast.args;
  const at = member && pathOf(member);
  if (!at || !isOpen(at) || at.path.length === 0) return undefined;
  const { root, path } = at;
  const name = path.at(-1)!;
  const above = path.slice(0, -1);
  return (values) => {
    const value = memberAt(values[root], above);
    if (isMap(value)) return value instanceof Failure ? value : Object.hasOwn(value, name);
    return library(values);
  };
}

/** `annotations.readOnlyHint` and `true`. */
function flag(ast: ASTNode, library: Evaluate): Evaluate | undefined {
  if (ast.op === 'value' && typeof ast.args === 'boolean') {
    const literal = ast.args;
    return () => literal;
  }
  const read = memberOf(ast);
  return (
    read &&
    ((values) => {
      const value = read(values);
      return typeof value === 'boolean' || value instanceof Failure ? value : library(values);
    })
  );
}

interface Compared {
  readonly operator: string;
  readonly member: ASTNode;
  readonly literal: unknown;
}

function comparedIn(ast: ASTNode): Compared | undefined {
  if (ast.op === 'rcall') {
    const [operator, member, given] = ast.args;
    const [only] = given;
    return given.length === 1 && only?.op === 'value' ? { operator, member, literal: only.args } : undefined;
  }
  if (!Object.hasOwn(NUMBERS, ast.op)) return undefined;
  const [left, right] = ast.args as [ASTNode, ASTNode];
  if (right.op === 'value') return { operator: ast.op, member: left, literal: right.args };
  const isEquality = ast.op === '==' || ast.op === '!=';
  return isEquality && left.op === 'value' ? { operator: ast.op, member: right, literal: left.args } : undefined;
}

const isText = (value: unknown): value is string => typeof value === 'string';

/** The texts of a list literal; undefined if it contains anything else. */
function textsOf(ast: ASTNode): ReadonlySet<string> | undefined {
  if (ast.op !== 'list') return undefined;
  const items = (ast.args as readonly ASTNode[]).map((item) => (item.op === 'value' ? item.args : undefined));
  return items.every(isText) ? new Set(items) : undefined;
}

interface Path {
  readonly root: string;
  readonly path: readonly string[];
}

/** The variables whose members are not known in advance, so that a condition may name any member. */
const OPEN: ReadonlySet<string> = new Set(['args', 'arguments', 'annotations', 'jwt']);

const isOpen = ({ root }: Path): boolean => OPEN.has(root);

/** The names in `args.a["b"]`, from the outermost to the innermost; undefined for any other expression. */
function pathOf(ast: ASTNode): Path | undefined {
  if (ast.op === 'id') return { root: ast.args, path: [] };
  if (ast.op !== '.' && ast.op !== '[]') return undefined;
  const [object, written] = ast.args as [ASTNode, ASTNode | string];
  const name = typeof written === 'string' ? written : written.op === 'value' ? written.args : undefined;
  const above = pathOf(object);
  return above && typeof name === 'string' ? { root: above.root, path: [...above.path, name] } : undefined;
}

/**
 * Reads a variable or a member of one: its value, a failure if a map has no such key, or undefined if the library has
 * to evaluate the expression.
 */
function memberOf(ast: ASTNode): Evaluate | undefined {
  const at = pathOf(ast);
  if (!at) return undefined;
  const { root, path } = at;
  if (isOpen(at)) return (values) => memberAt(values[root], path);
  if (!isVariable([root, ...path].join('.')) || ast.op === '[]') return undefined;
  const [name] = path;
  if (name === undefined) return (values) => values[root];
  return (values) => (values[root] as Values | undefined)?.[name];
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function memberAt(from: unknown, path: readonly string[]): unknown {
  let value = from;
  for (const name of path) {
    if (!isMap(value)) return undefined;
    // Returns the failure where the library throws, because an exception costs as much as hundreds of comparisons.
    if (!Object.hasOwn(value, name)) return missing(name);
    value = value[name];
  }
  return value;
}

const failures = new Map<string, Failure>();

/**
 * The failure of the library for a key that a map does not have. The failures are cached for ever, because the names
 * come from conditions and not from callers.
 */
function missing(name: string): Failure {
  let failure = failures.get(name);
  if (!failure) {
    failure = new Failure(`No such key: ${name}`);
    failures.set(name, failure);
  }
  return failure;
}
