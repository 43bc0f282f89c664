import type { Caller } from '../../core/caller.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { AgentContext } from './agent-context.js';
import { withoutCredential } from './agent-errors.js';

/**
 * The credential of a caller's next request. A known credential is returned without a promise. Throws or rejects if
 * there is no credential: the request must then not be sent.
 */
export function credentialOf(context: AgentContext, caller: Caller): Credential | Promise<Credential> {
  try {
    const given = context.credential(caller);
    return given instanceof Promise
      ? given.catch((error: unknown) => Promise.reject(withoutCredential(context.name, error)))
      : given;
  } catch (error) {
    throw withoutCredential(context.name, error);
  }
}
