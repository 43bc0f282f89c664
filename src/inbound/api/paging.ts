import { ProtocolError } from '../../protocol/errors.js';
import type { JsonSchema } from '../http/route.js';

export const MOST_ITEMS = 200;
const DEFAULT_ITEMS = 50;

export const PAGE_QUERY = {
  limit: {
    description: `The number of items on a page, from 1 to ${MOST_ITEMS}; default: ${DEFAULT_ITEMS}.`,
    schema: { type: 'integer', minimum: 1, maximum: MOST_ITEMS, default: DEFAULT_ITEMS },
  },
  cursor: { description: 'The value of `next` of the page before.', schema: { type: 'string' } },
} as const;

export const listOf = (item: JsonSchema): JsonSchema => ({
  type: 'object',
  required: ['items'],
  properties: {
    items: { type: 'array', items: item },
    next: { type: 'string', description: 'The cursor of the next page; absent on the last page.' },
  },
});

export interface Page {
  readonly limit: number;
  /** The key of the last item on the page before; empty for the first page. */
  readonly after: string;
}

export function pageOf({ limit, cursor }: Readonly<Record<string, string | undefined>>): Page {
  const wanted = limit === undefined ? DEFAULT_ITEMS : /^\d{1,4}$/.test(limit) ? Number(limit) : 0;
  if (wanted < 1 || wanted > MOST_ITEMS)
    throw new ProtocolError('invalid_envelope', `The query parameter limit must be a number from 1 to ${MOST_ITEMS}`);
  if (cursor === undefined) return { limit: wanted, after: '' };
  const after = Buffer.from(cursor, 'base64url').toString('utf8');
  if (after === '' || cursorOf(after) !== cursor)
    throw new ProtocolError('invalid_cursor', 'The cursor is not valid; start again without it');
  return { limit: wanted, after };
}

export const cursorOf = (key: string): string => Buffer.from(key).toString('base64url');

export interface Listed<T> {
  readonly items: readonly T[];
  readonly next?: string;
}

/** One page of items in the order of their keys. A removed item moves no other item to another page. */
export function paged<T>(all: readonly T[], { limit, after }: Page, keyOf: (item: T) => string): Listed<T> {
  const sorted = [...all].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  return cut(
    sorted.filter((item) => keyOf(item) > after),
    limit,
    keyOf,
  );
}

/**
 * Makes a page of items that are already in order. `items` has one item more than the page holds if there is another
 * page.
 */
export function cut<T>(items: readonly T[], limit: number, keyOf: (item: T) => string): Listed<T> {
  if (items.length <= limit) return { items };
  const page = items.slice(0, limit);
  return { items: page, next: cursorOf(keyOf(page.at(-1)!)) };
}
