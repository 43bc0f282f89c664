import type { Principal } from '../../core/caller.js';
import { isWholeAdmin } from '../../core/whole-admin.js';
import type { Operation } from '../../inbound/api/operation.js';
import { listOf, PAGE_QUERY, paged, pageOf } from '../../inbound/api/paging.js';
import { ref } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';
import { isObject } from '../../protocol/jsonrpc/raw.js';

export interface ViewsOptions {
  /** The names of the configured views. */
  names(): readonly string[];
  /** Whether the caller may know that the view exists. */
  sees(principal: Principal, name: string): boolean | Promise<boolean>;
  /** The settings of a view in the form of the configuration file. */
  settings(name: string): unknown;
  /** The servers that the view has now. */
  servers(name: string): readonly string[];
}

/**
 * The views. Callers read the views that they may use. Administrators also read the settings, which are in the
 * configuration file.
 */
export function viewOperations({ names, sees, settings, servers }: ViewsOptions): Operation[] {
  const common = { tag: 'Views', access: 'user' } as const;
  const shown = (principal: Principal, name: string): object => {
    const own = isWholeAdmin(principal) ? settings(name) : undefined;
    return { name, path: `/mcp/${name}`, ...(isObject(own) && { servers: servers(name), settings: own }) };
  };
  const may = async (principal: Principal, name: string): Promise<boolean> =>
    isWholeAdmin(principal) || (await sees(principal, name));
  return [
    {
      ...common,
      method: 'GET',
      path: '/api/v1/views',
      description: 'The views that the caller may use',
      query: PAGE_QUERY,
      answer: { description: 'One page', schema: listOf(ref('View')) },
      run: async ({ principal, query }) => {
        const allowed = await Promise.all(names().map(async (name) => ((await may(principal, name)) ? [name] : [])));
        const page = paged(allowed.flat(), pageOf(query), (name) => name);
        return { body: { ...page, items: page.items.map((name) => shown(principal, name)) } };
      },
    },
    {
      ...common,
      method: 'GET',
      path: '/api/v1/views/{name}',
      description: 'One of the views that the caller may use',
      answer: { description: 'The view, for administrators with its settings', schema: ref('View') },
      errors: [404],
      run: async ({ principal, params }) => {
        const name = params['name']!.toLowerCase();
        if (!names().includes(name) || !(await may(principal, name)))
          throw new ProtocolError('not_found', `There is no view ${JSON.stringify(name)}`);
        return { body: shown(principal, name) };
      },
    },
  ];
}
