/** Rewrites the titles and descriptions of tools in lists. */
import { type Glob, globOf } from '../../core/catalog/glob.js';
import type { JsonObject, ListDecision, ListItem, Plugin, PluginCall } from '../api.js';

export interface DescriptionRule {
  /** A pattern of tools, by their own name or as `server__tool`. */
  readonly tool: string;
  readonly title?: string | undefined;
  /** Replaces the description. */
  readonly description?: string | undefined;
  /** Text before and after the description. */
  readonly before?: string | undefined;
  readonly after?: string | undefined;
}

/** The first rule that matches a tool applies. */
export function descriptions(rules: readonly DescriptionRule[]): Plugin {
  const known = rules.map((rule) => ({ rule, glob: globOf(rule.tool) }));
  return {
    apiVersion: 1,
    onList: (call: PluginCall, items: readonly ListItem[]): ListDecision | undefined => {
      if (call.method !== 'tools/list') return undefined;
      return {
        items: items.map((each) => {
          const found = known.find(({ glob }) => matches(glob, each));
          return found ? { ...each, item: rewritten(each.item, found.rule) } : each;
        }),
      };
    },
  };
}

const matches = (glob: Glob, { server, name }: ListItem): boolean =>
  glob.test(name) || (server !== undefined && glob.test(`${server}__${name}`));

function rewritten(item: JsonObject, { title, description, before, after }: DescriptionRule): JsonObject {
  const given = description ?? (typeof item['description'] === 'string' ? item['description'] : '');
  const text = [before, given, after].filter((part) => part !== undefined && part !== '').join('\n');
  return { ...item, ...(title !== undefined && { title }), ...(text !== '' && { description: text }) };
}
