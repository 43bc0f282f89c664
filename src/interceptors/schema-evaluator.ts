/** The evaluator `schema`: whether the result of a tool matches the output schema that its server declares. */
import { isObject, type JsonObject } from '../protocol/jsonrpc/raw.js';
import { ArgumentSchema } from './argument-schema.js';

interface Call {
  readonly outputSchema?: unknown;
  readonly result?: { readonly structuredContent?: unknown; readonly isError?: unknown };
}

/** Compiled schemas by their JSON text. */
const compiled = new Map<string, ArgumentSchema | undefined>();
const MOST_COMPILED = 100;

/**
 * 1 for a valid result, 0 for an invalid result; no score for a tool without an output schema and for a failed call.
 */
export function evaluate({ outputSchema, result }: Call): { score: number | null; label?: string } {
  if (!isObject(outputSchema) || !result || result.isError === true) return { score: null };
  if (result.structuredContent === undefined) return { score: 0, label: 'missing' };
  const problems = schemaOf(outputSchema)?.problems(result.structuredContent as JsonObject);
  if (problems === undefined) return { score: null, label: 'unchecked' };
  return problems.length === 0 ? { score: 1 } : { score: 0, label: 'invalid' };
}

function schemaOf(schema: JsonObject): ArgumentSchema | undefined {
  const key = JSON.stringify(schema);
  if (!compiled.has(key)) {
    if (compiled.size >= MOST_COMPILED) compiled.clear();
    compiled.set(key, ArgumentSchema.compile(schema));
  }
  return compiled.get(key);
}
