import type { Target } from '../core/admission.js';
import type { A2aContext, McpContext } from '../core/call.js';
import type { Caller } from '../core/caller.js';
import type { Catalog } from '../core/catalog/catalog.js';
import type { Call } from '../core/gateway.js';
import type { CallObserver, EndedCall } from './observed-calls.js';
import { traceIdOf } from './trace-id.js';

/** Writes one line per call. While the log is off, calls cost nothing extra. */
export interface CallLog {
  enabled(): boolean;
  /** Takes the fields of one call. They never contain arguments, results or error messages. */
  write(fields: object): void;
}

type Fields = Record<string, unknown>;

/** Writes one line for each call of a client when the call is over, and for a stream when the stream has ended. */
export function callLog(log: CallLog | undefined, catalog: Pick<Catalog, 'upstream'>): CallObserver | undefined {
  return log && { active: () => log.enabled(), ended: (call) => log.write(lineOf(call, catalog)) };
}

/** The fields of a call's line, built once for all readers. They contain no arguments, results or error messages. */
export function lineOf(call: EndedCall, catalog: Pick<Catalog, 'upstream'>): Fields {
  call.line ??=
    call.context.protocol === 'mcp' ? callFields(call.context, catalog, call) : agentFields(call.context, call);
  return call.line;
}

/** Runs for every call. Plain assignments are the fastest way to build the fields. */
function callFields(
  context: McpContext,
  catalog: Pick<Catalog, 'upstream'>,
  { outcome, reason, ms, bytes }: EndedCall,
): Fields {
  const { caller, call, target } = context;
  const fields: Fields = { event: 'call', protocol: 'mcp' };
  if (call.requestId !== undefined) fields['requestId'] = call.requestId;
  const trace = traceIdOf(context);
  if (trace !== undefined) fields['trace'] = trace;
  if (call.id !== undefined) fields['id'] = bounded(call.id, MOST_ID);
  addCaller(fields, caller);
  fields['method'] = bounded(call.method, MOST_NAME);
  const server = target?.server ?? call.view.only;
  if (server !== undefined) fields['server'] = server;
  if (!target) addAsked(fields, call);
  else if (NAMED.has(target.kind)) fields[target.kind] = targetName(target);
  fields['outcome'] = outcome;
  if (reason !== undefined) fields['error'] = reason;
  fields['ms'] = rounded(ms);
  if (bytes !== undefined) fields['bytes'] = bytes;
  fields['revision'] = caller.revision.date;
  const serverRevision = server === undefined ? undefined : catalog.upstream(server)?.revisionFor?.(caller);
  if (serverRevision !== undefined) fields['serverRevision'] = serverRevision;
  return fields;
}

function agentFields(context: A2aContext, { outcome, reason, ms, events }: EndedCall): Fields {
  const { caller, call, target } = context;
  const fields: Fields = { event: 'call', protocol: 'a2a' };
  if (call.requestId !== undefined) fields['requestId'] = call.requestId;
  const trace = traceIdOf(context);
  if (trace !== undefined) fields['trace'] = trace;
  if (call.id !== undefined) fields['id'] = bounded(call.id, MOST_ID);
  addCaller(fields, caller);
  fields['method'] = call.operation;
  const agent = target?.kind === 'agent' ? target.name : call.agent;
  if (agent !== undefined) fields['agent'] = bounded(agent, MOST_NAME);
  fields['outcome'] = outcome;
  if (reason !== undefined) fields['error'] = reason;
  if (events !== undefined) fields['events'] = events;
  fields['ms'] = rounded(ms);
  fields['revision'] = call.dialect;
  return fields;
}

/** The kinds of targets whose names are in the log line. */
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

/** The requested name, if the target of the call could not be resolved. */
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

/** Milliseconds with one decimal. */
export const elapsed = (began: number): number => rounded(performance.now() - began);

const rounded = (ms: number): number => Math.round(ms * 10) / 10;

export function bounded<T extends string | number>(value: T, most: number): T | string {
  return typeof value === 'string' && value.length > most ? `${value.slice(0, most)}...` : value;
}
