import { ProtocolError } from '../../protocol/errors.js';

/** Whether the request was certainly not executed, so that another interface may be tried (C-4). */
export const mayTryNextInterface = (error: unknown): boolean =>
  error instanceof ProtocolError && error.reason === 'upstream_unavailable' && error.detail.outcome === 'not_executed';

/**
 * Whether an error shows that the agent supports another version than its card says. An unknown method shows a wrong
 * version only at an interface that never worked. An interface that worked simply does not have the method.
 */
export const isVersionMismatch = (error: unknown, proven: boolean): boolean =>
  error instanceof ProtocolError &&
  (error.reason === 'unsupported_version' || (error.reason === 'method_not_found' && !proven));

/**
 * Whether the connection broke after the request was sent. For example, the agent may have closed an idle connection.
 */
export const isConnectionLost = (error: unknown): boolean =>
  error instanceof ProtocolError && error.reason === 'upstream_unavailable' && error.detail.outcome === 'unknown';

/** The status with which the agent refused the credential before it executed anything; undefined for other errors. */
export function refusedStatus(error: unknown): number | undefined {
  if (!(error instanceof ProtocolError) || error.reason !== 'upstream_unauthorized') return undefined;
  if (error.detail.outcome === 'unknown') return undefined;
  return error.detail.data?.['status'] === 403 ? 403 : 401;
}
