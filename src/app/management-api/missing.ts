import { ProtocolError } from '../../protocol/errors.js';

/** The error for something that does not exist, or that the caller may not see. */
export const missing = (what: string, id: string): ProtocolError =>
  new ProtocolError('not_found', `There is no ${what} ${JSON.stringify(id)}`);
