import { createHash } from 'node:crypto';

const digest = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 32);

/**
 * The key of a caller in stored outcomes: hashes of its tenant and of the key of its principal, without names.
 * Undefined for a caller without an identity: search does not learn from its calls.
 */
export function callerKey(principal: string): string | undefined {
  if (principal === '') return undefined;
  // The key of a principal begins with the tenant, if the principal has a tenant.
  const tenant = principal.startsWith('~') ? digest(principal.slice(0, principal.indexOf('#'))) : '';
  return `${tenant}.${digest(principal)}`;
}

/** The tenant in the key of a caller. Callers of different tenants never learn from each other. */
export const tenantOf = (key: string): string => key.slice(0, Math.max(0, key.indexOf('.')));
