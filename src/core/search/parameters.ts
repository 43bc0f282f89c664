/** A parameter of a tool, as search reads it. */
export interface Parameter {
  readonly name: string;
  readonly description: string;
}

/** The deepest level of nested schemas that search reads, and the most parameters in total. */
const DEEPEST = 3;
const MOST_PARAMETERS = 60;
const MOST_VALUES = 20;

/**
 * The parameters of a tool's `inputSchema`, nested ones included, with their descriptions and allowed values. Also
 * reads a list of `{ name, description }`. Returns no parameters for anything else, because a server may send any value
 * as a schema.
 */
export function parametersOf(schema: unknown): Parameter[] {
  const found: Parameter[] = [];
  if (Array.isArray(schema)) for (const entry of schema) add(found, text(field(entry, 'name')), entry);
  else collect(found, schema, 0);
  return found;
}

function collect(found: Parameter[], schema: unknown, depth: number): void {
  const properties = field(schema, 'properties');
  if (depth > DEEPEST || typeof properties !== 'object' || properties === null) return;
  for (const [name, value] of Object.entries(properties)) {
    if (found.length >= MOST_PARAMETERS) return;
    add(found, name, value);
    collect(found, value, depth + 1);
    collect(found, field(value, 'items'), depth + 1);
  }
}

function add(found: Parameter[], name: string, schema: unknown): void {
  if (found.length >= MOST_PARAMETERS) return;
  const values = field(schema, 'enum');
  const allowed = Array.isArray(values) ? values.slice(0, MOST_VALUES).map(text).join(' ') : '';
  found.push({ name, description: `${text(field(schema, 'description'))} ${allowed}`.trim() });
}

const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)[name]
    : undefined;

const text = (value: unknown): string => (typeof value === 'string' ? value : '');
