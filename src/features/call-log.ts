import type { AgentAnswer, AgentCall, AgentGateway } from '../core/a2a/gateway.js';
import type { Target } from '../core/admission.js';
import { type Caller, GATEWAY } from '../core/caller.js';
import type { Catalog } from '../core/catalog/catalog.js';
import type { Call, Gateway, Outcome } from '../core/gateway.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';

/** Where calls are written down. Nothing else is done for a call while it is not enabled. */
export interface CallLog {
  enabled(): boolean;
  /** Takes one line for one call. It never holds arguments, results or messages of errors. */
  write(fields: object): void;
}

/** One line for each MCP call that a client made, when it is over. */
export function withCallLog(inner: Gateway, log: CallLog, catalog: Pick<Catalog, 'upstream'>): Gateway {
  return {
    listen: (...args) => inner.listen(...args),
    call: (caller, call) =>
      log.enabled() && caller.principal !== GATEWAY.principal
        ? logged(inner, log, catalog, caller, call)
        : inner.call(caller, call),
  };
}

async function logged(
  inner: Gateway,
  log: CallLog,
  catalog: Pick<Catalog, 'upstream'>,
  caller: Caller,
  call: Call,
): Promise<Outcome> {
  const began = performance.now();
  let target: Target | undefined;
  const write = (outcome: object): void => {
    const server = target?.server ?? call.view.server;
    const serverRevision = server === undefined ? undefined : catalog.upstream(server)?.revisionFor?.(caller);
    log.write({
      event: 'call',
      protocol: 'mcp',
      ...(call.requestId !== undefined && { id: bounded(call.requestId, MOST_ID) }),
      ...callerFields(caller),
      method: bounded(call.method, MOST_NAME),
      ...(server !== undefined && { server }),
      ...(target ? { [target.kind]: targetName(target) } : asked(call)),
      ...outcome,
      ms: elapsed(began),
      revision: caller.revision.date,
      ...(serverRevision !== undefined && { serverRevision }),
    });
  };
  call.routed = (found) => {
    target = found;
  };
  try {
    const outcome = await inner.call(caller, call);
    write(call.cancellation.cancelled ? { outcome: 'cancelled' } : outcomeFields(outcome));
    return outcome;
  } catch (error) {
    write(failure(error));
    throw error;
  }
}

/** One line for each A2A call; for a stream when it has ended, with the number of its events. */
export function withAgentCallLog(inner: AgentGateway, log: CallLog): AgentGateway {
  return {
    handle: (caller, call) =>
      log.enabled() && caller.principal !== GATEWAY.principal
        ? loggedAgent(inner, log, caller, call)
        : inner.handle(caller, call),
  };
}

async function loggedAgent(inner: AgentGateway, log: CallLog, caller: Caller, call: AgentCall): Promise<AgentAnswer> {
  const began = performance.now();
  let { agent } = call;
  const write = (outcome: object): void =>
    log.write({
      event: 'call',
      protocol: 'a2a',
      ...callerFields(caller),
      method: call.operation,
      ...(agent !== undefined && { agent: bounded(agent, MOST_NAME) }),
      ...outcome,
      ms: elapsed(began),
      revision: call.dialect,
    });
  call.routed = (found) => {
    agent = found;
  };
  try {
    const answer = await inner.handle(caller, call);
    if (answer.kind === 'stream') return { ...answer, events: counted(answer.events, write) };
    write({ outcome: 'ok' });
    return answer;
  } catch (error) {
    write(failure(error));
    throw error;
  }
}

/** Not a generator: whoever leaves while an event is awaited must not have to wait for it. */
function counted<T>(events: AsyncIterable<T>, write: (outcome: object) => void): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]: () => {
      const iterator = events[Symbol.asyncIterator]();
      let count = 0;
      let over = false;
      const end = (outcome: object): void => {
        if (!over) write({ ...outcome, events: count });
        over = true;
      };
      return {
        next: async () => {
          try {
            const step = await iterator.next();
            if (step.done) end({ outcome: 'ok' });
            else count++;
            return step;
          } catch (error) {
            end(failure(error));
            throw error;
          }
        },
        return: async (value?: unknown) => {
          end({ outcome: 'left' });
          return (await iterator.return?.(value)) ?? { done: true, value: undefined };
        },
      };
    },
  };
}

const MOST_ID = 64;
const MOST_NAME = 128;
const MOST_URI = 256;

function callerFields({ principal, clientInfo }: Caller): object {
  if (clientInfo === undefined) return { caller: principal.name };
  const { name, version } = clientInfo as { name?: unknown; version?: unknown };
  const client = [name, version].filter((part) => typeof part === 'string').join(' ');
  return { caller: principal.name, ...(client !== '' && { client: bounded(client, MOST_ID) }) };
}

/** What was asked for, where it was not found out whose it is. */
function asked({ method, params }: Call): object {
  if (method !== 'tools/call' && method !== 'prompts/get') return {};
  const name = params.get('name');
  return typeof name === 'string' ? { [method === 'tools/call' ? 'tool' : 'prompt']: bounded(name, MOST_NAME) } : {};
}

/** A resource's URI without the parts that may hold a secret. */
function targetName({ kind, name }: Target): string {
  if (kind !== 'resource') return bounded(name, MOST_NAME);
  return bounded(name.replace(/[?#].*$/s, '').replace(/^([a-z][a-z\d+.-]*:\/\/)[^/@]*@/i, '$1'), MOST_URI);
}

function outcomeFields(outcome: Outcome): object {
  if (outcome.kind === 'error') return failure(outcome.error);
  return { outcome: outcome.kind === 'complete' ? 'ok' : outcome.kind };
}

function failure(error: unknown): object {
  if (error instanceof ProtocolError) return { outcome: 'error', error: error.reason };
  return { outcome: 'error', error: error instanceof UpstreamRpcError ? error.code : 'internal' };
}

/** Milliseconds with one digit behind the point. */
const elapsed = (began: number): number => Math.round((performance.now() - began) * 10) / 10;

function bounded<T extends string | number>(value: T, most: number): T | string {
  return typeof value === 'string' && value.length > most ? `${value.slice(0, most)}...` : value;
}
