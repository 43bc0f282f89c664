/** The common part of the operations that list stored sessions, tasks and parked calls. */
import { isWholeAdmin } from '../../core/whole-admin.js';
import type { ApiRequest } from '../../inbound/api/operation.js';
import { listOf, PAGE_QUERY, type Page, pageOf } from '../../inbound/api/paging.js';
import { ref } from '../../inbound/api/schemas.js';
import type { Document, Documents } from '../../state/index.js';

/** One page of the stored records of the caller, or of all callers for administrators. */
export const readPage = async <T>(
  store: Documents<T>,
  { principal, query }: ApiRequest,
): Promise<[Document<T>[], Page]> => {
  const page = pageOf(query);
  const wanted = { after: page.after, limit: page.limit + 1 };
  return [await (isWholeAdmin(principal) ? store.listAll(wanted) : store.listByPrincipal(principal.key, wanted)), page];
};

export const times = ({ createdAt, updatedAt, expiresAt }: Document<unknown>) => ({
  createdAt,
  updatedAt,
  ...(expiresAt !== null && { expiresAt }),
});

export const listOperation = (
  path: string,
  tag: string,
  description: string,
  name: 'Session' | 'Task' | 'ParkedCall',
) =>
  ({
    method: 'GET',
    path,
    access: 'user',
    tag,
    description: `${description}: those of the caller, or all for administrators`,
    query: PAGE_QUERY,
    answer: { description: 'One page', schema: listOf(ref(name)) },
  }) as const;

export const idOf = ({ id }: { id: string }): string => id;
