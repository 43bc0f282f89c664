import { ProtocolError, type Reason } from '../../errors.js';
import { Unreadable } from './tolerant-readers.js';

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

/** Reads a value from a client: an unreadable value is the client's fault. */
export const fromClient = reading('invalid_params', 'invalid parameters');
/** Reads a value from an agent: an unreadable value is the agent's fault. */
export const fromAgent = reading('invalid_agent_response', 'the response of the agent is unreadable');
