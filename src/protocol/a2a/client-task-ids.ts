import type { DialectId } from './dialect.js';

const MINTING: ReadonlySet<DialectId> = new Set<DialectId>(['0.1']);

/** Whether clients of this dialect choose the ids of their tasks, and know nothing but tasks. */
export const clientMintsIds = (id: DialectId): boolean => MINTING.has(id);
