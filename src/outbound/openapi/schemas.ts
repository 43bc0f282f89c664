/** Schemas of an OpenAPI document as JSON Schema 2020-12 for the input of a tool. */
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import { at, weightOf } from './document.js';

const DEEPEST = 40;
/** Schemas inside one input schema, with all definitions. */
const MOST_SCHEMAS = 2_000;
/** Characters of the schemas of one tool, as the document writes them. */
const MOST_WEIGHT = 512 * 1024;

/** Members that JSON Schema does not have, and annotations that only make lists longer. */
const DROPPED: ReadonlySet<string> = new Set([
  ...['xml', 'discriminator', 'externalDocs', 'example', 'examples', 'nullable', '$id', '$schema', '$anchor'],
  ...['$dynamicRef', '$dynamicAnchor', '$comment', '$defs', 'definitions'],
]);
/** Members by their values: maps of schemas, lists of schemas, single schemas. */
const MAPS: ReadonlySet<string> = new Set(['properties', 'patternProperties', 'dependentSchemas']);
const LISTS: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const SCHEMAS: ReadonlySet<string> = new Set([
  ...['items', 'additionalProperties', 'not', 'contains', 'propertyNames', 'if', 'then', 'else'],
  ...['unevaluatedItems', 'unevaluatedProperties'],
]);

/** Converts the schemas of one tool. Every local reference becomes a definition, so schemas may contain themselves. */
export class SchemaConverter {
  /** The definitions, by reference. */
  private readonly definitions = new Map<string, { readonly name: string; schema: JsonValue }>();
  /** The names of the definitions, each with the number for the next definition of this name. */
  private readonly names = new Map<string, number>();
  private count = 0;
  private weight = 0;
  private tooHeavy = false;

  constructor(private readonly document: JsonObject) {}

  /** The number of converted schemas. */
  get size(): number {
    return this.count;
  }

  /** The characters of the converted schemas. */
  get characters(): number {
    return this.weight;
  }

  /** Whether the schemas were too many or too long; they are incomplete then. */
  get exceeded(): boolean {
    return this.tooHeavy || this.count > MOST_SCHEMAS;
  }

  convert(schema: JsonValue | undefined): JsonValue {
    return this.whole(schema, 0);
  }

  /** A schema that no other one contains. Its weight is known before the work, also for a schema that many tools have. */
  private whole(schema: JsonValue | undefined, depth: number): JsonValue {
    const weight = weightOf(schema);
    if (this.weight + weight > MOST_WEIGHT) {
      this.tooHeavy = true;
      return {};
    }
    this.weight += weight;
    return this.converted(schema, depth);
  }

  private converted(schema: JsonValue | undefined, depth: number): JsonValue {
    if (typeof schema === 'boolean') return schema;
    if (!isObject(schema) || ++this.count > MOST_SCHEMAS || depth > DEEPEST) return {};
    const reference = schema['$ref'];
    const own = this.members(schema, depth);
    if (typeof reference !== 'string') return own;
    const target = this.reference(reference, depth);
    if (target === undefined) return own;
    return { ...own, $ref: target };
  }

  /** `$defs` for the converted schemas. */
  get defs(): JsonObject {
    return Object.fromEntries([...this.definitions.values()].map(({ name, schema }) => [name, schema]));
  }

  private reference(reference: string, depth: number): string | undefined {
    const known = this.definitions.get(reference);
    if (known) return `#/$defs/${known.name}`;
    const schema = at(this.document, reference);
    if (!isObject(schema)) return undefined;
    const name = this.nameFor(reference);
    const definition = { name, schema: {} as JsonValue };
    // Before the conversion, for a schema that refers to itself.
    this.definitions.set(reference, definition);
    definition.schema = this.whole(schema, depth + 1);
    return `#/$defs/${name}`;
  }

  private nameFor(reference: string): string {
    const last =
      reference
        .split('/')
        .at(-1)!
        .replace(/[^\w.-]/g, '_')
        .slice(0, 80) || 'schema';
    let name = last;
    let n = this.names.get(last) ?? 1;
    while (this.names.has(name)) name = `${last}_${++n}`;
    this.names.set(last, n).set(name, this.names.get(name) ?? 1);
    return name;
  }

  private members(schema: JsonObject, depth: number): JsonObject {
    const out: JsonObject = {};
    const map = (value: JsonObject): JsonObject =>
      Object.fromEntries(Object.entries(value).map(([name, each]) => [name, this.converted(each, depth + 1)]));
    for (const [key, value] of Object.entries(schema)) {
      if (value === undefined || key === '$ref' || key === '__proto__' || DROPPED.has(key) || key.startsWith('x-'))
        continue;
      if (MAPS.has(key)) {
        if (isObject(value)) out[key] = map(value);
      } else if (LISTS.has(key)) {
        if (Array.isArray(value)) out[key] = value.map((each) => this.converted(each, depth + 1));
      } else if (SCHEMAS.has(key)) out[key] = this.converted(value, depth + 1);
      else out[key] = value;
    }
    return modernised(out, schema);
  }
}

/** OpenAPI 3.0 writes null and exclusive bounds in its own way. */
function modernised(out: JsonObject, schema: JsonObject): JsonObject {
  for (const [exclusive, bound] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const)
    if (typeof out[exclusive] === 'boolean') {
      if (out[exclusive] && typeof out[bound] === 'number') {
        out[exclusive] = out[bound];
        delete out[bound];
      } else delete out[exclusive];
    }
  if (schema['nullable'] === true && typeof out['type'] === 'string') {
    out['type'] = [out['type'], 'null'];
    if (Array.isArray(out['enum']) && !out['enum'].includes(null)) out['enum'] = [...out['enum'], null];
  }
  return out;
}
