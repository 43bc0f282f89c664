import type { McpContext } from '../core/call.js';
import { GATEWAY } from '../core/caller.js';
import type { Interceptor } from '../core/pipeline.js';
import { ProtocolError } from '../protocol/errors.js';
import { isObject, type JsonObject } from '../protocol/jsonrpc/raw.js';
import type { Log } from '../telemetry/log.js';
import { type ArgumentProblem, ArgumentSchema } from './argument-schema.js';

export type ValidationMode = 'off' | 'warn' | 'strict';

export interface ArgumentValidationOptions {
  /** The mode of a server. */
  modeOf(server: string): ValidationMode;
  readonly log: Log;
}

/** Arguments longer than this are not checked, in bytes. */
const LONGEST = 1024 * 1024;

/**
 * Checks the arguments of a tool call against the tool's input schema before the call reaches its server. The model
 * gets the places that are wrong, so that it can correct the call.
 */
export function argumentValidation({ modeOf, log }: ArgumentValidationOptions): Interceptor {
  return (context, next) => {
    const { target } = context;
    if (context.protocol !== 'mcp' || target?.kind !== 'tool' || !context.item) return next(context);
    const mode = modeOf(target.server);
    // The next round of a call, with the answers to a question, repeats arguments that were checked before.
    if (mode === 'off' || context.call.state || context.caller.principal === GATEWAY.principal) return next(context);
    const problems = problemsOf(context, context.item.value);
    if (problems === undefined || problems.length === 0) return next(context);
    const { server, name } = target;
    if (mode === 'strict') throw refusal(target.offered ?? name, problems);
    log.warn({ server, tool: name, problems }, 'the arguments of a call do not match the schema of the tool');
    return next(context);
  };
}

function problemsOf({ call, arguments: args = {} }: McpContext, definition: JsonObject): ArgumentProblem[] | undefined {
  if ((call.params.raw('arguments')?.length ?? 0) > LONGEST) return undefined;
  return schemaOf(definition)?.problems(args);
}

/**
 * Compiled schemas. A definition stays the same object until the list of its server changes. Then the old definition is
 * collected together with its compiled schema, which bounds the cache.
 */
const compiled = new WeakMap<JsonObject, ArgumentSchema | 'none'>();

/** The schema of a tool, compiled on its first use. */
export function schemaOf(definition: JsonObject): ArgumentSchema | undefined {
  let schema = compiled.get(definition);
  if (schema === undefined) {
    const { inputSchema } = definition;
    schema = (isObject(inputSchema) ? ArgumentSchema.compile(inputSchema) : undefined) ?? 'none';
    compiled.set(definition, schema);
  }
  return schema === 'none' ? undefined : schema;
}

/**
 * The problems of the arguments as sentences, so that the caller can correct the arguments; none if they cannot be
 * checked.
 */
export const argumentProblems = (definition: JsonObject, args: JsonObject): string[] =>
  (schemaOf(definition)?.problems(args) ?? []).map(said);

const said = ({ pointer, message }: ArgumentProblem): string => (pointer === '' ? message : `${pointer}: ${message}`);

function refusal(tool: string, problems: readonly ArgumentProblem[]): ProtocolError {
  const message = `The arguments of tool "${tool}" do not match its input schema. ${problems.map(said).join(' ')}`;
  return new ProtocolError('invalid_arguments', message, { outcome: 'not_executed', data: { problems } });
}
