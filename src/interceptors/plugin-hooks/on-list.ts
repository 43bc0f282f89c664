/** Passes the lists that clients read through plugins. */

import type { McpContext, McpResult } from '../../core/call.js';
import { complete, type ListByServer } from '../../core/gateway.js';
import type { ActivePlugin } from '../../plugins/active-plugin.js';
import type { ListItem } from '../../plugins/api.js';
import type { CallView } from '../../plugins/call-view.js';
import { listDecision } from '../../plugins/hook-answers.js';
import { isObject, type JsonObject } from '../../protocol/jsonrpc/raw.js';
import { isListMethod, LIST_MEMBER, type ListMethod } from '../../protocol/mcp/model.js';

/** The server of an item in a merged list, and the server's own name of the item. */
export type OwnerOf = (
  context: McpContext,
  method: 'tools/list' | 'prompts/list',
  name: string,
) => { readonly server: string; readonly name: string } | undefined;

/** The member that identifies an item. */
const IDENTITY: Readonly<Record<ListMethod, string>> = {
  'tools/list': 'name',
  'prompts/list': 'name',
  'resources/list': 'uri',
  'resources/templates/list': 'uriTemplate',
};

/** The list after all plugins; the same result if none changed it. */
export async function passedList(
  plugins: readonly ActivePlugin[],
  view: CallView,
  context: McpContext,
  result: McpResult,
  ownerOf: OwnerOf,
): Promise<McpResult> {
  const { method } = context;
  if (!isListMethod(method)) return result;
  const key = IDENTITY[method];
  if (result.kind === 'value') {
    const { lists, missing } = result.value as ListByServer;
    const changed = await Promise.all(
      lists.map(async ({ server, items }) => {
        const given = items.map((item) => ({ server, name: String(item[key]), item }));
        return { server, items: (await passedItems(plugins, view, given, key)).map(({ item }) => item) };
      }),
    );
    return { kind: 'value', value: { lists: changed, missing } satisfies ListByServer };
  }
  if (result.kind !== 'complete') return result;
  const member = LIST_MEMBER[method];
  const listed = result.result.get(member);
  if (!Array.isArray(listed)) return result;
  const given = listed.filter(isObject).map((item): ListItem => {
    const name = String(item[key]);
    const named = method === 'tools/list' || method === 'prompts/list';
    const owner = named ? ownerOf(context, method, name) : undefined;
    return { server: owner?.server ?? context.call.view.only, name: owner?.name ?? name, item };
  });
  const shown = await passedItems(plugins, view, given, key);
  if (shown === given) return result;
  return complete(result.result.edit({ [member]: JSON.stringify(shown.map(({ item }) => item)) }));
}

/** The items after all plugins; the same array if none changed it. Each plugin sees the items of its scope only. */
export async function passedItems(
  plugins: readonly ActivePlugin[],
  view: CallView,
  items: readonly ListItem[],
  key: string,
): Promise<readonly ListItem[]> {
  const isTool = view.context.method === 'tools/list';
  let current = items;
  for (const each of plugins) {
    const seen = current.filter(({ server, name }) => each.scope.coversItem(server, name, isTool));
    if (seen.length === 0) continue;
    const decided = await each.run(
      'onList',
      view,
      (call) => each.plugin.onList?.(call, seen.map(copied)),
      (answer) => listDecision(answer, seen, key),
    );
    if (decided) current = merged(current, new Set(seen), decided);
  }
  return current;
}

/** Puts the items that the plugin returned at the positions of the items that the plugin saw. */
function merged(
  all: readonly ListItem[],
  seen: ReadonlySet<ListItem>,
  decided: readonly ListItem[],
): readonly ListItem[] {
  const rest = [...decided];
  const shown = all.flatMap((each) => {
    if (!seen.has(each)) return [each];
    const next = rest.shift();
    return next ? [next] : [];
  });
  return shown;
}

const copied = ({ server, name, item }: ListItem): ListItem => ({
  server,
  name,
  item: JSON.parse(JSON.stringify(item)) as JsonObject,
});
