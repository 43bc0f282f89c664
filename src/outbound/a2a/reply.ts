import type { Passed } from '../../core/a2a/agent.js';
import type { Dialect } from '../../protocol/a2a/dialect.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { retryAfterOf } from '../../protocol/http/retry-after.js';
import { isObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import { depthWithin } from '../../protocol/jsonrpc/scan.js';
import { DEPTH, invalidReply, lost, Misplaced } from './context.js';
import type { WholeReply } from './exchange.js';

/** A JSON text and its value, parsed once. */
export function readJson(agent: string, body: Buffer): Required<Passed<JsonValue>> {
  if (!depthWithin(body, DEPTH)) throw invalidReply(agent, 'answered with JSON that nests too deep');
  const text = body.toString('utf8');
  try {
    return { text, value: JSON.parse(text) as JsonValue };
  } catch {
    throw invalidReply(agent, 'answered with something that is no JSON');
  }
}

/** The same where it may be something else. */
export function tryJson(body: Buffer): JsonValue | undefined {
  if (body.length === 0 || !depthWithin(body, DEPTH)) return undefined;
  try {
    return JSON.parse(body.toString('utf8')) as JsonValue;
  } catch {
    return undefined;
  }
}

/** What a status other than 2xx means: as the agent explains it, else by itself. */
export function refusal(agent: string, dialect: Dialect, reply: WholeReply): Error {
  const { status, headers } = reply;
  const body = tryJson(reply.body);
  const gone = status === 404 || status === 405;
  if (isObject(body) && status >= 400) {
    const error = dialect.readError(body, status);
    if (!isVague(error)) return error;
  }
  const problem = (reason: 'upstream_unauthorized' | 'upstream_rate_limited', why: string): ProtocolError => {
    const after = retryAfterOf(headers);
    return new ProtocolError(reason, `Agent "${agent}" ${why}`, {
      outcome: 'not_executed',
      data: { agent, status },
      ...(after !== undefined && { headers: { 'Retry-After': after } }),
    });
  };
  if (status === 401 || status === 403) return problem('upstream_unauthorized', 'does not accept our credentials');
  if (status === 429) return problem('upstream_rate_limited', 'takes no more requests for now');
  if (gone || status < 400) {
    const why = gone ? `answered ${status}` : 'redirects, which is not followed';
    return new Misplaced('upstream_unavailable', `Agent "${agent}" is not at this address: it ${why}`, {
      outcome: 'not_executed',
      data: { agent, status },
    });
  }
  if (status >= 502 && status <= 504) return lost(agent, `it answered ${status}`);
  if (isObject(body)) return dialect.readError(body, status);
  return invalidReply(agent, `answered ${status} and did not say why`);
}

/** An answer that says no more than its status does: a framework's words, say, for a path it does not have. */
const isVague = (error: Error): boolean =>
  (error instanceof UpstreamRpcError && error.code === UNNAMED) ||
  (error instanceof ProtocolError && BY_STATUS.has(error.reason));

/** What an error is that has neither a reason nor a code of its own. */
const UNNAMED = -32603;
/** Reasons that only a status gives; what can be done about them is told by its headers. */
const BY_STATUS: ReadonlySet<string> = new Set([
  'upstream_unauthorized',
  'upstream_rate_limited',
  'upstream_unavailable',
]);
