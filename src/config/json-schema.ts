import type { Field, Fields, JsonSchema } from './field.js';
import { SCHEMA } from './schema.js';

const REFERENCE = { $ref: '#/$defs/reference' };

/** The JSON Schema of the configuration file, for editors. It is generated from the schema, so the two always agree. */
export function configJsonSchema(): JsonSchema {
  const { type, properties, additionalProperties } = groupSchema(SCHEMA.fields, '');
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'The configuration of Parley',
    type,
    properties: { $schema: { type: 'string', description: 'The address of this schema.' }, ...(properties as object) },
    additionalProperties,
    $defs: {
      reference: {
        type: 'string',
        pattern: '\\$\\{.+\\}',
        description: `A value with an environment variable: \${NAME} or \${NAME:-default}.`,
      },
    },
  };
}

/** The text of docs/parley.schema.json. */
export function renderJsonSchema(): string {
  return `${JSON.stringify(configJsonSchema(), null, 2)}\n`;
}

function schemaOf(field: Field): JsonSchema {
  switch (field.kind) {
    case 'scalar':
      return {
        description: field.description,
        ...(takesAnyText(field.schema) ? field.schema : { anyOf: [field.schema, REFERENCE] }),
        ...(field.default !== undefined && { default: field.default }),
      };
    case 'list': {
      const items = schemaOf(field.item);
      const array = { type: 'array', items };
      return {
        description: field.description,
        // A single value in the place of a list is read as a list with this value.
        ...(field.item.kind === 'scalar' ? { anyOf: [array, withoutNotes(items)] } : array),
        ...(field.default.length > 0 && { default: field.default }),
      };
    }
    case 'map': {
      const item = schemaOf(field.item);
      const additionalProperties = field.dropsNull ? { anyOf: [item, { type: 'null' }] } : item;
      return { description: field.description, type: 'object', additionalProperties };
    }
    case 'group':
      return groupSchema(field.fields, field.description);
  }
}

function groupSchema(fields: Fields, description: string): JsonSchema {
  const required = Object.keys(fields).filter((name) => {
    const field = fields[name];
    return field?.kind === 'scalar' && field.required;
  });
  return {
    ...(description !== '' && { description }),
    type: 'object',
    properties: Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, schemaOf(field)])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
}

/** Whether every text is valid, so that references need no alternative of their own. */
function takesAnyText({ type, pattern }: JsonSchema): boolean {
  return (type === 'string' || (Array.isArray(type) && type.includes('string'))) && pattern === undefined;
}

function withoutNotes({ description: _, default: __, ...rest }: JsonSchema): JsonSchema {
  return rest;
}
