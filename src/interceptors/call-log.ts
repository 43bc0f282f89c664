import type { Target } from '../core/admission.js';
import type { A2aContext, CallResult, McpContext, McpResult } from '../core/call.js';
import { type Caller, GATEWAY } from '../core/caller.js';
import type { Catalog } from '../core/catalog/catalog.js';
import type { Call } from '../core/gateway.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';

/** Writes one line per call. Calls cost nothing extra while the log is not enabled. */
export interface CallLog {
  enabled(): boolean;
  /** Takes the fields of one call. They never contain arguments, results or error messages. */
  write(fields: object): void;
}

type Fields = Record<string, unknown>;

/** Writes one line for each call of a client when the call is over, and for a stream when the stream has ended. */
export function callLog(log: CallLog | undefined, catalog: Pick<Catalog, 'upstream'>): Interceptor | undefined {
  if (!log) return undefined;
  const mcp = async (context: McpContext, next: Next): Promise<CallResult> => {
    try {
      const result = await next(context);
      log.write(callFields(context, catalog, result as McpResult));
      return result;
    } catch (error) {
      log.write(callFields(context, catalog, undefined, error));
      throw error;
    }
  };
  const a2a = async (context: A2aContext, next: Next): Promise<CallResult> => {
    const write: Ended = (ended, events) => log.write(agentFields(context, ended, events));
    try {
      const answer = await next(context);
      if (answer.kind === 'stream') return { ...answer, events: counted(answer.events, write) };
      write('ok');
      return answer;
    } catch (error) {
      write(error);
      throw error;
    }
  };
  return (context, next) => {
    if (!log.enabled() || context.caller.principal === GATEWAY.principal) return next(context);
    if (context.protocol === 'mcp') return mcp(context, next);
    return context.call.nested ? next(context) : a2a(context, next);
  };
}

/** Runs for every call: plain assignments are the cheapest way to build the fields. */
function callFields(
  { caller, call, target, began }: McpContext,
  catalog: Pick<Catalog, 'upstream'>,
  result: McpResult | undefined,
  thrown?: unknown,
): Fields {
  const fields: Fields = { event: 'call', protocol: 'mcp' };
  if (call.requestId !== undefined) fields['requestId'] = call.requestId;
  if (call.id !== undefined) fields['id'] = bounded(call.id, MOST_ID);
  addCaller(fields, caller);
  fields['method'] = bounded(call.method, MOST_NAME);
  const server = target?.server ?? call.view.only;
  if (server !== undefined) fields['server'] = server;
  if (!target) addAsked(fields, call);
  else if (NAMED.has(target.kind)) fields[target.kind] = targetName(target);
  if (call.cancellation.cancelled) fields['outcome'] = 'cancelled';
  else if (result === undefined) addFailure(fields, thrown);
  else if (result.kind === 'error') addFailure(fields, result.error);
  else fields['outcome'] = result.kind === 'complete' || result.kind === 'value' ? 'ok' : result.kind;
  fields['ms'] = elapsed(began);
  fields['revision'] = caller.revision.date;
  const serverRevision = server === undefined ? undefined : catalog.upstream(server)?.revisionFor?.(caller);
  if (serverRevision !== undefined) fields['serverRevision'] = serverRevision;
  return fields;
}

function agentFields({ caller, call, target, began }: A2aContext, ended: unknown, events: number | undefined): Fields {
  const fields: Fields = { event: 'call', protocol: 'a2a' };
  if (call.requestId !== undefined) fields['requestId'] = call.requestId;
  if (call.id !== undefined) fields['id'] = bounded(call.id, MOST_ID);
  addCaller(fields, caller);
  fields['method'] = call.operation;
  const agent = target?.kind === 'agent' ? target.name : call.agent;
  if (agent !== undefined) fields['agent'] = bounded(agent, MOST_NAME);
  if (typeof ended === 'string') fields['outcome'] = ended;
  else addFailure(fields, ended);
  if (events !== undefined) fields['events'] = events;
  fields['ms'] = elapsed(began);
  fields['revision'] = call.dialect;
  return fields;
}

/** Takes the outcome or the error of a call, and for a stream the number of its events. */
type Ended = (ended: unknown, events?: number) => void;

/** Not a generator: a reader that leaves while an event is awaited must not wait for that event. */
export function counted<T>(events: AsyncIterable<T>, write: Ended): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]: () => {
      const iterator = events[Symbol.asyncIterator]();
      let count = 0;
      let over = false;
      const end = (ended: unknown): void => {
        if (!over) write(ended, count);
        over = true;
      };
      return {
        next: async () => {
          try {
            const step = await iterator.next();
            if (step.done) end('ok');
            else count++;
            return step;
          } catch (error) {
            end(error);
            throw error;
          }
        },
        return: async (value?: unknown) => {
          end('left');
          return (await iterator.return?.(value)) ?? { done: true, value: undefined };
        },
      };
    },
  };
}

/** Kinds of targets whose names the line contains. */
const NAMED: ReadonlySet<string> = new Set(['tool', 'prompt', 'resource']);

const MOST_ID = 64;
export const MOST_NAME = 128;
const MOST_URI = 256;

function addCaller(fields: Fields, { principal, clientInfo }: Caller): void {
  fields['caller'] = principal.key;
  if (clientInfo === undefined) return;
  const { name, version } = clientInfo as { name?: unknown; version?: unknown };
  if (typeof name !== 'string') return;
  fields['client'] = bounded(typeof version === 'string' ? `${name} ${version}` : name, MOST_ID);
}

/** The requested name, for a call whose target could not be resolved. */
function addAsked(fields: Fields, { method, params }: Call): void {
  if (method !== 'tools/call' && method !== 'prompts/get') return;
  const name = params.get('name');
  if (typeof name === 'string') fields[method === 'tools/call' ? 'tool' : 'prompt'] = bounded(name, MOST_NAME);
}

/** The name of the target; for a resource the URI without the parts that may contain a secret. */
export function targetName({ kind, name }: Target): string {
  if (kind !== 'resource') return bounded(name, MOST_NAME);
  return bounded(name.replace(/[?#].*$/s, '').replace(/^([a-z][a-z\d+.-]*:\/\/)[^/@]*@/i, '$1'), MOST_URI);
}

function addFailure(fields: Fields, error: unknown): void {
  fields['outcome'] = 'error';
  if (error instanceof ProtocolError) fields['error'] = error.reason;
  else fields['error'] = error instanceof UpstreamRpcError ? error.code : 'internal';
}

/** Milliseconds with one decimal. */
export const elapsed = (began: number): number => Math.round((performance.now() - began) * 10) / 10;

export function bounded<T extends string | number>(value: T, most: number): T | string {
  return typeof value === 'string' && value.length > most ? `${value.slice(0, most)}...` : value;
}
