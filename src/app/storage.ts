import { createHash } from 'node:crypto';
import type { Config } from '../config/schema.js';
import { openState, type State } from '../state/index.js';
import type { Log } from '../telemetry/log.js';

const DAY = 24 * 60 * 60 * 1000;

/** Opens the configured database and bus. */
export function openStorage(config: Config, log: Log): Promise<State> {
  const { data, audit } = config;
  const { db, directDb, bus, keys, retention } = config.state;
  const auditDays = audit.retentionDays ?? retention.auditDays;
  return openState({
    data,
    log,
    retention: {
      ...(auditDays > 0 && { auditMs: auditDays * DAY }),
      ...(retention.deadDeliveryDays > 0 && { deadDeliveriesMs: retention.deadDeliveryDays * DAY }),
    },
    audit: { spool: audit.spool },
    ...(db !== undefined && { db }),
    ...(directDb !== undefined && { directDb }),
    ...(bus !== undefined && { bus }),
    ...(keys.length > 0 && { keys: keys.map((key) => ({ id: keyId(key), key: keyText(key) })) }),
  });
}

/**
 * A configured key may be a text of any length, so it is hashed to a fixed size. The id of the key does not reveal the
 * key.
 */
const keyText = (key: string): string => createHash('sha256').update(`parley key ${key}`).digest('base64');
const keyId = (key: string): string => createHash('sha256').update(`parley id ${key}`).digest('hex').slice(0, 8);
