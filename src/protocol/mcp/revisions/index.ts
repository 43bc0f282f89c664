import { revision as r20241105 } from './2024-11-05/index.js';
import { revision as r20250326 } from './2025-03-26/index.js';
import { revision as r20250618 } from './2025-06-18/index.js';
import { revision as r20251125 } from './2025-11-25/index.js';
import { revision as r20260728 } from './2026-07-28/index.js';
import type { Revision } from './revision.js';

export type { Expresses, Revision } from './revision.js';

/** Every supported revision, oldest first. Every surface that lists versions uses this list. */
export const REVISIONS: readonly Revision[] = [r20241105, r20250326, r20250618, r20251125, r20260728];

export const REVISION_DATES: readonly string[] = REVISIONS.map((revision) => revision.date);

export const LEGACY = REVISIONS.filter((revision) => revision.era === 'legacy');
export const MODERN = REVISIONS.filter((revision) => revision.era === 'modern');
/** The versions that `server/discover` offers. */
export const DISCOVER_VERSIONS = MODERN.map((revision) => revision.date);

export const NEWEST_LEGACY = LEGACY.at(-1)!;
export const NEWEST_MODERN = MODERN.at(-1)!;
export const NEWEST = REVISIONS.at(-1)!;

/** The revision of the HTTP+SSE transport. */
export const HTTP_SSE = r20241105;

const byDate = new Map(REVISIONS.map((revision) => [revision.date, revision]));

export const revisionOf = (date: unknown): Revision | undefined =>
  typeof date === 'string' ? byDate.get(date) : undefined;

const DATE = /^\d{4}-\d{2}-\d{2}$/;

export const isRevisionDate = (value: unknown): value is string => typeof value === 'string' && DATE.test(value);

/** Whether an unknown version belongs to the modern era: later revisions keep its structure. */
export const soundsModern = (date: string): boolean => DATE.test(date) && date >= MODERN[0]!.date;
