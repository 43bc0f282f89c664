/** Schemas of an OpenAPI document as JSON Schema 2020-12 for the input of a tool. */
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import { at, resolved, weightOf } from './document.js';

const DEEPEST = 40;
/** Maximum number of schemas in one input schema, definitions included. */
const MOST_SCHEMAS = 2_000;
/** Maximum number of characters of the schemas of one tool, as the document writes them. */
const MOST_WEIGHT = 512 * 1024;

const TYPES = ['null', 'boolean', 'object', 'array', 'number', 'integer', 'string'];

const isText = (value: JsonValue): boolean => typeof value === 'string';
const isNumber = (value: JsonValue): boolean => typeof value === 'number' && Number.isFinite(value);
const isFlag = (value: JsonValue): boolean => typeof value === 'boolean';
const isLength = (value: JsonValue): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isSet = (value: JsonValue, of: (each: JsonValue) => boolean): boolean =>
  Array.isArray(value) && value.every((each) => of(each!)) && new Set(value).size === value.length;
const isType = (value: JsonValue): boolean => isText(value) && TYPES.includes(value as string);
const isBound = (value: JsonValue): boolean => isNumber(value) || isFlag(value);

/**
 * The members that are copied, with a check for valid values. A single invalid value, such as the type `file`, would
 * make the whole tool unusable: many clients and validators refuse a schema that is not valid. Annotations without
 * effect on validation, and members that only OpenAPI defines, are left out.
 */
const COPIED: Readonly<Record<string, (value: JsonValue) => boolean>> = {
  type: (value) => isType(value) || (isSet(value, isType) && (value as []).length > 0),
  enum: (value) => Array.isArray(value) && value.length > 0,
  ...{ const: () => true, default: () => true },
  ...{ title: isText, description: isText, format: isText, pattern: isText },
  ...{ contentEncoding: isText, contentMediaType: isText },
  ...{ minimum: isNumber, maximum: isNumber, exclusiveMinimum: isBound, exclusiveMaximum: isBound },
  multipleOf: (value) => isNumber(value) && (value as number) > 0,
  ...{ minLength: isLength, maxLength: isLength, minItems: isLength, maxItems: isLength },
  ...{ minProperties: isLength, maxProperties: isLength, minContains: isLength, maxContains: isLength },
  ...{ uniqueItems: isFlag, deprecated: isFlag, readOnly: isFlag, writeOnly: isFlag },
  required: (value) => isSet(value, isText),
  dependentRequired: (value) => isObject(value) && Object.values(value).every((each) => isSet(each!, isText)),
};
/** The members whose values are maps of schemas, lists of schemas, or single schemas. */
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

  /** Whether the schemas were too many or too long. The converted schemas are then incomplete. */
  get exceeded(): boolean {
    return this.tooHeavy || this.count > MOST_SCHEMAS;
  }

  convert(schema: JsonValue | undefined): JsonValue {
    return this.whole(schema, 0);
  }

  /**
   * Converts a schema that is not part of another schema. Its weight is computed before the conversion, also for a
   * schema that many tools share.
   */
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
    // Stored before the conversion, because the schema may refer to itself.
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
      if (value === undefined) continue;
      if (MAPS.has(key)) {
        if (isObject(value)) out[key] = map(value);
      } else if (LISTS.has(key)) {
        if (Array.isArray(value)) out[key] = value.map((each) => this.converted(each, depth + 1));
      } else if (SCHEMAS.has(key)) out[key] = this.converted(value, depth + 1);
      else if (Object.hasOwn(COPIED, key) && COPIED[key]!(value)) out[key] = value;
    }
    return modernised(this.withoutReadOnly(out, schema), schema);
  }

  /** OpenAPI requires a read-only property in responses only. */
  private withoutReadOnly(out: JsonObject, { properties }: JsonObject): JsonObject {
    const { required } = out;
    if (!Array.isArray(required) || !isObject(properties)) return out;
    const readOnly = (name: JsonValue | undefined): boolean => {
      const property = Object.hasOwn(properties, String(name)) ? properties[String(name)] : undefined;
      if (!isObject(property)) return false;
      return property['readOnly'] === true || resolved(this.document, property)?.['readOnly'] === true;
    };
    const { required: _, ...rest } = out;
    const needed = required.filter((name) => !readOnly(name));
    return needed.length > 0 ? { ...rest, required: needed } : rest;
  }
}

/** Converts the `nullable` and the boolean exclusive bounds of OpenAPI 3.0. */
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
  } else if (schema['nullable'] === true && out['allOf'] && !NARROWING.some((key) => key in out)) {
    // OpenAPI 3.0 documents write a nullable reference as `nullable` with an `allOf` of one schema.
    const { allOf, ...rest } = out;
    return { ...rest, anyOf: [{ allOf }, { type: 'null' }] };
  }
  return out;
}

/** Members besides `allOf` that null might not satisfy. A schema with one of them is not made nullable. */
const NARROWING = ['type', 'enum', 'const', 'anyOf', 'oneOf', 'not', 'if'];
