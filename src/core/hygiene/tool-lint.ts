import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';

/** The names of the rules, as findings contain them. */
export type LintRule =
  | 'name_characters'
  | 'name_length'
  | 'description_missing'
  | 'description_length'
  | 'schema_missing'
  | 'schema_type'
  | 'schema_choice'
  | 'schema_size'
  | 'property_name';

/** One problem of a tool's definition. An `error` makes the tool hard or impossible to use for some models. */
export interface LintFinding {
  readonly tool: string;
  readonly rule: LintRule;
  readonly severity: 'error' | 'warning';
  readonly message: string;
}

/** The function names that OpenAI and Anthropic accept. */
const NAME = /^[A-Za-z0-9_-]+$/;
const LONGEST_NAME = 64;
/** The longest description of a function at OpenAI, in characters. */
const LONGEST_DESCRIPTION = 1_024;
/** The names of properties that Anthropic accepts. */
const PROPERTY = /^[A-Za-z0-9_.-]{1,64}$/;
/** The limits of OpenAI's structured outputs. */
const MOST_LEVELS = 10;
const MOST_PROPERTIES = 5_000;
/** The check stops after this many schema nodes. */
const MOST_VISITED = 20_000;

/**
 * The problems of one tool. `definition` is the tool as its server lists it; `name` is the name that the gateway
 * offers, without a prefix.
 */
export function lintTool(definition: JsonObject, name: string): LintFinding[] {
  const findings: LintFinding[] = [];
  const add = (rule: LintRule, severity: LintFinding['severity'], message: string): void =>
    void findings.push({ tool: name, rule, severity, message });
  if (!NAME.test(name)) add('name_characters', 'error', 'the name has characters other than letters, digits, _ and -');
  if (name.length > LONGEST_NAME) add('name_length', 'warning', `the name has more than ${LONGEST_NAME} characters`);
  const { description, inputSchema } = definition;
  if (typeof description !== 'string' || description.trim() === '')
    add('description_missing', 'error', 'the tool has no description, so a model must guess its use from its name');
  else if (description.length > LONGEST_DESCRIPTION)
    add('description_length', 'warning', `the description has more than ${LONGEST_DESCRIPTION} characters`);
  if (!isObject(inputSchema)) {
    add('schema_missing', 'error', 'the tool has no input schema');
    return findings;
  }
  if (inputSchema['type'] !== 'object') add('schema_type', 'error', 'the type of the input schema is not "object"');
  const choice = ['anyOf', 'oneOf', 'allOf'].find((keyword) => inputSchema[keyword] !== undefined);
  if (choice !== undefined)
    add('schema_choice', 'warning', `the input schema has ${choice} at its top level, which model providers refuse`);
  const { properties, levels, wrong } = measured(inputSchema);
  if (levels > MOST_LEVELS || properties > MOST_PROPERTIES)
    add('schema_size', 'warning', `the input schema has ${properties} properties in ${levels} levels`);
  if (wrong !== undefined)
    add('property_name', 'warning', `the property ${JSON.stringify(wrong)} has a name that model providers refuse`);
  return findings;
}

interface Measures {
  properties: number;
  levels: number;
  /** The first property with a name that providers refuse. */
  wrong?: string;
}

function measured(schema: JsonObject): Measures {
  const found: Measures = { properties: 0, levels: 0 };
  const open: { value: JsonValue | undefined; level: number }[] = [{ value: schema, level: 0 }];
  for (let visited = 0; visited < MOST_VISITED; visited++) {
    const next = open.pop();
    if (!next) break;
    const { value, level } = next;
    if (Array.isArray(value)) for (const each of value) open.push({ value: each, level });
    if (!isObject(value)) continue;
    const { properties } = value;
    if (isObject(properties)) {
      found.levels = Math.max(found.levels, level + 1);
      for (const [name, each] of Object.entries(properties)) {
        found.properties++;
        if (!PROPERTY.test(name)) found.wrong ??= name.slice(0, 100);
        open.push({ value: each, level: level + 1 });
      }
    }
    for (const keyword of ['items', 'anyOf', 'oneOf', 'allOf', 'additionalProperties'])
      if (value[keyword] !== undefined) open.push({ value: value[keyword], level });
  }
  return found;
}
