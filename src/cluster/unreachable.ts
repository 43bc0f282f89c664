import { type CallOutcome, ProtocolError } from '../protocol/errors.js';

/** The engine between the replicas is away: only what needs the others is refused, and only for the moment. */
export const unreachable = (outcome: CallOutcome): ProtocolError =>
  new ProtocolError('overloaded', 'The other replicas cannot be reached at the moment; try again', {
    outcome,
    headers: { 'Retry-After': '1' },
  });
