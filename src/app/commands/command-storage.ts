/** The database of the configuration, for commands that work beside a running gateway. */
import { userInfo } from 'node:os';
import type { Config } from '../../config/schema.js';
import { type AuditActor, type AuditTrail, OPERATOR } from '../../core/audit-trail.js';
import type { State } from '../../state/index.js';
import { type Log, SILENT } from '../../telemetry/log.js';
import { auditTrailOf } from '../audit-writer.js';
import { openStorage } from '../storage.js';

export interface CommandStorage {
  readonly state: State;
  /** Receives a record of every change. */
  readonly audit: AuditTrail;
  /** The person that runs the command. */
  readonly by: AuditActor;
}

/** Opens the storage of the configuration for the time of `work`. */
export async function withCommandStorage<T>(
  config: Config,
  work: (storage: CommandStorage) => Promise<T>,
  log: Log = SILENT,
): Promise<T> {
  const state = await openStorage(config, log);
  try {
    return await work({ state, audit: auditTrailOf(config, state, log), by: { ...OPERATOR, account: account() } });
  } finally {
    await state.close();
  }
}

/** The account that runs the command. */
function account(): string {
  try {
    return userInfo().username;
  } catch {
    return 'unknown';
  }
}
