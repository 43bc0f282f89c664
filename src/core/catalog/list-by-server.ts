import type { ListMethod } from '../../protocol/mcp/model.js';
import { translateItem } from '../../protocol/mcp/translate/list-items.js';
import type { Caller } from '../caller.js';
import type { ListByServer } from '../gateway.js';
import type { View } from '../view.js';
import type { Catalog } from './catalog.js';

/** A list by server, with the items that the caller sees. Tools and prompts have the names of their own server. */
export async function listByServer(
  catalog: Catalog,
  caller: Caller,
  view: View,
  method: ListMethod,
): Promise<ListByServer> {
  const { parts, missing } = await catalog.parts(caller, view, method, catalog.setOf(caller, view));
  const named = method === 'tools/list' || method === 'prompts/list';
  const lists = parts.map(({ server, snapshot, hidden }) => ({
    server,
    items: snapshot.items
      .filter(({ key }) => !hidden.has(key))
      .map(({ key, value }) => {
        const item = translateItem(method, value, caller.revision.expresses);
        return named ? { ...item, name: key } : item;
      }),
  }));
  return { lists, missing };
}
