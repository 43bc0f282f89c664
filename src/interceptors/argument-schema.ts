import { dereference, format, type Schema, type SchemaDraft, validate } from '@cfworker/json-schema';
import { RE2JS } from 're2js';
import { isObject, type JsonObject, type JsonValue } from '../protocol/jsonrpc/raw.js';

/** One argument that does not fit its schema. */
export interface ArgumentProblem {
  /** The JSON pointer of the value; empty for the arguments as a whole. */
  readonly pointer: string;
  readonly message: string;
}

/**
 * Maximum number of subschemas and of levels in a schema. A larger schema is not compiled, and arguments are not
 * checked against it.
 */
const MOST_SUBSCHEMAS = 5_000;
const MOST_LEVELS = 64;
/**
 * Maximum number of applications of a subschema to a value in one check. Bounds the time of a check to about a second.
 */
const MOST_STEPS = 1_000_000;
/** Maximum cost of matching one pattern: the size of the pattern's program times the length of the text. */
const MOST_MATCH_STEPS = 1_000_000;
const MOST_PATTERNS = 1_000;
const LONGEST_PATTERN = 1_000;
const MOST_PROBLEMS = 5;

/** The name under which the validator finds a pattern in RE2 syntax, instead of compiling the pattern itself. */
const RE2 = 're2:';
const patterns = new Map<string, RE2JS>();

/**
 * The input schema of a tool, ready to check arguments. The schema comes from a server, so a check never evaluates
 * code, never fetches a reference, never runs a backtracking expression, and takes a limited number of steps. Where a
 * keyword cannot be checked within these limits, the check accepts more than the schema, never less.
 */
export class ArgumentSchema {
  private constructor(
    private readonly schema: Schema,
    private readonly lookup: Record<string, Schema | boolean>,
    private readonly draft: SchemaDraft,
    private readonly size: number,
    private readonly used: readonly string[],
    private readonly comparesItems: boolean,
  ) {}

  /** Returns undefined if the schema is too large or invalid. */
  static compile(source: JsonObject): ArgumentSchema | undefined {
    try {
      const strict = new Copy(false);
      const exact = strict.schema(source, 0) as Schema;
      const copy = strict.lossy ? new Copy(true) : strict;
      const schema = copy === strict ? exact : (copy.schema(source, 0) as Schema);
      const used = [...copy.patterns];
      return new ArgumentSchema(schema, dereference(schema), draftOf(source), copy.size, used, copy.comparesItems);
    } catch {
      return undefined;
    }
  }

  /** The problems of the arguments; undefined if they cannot be checked within the limits. */
  problems(args: JsonValue): ArgumentProblem[] | undefined {
    const values = countValues(args, MOST_STEPS / this.size);
    if (values === undefined || (this.comparesItems && values ** 2 > MOST_STEPS)) return undefined;
    for (const pattern of this.used) register(pattern);
    let left = Math.max(1_000, Math.floor(MOST_STEPS / this.size));
    // A repetition of a subschema needs a reference, so counting the references bounds the check.
    const lookup = new Proxy(this.lookup, {
      get: (target, name) => {
        if (--left < 0) throw new Error('too many references');
        return target[name as string];
      },
    });
    try {
      const { valid, errors } = validate(args, this.schema, this.draft, lookup, false);
      return valid ? [] : described(errors);
    } catch {
      // The schema refers to another document, its references form a cycle, or the check takes too long.
      return undefined;
    }
  }
}

function draftOf({ $schema }: JsonObject): SchemaDraft {
  const given = typeof $schema === 'string' ? $schema : '';
  if (given.includes('draft-04')) return '4';
  if (given.includes('draft-06') || given.includes('draft-07')) return '7';
  return given.includes('2019-09') ? '2019-09' : '2020-12';
}

const MAPS = new Set(['$defs', 'definitions', 'properties', 'dependentSchemas']);
const LISTS = new Set(['prefixItems', 'allOf', 'anyOf', 'oneOf']);
const SINGLE = new Set([
  ...['additionalItems', 'unevaluatedItems', 'items', 'contains', 'additionalProperties', 'unevaluatedProperties'],
  ...['propertyNames', 'not', 'if', 'then', 'else'],
]);
const VALUES = new Set([
  ...['$id', '$ref', '$anchor', '$recursiveRef', '$recursiveAnchor', 'type', 'const', 'enum', 'required'],
  ...['dependentRequired', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'minLength'],
  ...['maxLength', 'minItems', 'maxItems', 'minContains', 'maxContains', 'minProperties', 'maxProperties'],
]);
/** These keywords refuse more values when the subschemas in them check less. A lenient copy leaves them out. */
const NEGATIVE = new Set(['not', 'if', 'then', 'else', 'unevaluatedItems', 'unevaluatedProperties', 'maxContains']);

/**
 * Copies a schema with the keywords that are checked: `format` is an annotation, and `pattern` becomes an RE2 pattern.
 */
