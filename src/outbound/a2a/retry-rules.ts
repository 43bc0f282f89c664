import { ProtocolError } from '../../protocol/errors.js';

/** Whether the request was certainly not executed, so that another interface may be tried (C-4). */
export const mayTryNextInterface = (error: unknown): boolean =>
  error instanceof ProtocolError && error.reason === 'upstream_unavailable' && error.detail.outcome === 'not_executed';

/**
 * Whether the agent supports another version than its card says. An unknown method shows this only at an interface that
 * has not worked yet. At a working interface the agent just lacks the method.
 */
export const isVersionMismatch = (error: unknown, proven: boolean): boolean =>
  error instanceof ProtocolError &&
  (error.reason === 'unsupported_version' || (error.reason === 'method_not_found' && !proven));

/** Whether the connection broke after the request was sent, for example an idle connection that the agent closed. */
export const isConnectionLost = (error: unknown): boolean =>
  error instanceof ProtocolError && error.reason === 'upstream_unavailable' && error.detail.outcome === 'unknown';
