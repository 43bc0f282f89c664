import { ProtocolError, type Reason } from '../../errors.js';
import { Unreadable } from './tolerant.js';

const reading =
  (reason: Reason, what: string) =>
  <T>(read: () => T): T => {
    try {
      return read();
    } catch (error) {
      if (error instanceof Unreadable) throw new ProtocolError(reason, `${what}: ${error.message}`);
      throw error;
    }
  };

/** Reads what a client sent: what cannot be read is the client's mistake. */
export const fromClient = reading('invalid_params', 'invalid parameters');
/** Reads what an agent sent: what cannot be read is the agent's. */
export const fromAgent = reading('invalid_agent_response', 'the agent answered with something unreadable');
