import { ProtocolError } from '../../protocol/errors.js';

/** Whether the request certainly came to nothing, so that another interface may be tried (C-4). */
export const mayTryNextInterface = (error: unknown): boolean =>
  error instanceof ProtocolError && error.reason === 'upstream_unavailable' && error.detail.outcome === 'not_executed';

/**
 * Whether the agent speaks another version than its card says. A method it does not know tells so only of an interface
 * that has not worked yet: later it is just a method it does not have.
 */
export const isVersionMismatch = (error: unknown, proven: boolean): boolean =>
  error instanceof ProtocolError &&
  (error.reason === 'unsupported_version' || (error.reason === 'method_not_found' && !proven));

/** Whether the agent was there and then no more: a connection that was kept open too long, say. */
export const isConnectionLost = (error: unknown): boolean =>
  error instanceof ProtocolError && error.reason === 'upstream_unavailable' && error.detail.outcome === 'unknown';