class Copy {
  size = 0;
  /** Whether the copy checks less than the schema, because a keyword was left out. */
  lossy = false;
  comparesItems = false;
  readonly patterns = new Set<string>();

  constructor(private readonly lenient: boolean) {}

  schema(source: JsonValue | undefined, level: number): Schema | boolean {
    if (typeof source === 'boolean') return source;
    if (!isObject(source)) throw new Error('a schema is an object or a boolean');
    if (++this.size > MOST_SUBSCHEMAS || level > MOST_LEVELS) throw new Error('the schema is too large');
    const copy: Record<string, unknown> = {};
    for (const [keyword, value] of Object.entries(source)) this.keyword(copy, source, keyword, value, level + 1);
    return copy as Schema;
  }

  private keyword(
    copy: Record<string, unknown>,
    source: JsonObject,
    keyword: string,
    value: JsonValue | undefined,
    level: number,
  ): void {
    const one = (each: JsonValue | undefined): Schema | boolean => this.schema(each, level);
    if (this.lenient && NEGATIVE.has(keyword)) return;
    if (keyword === 'additionalProperties' && source['patternProperties'] !== undefined) return;
    if (VALUES.has(keyword)) copy[keyword] = value;
    else if (MAPS.has(keyword) && isObject(value)) copy[keyword] = mapped(value, one);
    else if (this.lenient && keyword === 'oneOf') {
      // The copy checks less, so several alternatives may match. At least one of them matches.
      if (Array.isArray(value) && source['anyOf'] === undefined) copy['anyOf'] = value.map(one);
    } else if (Array.isArray(value) && (LISTS.has(keyword) || keyword === 'items')) copy[keyword] = value.map(one);
    else if (SINGLE.has(keyword)) copy[keyword] = one(value);
    else if (keyword === 'uniqueItems' && value === true) {
      this.comparesItems = true;
      copy[keyword] = true;
    } else if (keyword === 'pattern' && typeof value === 'string' && register(value)) {
      this.patterns.add(value);
      copy['format'] = `${RE2}${value}`;
    } else if (['pattern', 'patternProperties', 'dependencies', '$dynamicRef'].includes(keyword)) this.lossy = true;
  }
}

const mapped = (value: JsonObject, one: (each: JsonValue | undefined) => unknown): object =>
  Object.fromEntries(Object.entries(value).map(([name, each]) => [name, one(each)]));

/** Makes a pattern known to the validator. False if it has no equivalent in linear time. */
function register(pattern: string): boolean {
  const name = `${RE2}${pattern}`;
  if (patterns.has(name)) return true;
  if (pattern.length > LONGEST_PATTERN) return false;
  try {
    const regex = RE2JS.compile(RE2JS.translateRegExp(pattern));
    const longest = MOST_MATCH_STEPS / regex.programSize();
    if (patterns.size >= MOST_PATTERNS) {
      const oldest = patterns.keys().next().value!;
      patterns.delete(oldest);
      delete format[oldest];
    }
    patterns.set(name, regex);
    format[name] = (text: string) => {
      if (text.length > longest) throw new Error('the text is too long for the pattern');
      return regex.test(text);
    };
    return true;
  } catch {
    return false;
  }
}

/** The number of values in a JSON value; undefined if there are more than `most`. */
function countValues(value: JsonValue, most: number): number | undefined {
  let count = 0;
  const open: (JsonValue | undefined)[] = [value];
  for (let next = open.pop(); open.length > 0 || next !== undefined; next = open.pop()) {
    if (++count > most) return undefined;
    if (typeof next === 'object' && next !== null) for (const each of Object.values(next)) open.push(each as JsonValue);
  }
  return count;
}

interface OutputUnit {
  readonly keyword: string;
  readonly keywordLocation: string;
  readonly instanceLocation: string;
  readonly error: string;
}

/** Keywords whose errors only repeat that a subschema has an error. */
const WRAPPERS = new Set([
  ...['properties', 'items', 'prefixItems', 'allOf', '$ref', 'dependentSchemas', 'if', 'then', 'else', 'false'],
  ...['$recursiveRef', 'patternProperties'],
]);

/**
 * The errors that name a cause. Errors inside `anyOf` and `oneOf` are left out: each alternative has its own, and they
 * do not help the caller.
 */
function described(errors: readonly OutputUnit[]): ArgumentProblem[] {
  const choices = errors.filter(({ keyword }) => keyword === 'anyOf' || keyword === 'oneOf');
  const causes = errors.filter(
    ({ keyword, keywordLocation }) =>
      !WRAPPERS.has(keyword) && !choices.some((choice) => keywordLocation.startsWith(`${choice.keywordLocation}/`)),
  );
  return (causes.length > 0 ? causes : errors).slice(0, MOST_PROBLEMS).map(({ keyword, instanceLocation, error }) => ({
    pointer: instanceLocation.replace(/^#/, ''),
    message: keyword === 'format' ? error.replace(`format "${RE2}`, 'pattern "') : error,
  }));
}
