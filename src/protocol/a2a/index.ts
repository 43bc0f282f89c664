/** A2A: the 1.0 model and every dialect of it. */
import type { Dialect, DialectId } from './dialect.js';
import { v0_1 } from './versions/v0_1/index.js';
import { v0_2 } from './versions/v0_2/index.js';
import { v0_3, v0_3_proto } from './versions/v0_3/index.js';
import { v1_0 } from './versions/v1_0/index.js';

export { canonicalForms, cardPayloads } from './canonical-card.js';
export type { ErrorProfile } from './dialect.js';
export { applyEvent, diff, type TaskSizeLimits } from './task-events.js';
export { cardDialect, readVersion, restDialect, rpcDialect } from './version-detection.js';
export { hybridCard, legacyCard } from './versions/card/hybrid.js';
export { interfacesOf } from './versions/card/interfaces.js';
export { errorDetails, grpcError, restError } from './wire-errors.js';

/** Every dialect, the newest first. */
export const DIALECTS: readonly Dialect[] = [v1_0, v0_3, v0_3_proto, v0_2, v0_1];

const BY_ID = new Map<DialectId, Dialect>(DIALECTS.map((each) => [each.id, each]));

export function dialect(id: DialectId): Dialect {
  const found = BY_ID.get(id);
  if (!found) throw new TypeError(`no such dialect: ${id}`);
  return found;
}
