import type { DialectId } from './dialect.js';

const CLIENT_CHOOSES: ReadonlySet<DialectId> = new Set<DialectId>(['0.1']);

/** Whether clients of this dialect choose the ids of their tasks. Such dialects have tasks only, no direct messages. */
export const clientChoosesTaskIds = (id: DialectId): boolean => CLIENT_CHOOSES.has(id);
