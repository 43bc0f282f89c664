/**
 * Reads and removes what search has learned, for operators: by command beside a running gateway, and over the
 * management API.
 */
import type { Config } from '../../config/schema.js';
import type { AuditActor, AuditTrail } from '../../core/audit-trail.js';
import { callerKey } from '../../core/search/caller-key.js';
import type { State } from '../../state/index.js';
import { withCommandStorage } from './command-storage.js';

/** Selects the outcomes to remove: outcomes that match every given value, or all outcomes if no value is given. */
export interface Forgotten {
  /** The caller, as log lines and audit records name it. */
  readonly caller?: string | undefined;
  readonly server?: string | undefined;
  /** The tool's name as its server offers it. */
  readonly tool?: string | undefined;
}

/**
 * Opens the storage of the configuration and removes the selected outcomes. Running gateways stop using them within a
 * second.
 */
export const forgetOutcomes = (config: Config, what: Forgotten): Promise<number> =>
  withCommandStorage(config, (storage) => forget(storage, what));

export function forget(
  { state, audit, by }: { readonly state: State; readonly audit: AuditTrail; readonly by: AuditActor },
  { caller, server, tool }: Forgotten,
): Promise<number> {
  const of = server?.toLowerCase();
  const details = {
    ...(caller !== undefined && { caller }),
    ...(of !== undefined && { server: of }),
    ...(tool !== undefined && { tool }),
  };
  const filter = { caller: caller === undefined ? undefined : callerKey(caller), server: of, tool };
  return audit.change(
    { ...by, action: 'routing.forget', details },
    () => state.routingOutcomes.forget(filter),
    (removed) => (removed > 0 ? { details: { ...details, removed } } : undefined),
  );
}
