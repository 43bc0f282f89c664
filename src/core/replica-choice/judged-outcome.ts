import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { isInternalError } from '../../protocol/mcp/recognised-upstream-errors.js';
import type { Outcome } from '../gateway.js';
import type { ReplicaOutcome } from './reward.js';

export type Judged = Pick<ReplicaOutcome, 'success' | 'answered'>;

const SUCCESS: Judged = { success: true };
const FAILURE: Judged = { success: false };
/** The replica answered, but the answer was a failure. */
const BAD_ANSWER: Judged = { success: false, answered: true };

/**
 * The judgement about a replica from one outcome. Undefined for an outcome that depends on the caller only, such as the
 * refusal of wrong arguments.
 */
export function judged(outcome: Outcome): Judged | undefined {
  if (outcome.kind === 'error') return judgedError(outcome.error);
  // A tool reports its failures in its result.
  return outcome.kind === 'complete' && outcome.result.get('isError') === true ? BAD_ANSWER : SUCCESS;
}

export function judgedError(error: unknown): Judged | undefined {
  if (error instanceof UpstreamRpcError) return isInternalError(error) ? BAD_ANSWER : undefined;
  if (!(error instanceof ProtocolError)) return undefined;
  const { reason, detail } = error;
  switch (reason) {
    case 'upstream_unavailable':
    case 'upstream_error':
    case 'upstream_invalid':
      return FAILURE;
    case 'upstream_timeout':
      // With any other outcome, the time limit ended the wait for a credential before the replica got the call.
      return detail.outcome === 'unknown' ? FAILURE : undefined;
    case 'upstream_rate_limited':
      return BAD_ANSWER;
    case 'upstream_unauthorized':
      // Without a status, the gateway could not obtain the credential, and the replica got no request.
      return detail.data?.['status'] === undefined ? undefined : BAD_ANSWER;
    default:
      return undefined;
  }
}

/** Whether nothing of the call was sent: no connection could be opened, or the circuit breaker refused the call. */
export const isUnsent = (error: unknown): boolean =>
  error instanceof ProtocolError && error.reason === 'upstream_unavailable' && error.detail.outcome === 'not_executed';
