import { type CallOutcome, ProtocolError } from '../protocol/errors.js';

/**
 * The error while the bus is away. Only calls that need another replica get this error, and clients may repeat these
 * calls.
 */
export const unreachable = (outcome: CallOutcome): ProtocolError =>
  new ProtocolError('overloaded', 'The other replicas cannot be reached at the moment; try again', {
    outcome,
    headers: { 'Retry-After': '1' },
  });
