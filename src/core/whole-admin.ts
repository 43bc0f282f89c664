import { ProtocolError } from '../protocol/errors.js';
import { isAdmin, type Principal } from './caller.js';

/** Whether the caller administers the whole gateway, and not only some servers or one tenant of it. */
export const isWholeAdmin = (principal: Principal): boolean =>
  isAdmin(principal) && principal.restriction === undefined && principal.tenant === undefined;

/**
 * Throws unless the principal administers the whole gateway. A credential for a part of the gateway must not be able to
 * create a credential without limits.
 */
export function ofWholeGateway(principal: Principal): void {
  if (!isWholeAdmin(principal))
    throw new ProtocolError(
      'forbidden',
      'This needs an administrator of the whole gateway: the credential is restricted to servers, tools or a tenant',
    );
}
