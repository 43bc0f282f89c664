import type { Passed } from '../../core/a2a/agent.js';
import type { Dialect } from '../../protocol/a2a/dialect.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { retryAfterOf } from '../../protocol/http/retry-after.js';
import { depthWithin } from '../../protocol/jsonrpc/json-depth-limit.js';
import { isObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { HttpHeaders } from '../http/index.js';
import { redirectTarget } from '../mcp/http-status-errors.js';
import { type AgentRef, EndpointNotFound, invalidReply, lost, subject } from './agent-errors.js';
import type { WholeReply } from './http-exchange.js';

/** Maximum nesting depth of an agent's JSON. Deeper JSON blocks the parser for too long. */
export const MAX_DEPTH = 256;

/** A JSON text and its value, parsed once. */
export function readJson(agent: AgentRef, body: Buffer): Required<Passed<JsonValue>> {
  if (!depthWithin(body, MAX_DEPTH)) throw invalidReply(agent, 'answered with JSON that nests too deep');
  const text = body.toString('utf8');
  try {
    return { text, value: JSON.parse(text) as JsonValue };
  } catch {
    throw invalidReply(agent, 'sent an answer that is not JSON');
  }
}

/** Parses JSON. Undefined for other content. */
export function tryJson(body: Buffer): JsonValue | undefined {
  if (body.length === 0 || !depthWithin(body, MAX_DEPTH)) return undefined;
  try {
    return JSON.parse(body.toString('utf8')) as JsonValue;
  } catch {
    return undefined;
  }
}

/**
 * Converts a status other than 2xx to an error: the error of the agent, or an error that the gateway derives from the
 * status.
 */
export function refusal(agent: AgentRef, dialect: Dialect, reply: WholeReply): Error {
  const { status, headers } = reply;
  const body = tryJson(reply.body);
  const gone = status === 404 || status === 405;
  if (isObject(body) && status >= 400) {
    const error = dialect.readError(body, status);
    if (!isVague(error)) return error;
  }
  const problem = (reason: 'upstream_unauthorized' | 'upstream_rate_limited', why: string): ProtocolError => {
    const after = retryAfterOf(headers);
    return new ProtocolError(reason, `${subject(agent)} ${why}`, {
      outcome: 'not_executed',
      data: { agent: agent.name, status },
      ...(after !== undefined && { headers: { 'Retry-After': after } }),
    });
  };
  if (status === 401 || status === 403) {
    const remedy = 'check "headers" of the agent in the configuration';
    return problem('upstream_unauthorized', `did not accept the gateway's credentials (HTTP ${status}); ${remedy}`);
  }
  if (status === 429) return problem('upstream_rate_limited', 'is limiting requests (HTTP 429)');
  if (gone || status < 400) {
    const why = gone
      ? `has no A2A endpoint there (HTTP ${status}); check its URL and the URLs in its card`
      : `answered with a redirect${redirectedTo(agent, headers)} (HTTP ${status}), which is not followed; correct its URL`;
    return new EndpointNotFound('upstream_unavailable', `${subject(agent)} ${why}`, {
      outcome: 'not_executed',
      data: { agent: agent.name, status },
    });
  }
  if (status >= 502 && status <= 504) return lost(agent, `it answered HTTP ${status}`);
  if (isObject(body)) return dialect.readError(body, status);
  return invalidReply(agent, `answered HTTP ${status} without an explanation`);
}

/** Names the target of a redirect if callers may see URLs. */
function redirectedTo({ place }: AgentRef, headers: HttpHeaders): string {
  const target = place === undefined ? undefined : redirectTarget(headers);
  return target === undefined ? '' : ` to ${target}`;
}

/**
 * Whether an error contains no more information than its HTTP status, such as a framework's text for an unknown path.
 */
const isVague = (error: Error): boolean =>
  (error instanceof UpstreamRpcError && error.code === UNNAMED) ||
  (error instanceof ProtocolError && BY_STATUS.has(error.reason));

/** The code that the gateway uses if an error of an agent has neither a reason nor a specific code. */
const UNNAMED = -32603;
/** Reasons that the gateway derives from an HTTP status. The headers of the reply contain the details. */
const BY_STATUS: ReadonlySet<string> = new Set([
  'upstream_unauthorized',
  'upstream_rate_limited',
  'upstream_unavailable',
]);
