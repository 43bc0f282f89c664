import type { AuditTrail, CallRecord } from '../core/audit-trail.js';
import { type CallContext, type CallResult, isPartOfSameAgent, type McpContext } from '../core/call.js';
import { GATEWAY } from '../core/caller.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { bounded, elapsed, MOST_NAME, targetName } from './call-log.js';
import { onStreamEnd } from './on-stream-end.js';
import { traceIdOf } from './trace-id.js';

export interface CallAuditOptions {
  readonly trail: AuditTrail;
  /** Makes the keyed hash of a call's arguments; undefined if records have none. */
  readonly hash: ((text: Buffer | string) => string) | undefined;
  /** Whether successful calls of this method are left out. */
  excludes(method: string): boolean;
}

/**
 * Records each call of a client with its decision and its outcome (S24), also those that a later step refuses. With
 * `onFailure: open` a call never waits for the database; with `closed` it waits until its intent is stored.
 */
export function callAudit(options: CallAuditOptions | undefined): Interceptor | undefined {
  if (!options) return undefined;
  const { trail, hash, excludes } = options;

  const run = (context: CallContext, next: Next, record: Draft, excluded: boolean): ReturnType<Next> => {
    const end = (result: CallResult | undefined, error?: unknown): void => {
      finish(record, context, result, error);
      if (!excluded || record.decision === 'denied') trail.record(record as CallRecord);
    };
    let result: ReturnType<Next>;
    try {
      result = next(context);
    } catch (error) {
      end(undefined, error);
      throw error;
    }
    if (!(result instanceof Promise)) return ended(context, result, end);
    // Cheaper than an async function, which adds promises to every call.
    return result.then(
      (given) => ended(context, given, end),
      (error: unknown) => {
        end(undefined, error);
        throw error;
      },
    );
  };

  return (context, next) => {
    if (context.caller.principal === GATEWAY.principal) return next(context);
    // A message to an agent that is part of another call of the same caller, which is recorded.
    if (isPartOfSameAgent(context)) return next(context);
    const excluded = excludes(context.method);
    const began = started(context, hash);
    if (!trail.closed || excluded) return run(context, next, began, excluded);
    const stored = trail.before({ ...(began as CallRecord), phase: 'intent' });
    return stored ? stored.then(() => run(context, next, began, excluded)) : run(context, next, began, excluded);
  };
}

type End = (result: CallResult | undefined, error?: unknown) => void;
/** A record that is not complete yet. All records have the same members, which is faster; JSON has no undefined ones. */
type Draft = { -readonly [key in keyof Required<CallRecord>]: CallRecord[key] | undefined };

/** Records the result at once, or a stream when it has ended. */
function ended(context: CallContext, result: CallResult, end: End): CallResult {
  if (context.protocol !== 'a2a' || !('events' in result)) {
    end(result);
    return result;
  }
  const events = onStreamEnd(result.events, (over) =>
    typeof over === 'string' ? end(result, over) : end(undefined, over),
  );
  return { ...result, events };
}

/** The facts of a call that are known before it happens. */
function started(context: CallContext, hash: CallAuditOptions['hash']): Draft {
  const { caller, call, target, requestId } = context;
  const { key, issuer, tenant, roles } = caller.principal;
  const record: Draft = {
    kind: 'call',
    phase: undefined,
    protocol: context.protocol,
    method: bounded(context.method, MOST_NAME),
    caller: key,
    issuer,
    tenant,
    roles: roles.length > 0 ? roles : undefined,
    address: call.address,
    account: undefined,
    server: undefined,
    target: undefined,
    name: undefined,
    arguments: undefined,
    decision: undefined,
    rule: undefined,
    by: undefined,
    outcome: undefined,
    reason: undefined,
    ms: undefined,
    trace: undefined,
    requestId,
  };
  if (target) {
    if (target.server !== undefined) record.server = bounded(target.server, MOST_NAME);
    record.target = target.kind;
    // The gateway answers a list itself: the method says all.
    if (target.kind !== 'catalog') record.name = targetName(target);
  } else if (context.protocol === 'mcp') addAsked(record, context);
  const text = hash && argumentsOf(context);
  if (text !== undefined) record.arguments = hash!(text);
  const trace = traceIdOf(context);
  if (trace !== undefined) record.trace = trace;
  return record;
}

/** Adds the decision and the outcome to the facts of the start. */
function finish(record: Draft, context: CallContext, result: CallResult | undefined, error: unknown): void {
  const { notes, target } = context;
  const failure = result === undefined ? (error ?? 'internal') : failureIn(result);
  const noted = notes.decision;
  const reason = failure === undefined ? undefined : reasonOf(failure);
  if (failure !== undefined && (!notes.forwarded || !target)) {
    record.decision = 'denied';
    const denied = noted?.decision === 'denied' ? noted : undefined;
    record.rule = denied?.rule ?? String(reason);
    if (denied?.by !== undefined) record.by = denied.by;
  } else {
    record.decision = noted?.decision ?? (notes.forwarded ? 'allowed' : 'asked');
    if (noted?.rule !== undefined) record.rule = noted.rule;
    if (noted?.by !== undefined) record.by = noted.by;
  }
  if (context.cancellation.cancelled) record.outcome = 'cancelled';
  else if (failure !== undefined) record.outcome = 'error';
  else if (typeof error === 'string') record.outcome = error;
  else record.outcome = OUTCOMES[(result as { kind: string }).kind] ?? 'ok';
  if (reason !== undefined) record.reason = reason;
  record.ms = elapsed(context.began);
}

/** Kinds of results that are not `ok`. */
const OUTCOMES: Readonly<Record<string, string>> = { input_required: 'input_required', task: 'task' };

/** An MCP failure is a result. */
const failureIn = (result: CallResult): unknown => ('error' in result ? result.error : undefined);

function reasonOf(error: unknown): string | number {
  if (error instanceof ProtocolError) return error.reason;
  return error instanceof UpstreamRpcError ? error.code : 'internal';
}

/** The members of MCP parameters that count as the arguments; of methods that only a server knows, all of them. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  'tools/call': 'arguments',
  'prompts/get': 'arguments',
  'resources/read': 'uri',
  'completion/complete': 'argument',
};

/** The arguments as the client wrote them, without parsing them. */
function argumentsOf(context: CallContext): Buffer | string | undefined {
  if (context.protocol === 'a2a') {
    const { text, value } = context.call.request;
    return text ?? JSON.stringify(value);
  }
  const { method, params } = context.call;
  const member = ARGUMENTS[method];
  if (member !== undefined) return params.raw(member);
  return context.target?.kind === 'method' ? params.bytes() : undefined;
}

/** The requested name, for a call whose target could not be resolved. */
function addAsked(record: Draft, { call: { method, params } }: McpContext): void {
  if (method !== 'tools/call' && method !== 'prompts/get') return;
  const name = params.get('name');
  if (typeof name !== 'string') return;
  record.target = method === 'tools/call' ? 'tool' : 'prompt';
  record.name = bounded(name, MOST_NAME);
}
