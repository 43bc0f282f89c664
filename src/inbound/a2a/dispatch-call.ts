import type { Events, Passed } from '../../core/a2a/agent.js';
import type { AgentAnswer, AgentGateway } from '../../core/a2a/gateway.js';
import { Cancellation } from '../../core/caller.js';
import { type DialectId, VERSIONS } from '../../protocol/a2a/dialect.js';
import type { Operation, StreamResponse } from '../../protocol/a2a/model.js';
import type { VersionBehavior } from '../../protocol/a2a/version-behavior.js';
import { VERSION_HEADER } from '../../protocol/a2a/version-behavior.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import type { Id } from '../../protocol/jsonrpc/message.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { RequestContext } from '../http/route.js';
import { agentCaller, exchangeOf } from './caller.js';

/**
 * The operations that are cancelled in the gateway when the client disconnects. Cancelling SendMessage only ends the
 * wait: the agent continues, as do all operations that change state (G-25). Streams are detached, not cancelled.
 */
export const AWAITED: ReadonlySet<Operation> = new Set<Operation>([
  'SendMessage',
  'GetTask',
  'ListTasks',
  'GetTaskPushNotificationConfig',
  'ListTaskPushNotificationConfigs',
  'GetExtendedAgentCard',
]);

/** Passes one request to the gateway. */
export async function dispatchCall(
  gateway: AgentGateway,
  context: RequestContext,
  operation: Operation,
  dialect: DialectId,
  request: Passed<JsonObject>,
  id?: Id,
): Promise<AgentAnswer> {
  const { req, res, principal, params } = context;
  const cancellation = new Cancellation();
  const leave = (): void => cancellation.cancel('the client closed the connection');
  if (AWAITED.has(operation)) res.onClose(leave);
  if (operation === 'SubscribeToTask') req.listens = true;
  try {
    return await gateway.handle(agentCaller(principal, req.forwardedUrl), {
      // A request without a name goes to the routing agent.
      agent: params['agent'],
      operation,
      request,
      bytes: req.bodySize,
      dialect,
      exchange: exchangeOf((name) => req.header(name), cancellation),
      requestId: req.id,
      address: req.clientAddress,
      ...(id !== undefined && { id }),
    });
  } finally {
    res.offClose(leave);
  }
}

/** The events of an answer to a streaming operation; a single result is a stream of one event. */
export function eventsOf(answer: AgentAnswer): Events {
  if (answer.kind === 'stream') return answer.events;
  const { result } = answer;
  return (async function* () {
    yield result as Passed<StreamResponse>;
  })();
}

/** The response header with the activated extensions, by the name of the version (S-14). */
export function extensionHeaders({ extensionsHeader }: VersionBehavior, { extensions }: AgentAnswer): string[] {
  // The URIs come from the agent. Values with characters that a URI cannot have are dropped.
  const named = extensions?.filter((uri) => /^[\x21-\x7e]+$/.test(uri)) ?? [];
  return named.length > 0 ? [extensionsHeader, named.join(', ')] : [];
}

export function unsupportedVersion({ req, query }: RequestContext): ProtocolError {
  const named = [...query].find(([key]) => key.toLowerCase() === VERSION_HEADER)?.[1];
  return versionRefused(String(req.header(VERSION_HEADER) ?? named));
}

export function versionRefused(requested: string): ProtocolError {
  return new ProtocolError(
    'unsupported_version',
    `A2A version ${requested} is not supported. Supported: ${VERSIONS.join(', ')}`,
    { data: { requested, supported: VERSIONS.join(', ') } },
  );
}

/**
 * The error that a client may see, which is also passed to `refused`. Any other error is passed to `report` only, and
 * the client gets an internal error.
 */
export function knownFailure(
  error: unknown,
  report: (error: unknown) => void,
  refused?: (error: unknown) => void,
): Error {
  if (error instanceof ProtocolError || error instanceof UpstreamRpcError) {
    refused?.(error);
    return error;
  }
  report(error);
  return new ProtocolError('internal', 'Internal error');
}
