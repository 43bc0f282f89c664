/** Refuses JSON that is nested too deep, or has too many members, before it is parsed. */
import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, COLON, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './scan.js';

export interface StructureLimits {
  /** The maximum nesting depth. */
  readonly depth: number;
  /** The maximum number of objects, arrays and members together. */
  readonly members?: number;
}

/**
 * The reason why a text is too costly to parse, as the end of a sentence; undefined if it is not. Checked before
 * parsing, because `JSON.parse` accepts a million levels or a million small objects and blocks the event loop meanwhile
 * (P6).
 */
export function structureFault(source: Buffer, limits: StructureLimits): string | undefined {
  const { depth: cap, members = Number.POSITIVE_INFINITY } = limits;
  let depth = 0;
  let count = 0;
  let i = 0;
  const end = source.length;
  while (i < end) {
    const byte = source[i]!;
    if (byte === QUOTE) {
      i++;
      while (i < end && source[i] !== QUOTE) i += source[i] === BACKSLASH ? 2 : 1;
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      count++;
      if (++depth > cap) return `nests deeper than ${cap} levels`;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth--;
    else if (byte === COLON) count++;
    i++;
  }
  return count > members ? `has more than ${members} objects, arrays and members` : undefined;
}

export const depthWithin = (source: Buffer, depth: number): boolean => structureFault(source, { depth }) === undefined;
