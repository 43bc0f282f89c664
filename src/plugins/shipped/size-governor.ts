/** Turns large results of tools into links to short-lived resources, with a preview. */
import type { JsonObject, JsonValue, ListDecision, ListItem, Plugin, PluginCall, PluginResponse } from '../api.js';
import { type KeptResults, type Origin, RESULT_SCHEME } from './kept-results.js';

export interface SizeGovernorOptions {
  /** Results up to this size pass unchanged, in bytes. */
  readonly limit: number;
  /** Characters of text that stay in the result. */
  readonly preview: number;
  readonly results: KeptResults;
}

/** Links of one result. Further blocks share one resource. */
const MOST_LINKS = 16;

export function sizeGovernor({ limit, preview, results }: SizeGovernorOptions): Plugin {
  const governed = ({ protocol, method }: PluginCall): boolean => protocol === 'mcp' && method === 'tools/call';
  return {
    apiVersion: 1,
    resourceScheme: RESULT_SCHEME,
    onRequest: async (call) => {
      if (call.method !== 'resources/read') return undefined;
      const uri = String(call.params['uri']);
      if (!uri.startsWith(`${RESULT_SCHEME}:`)) return undefined;
      const kept = await results.read(call.caller.key, uri);
      if (!kept || !(await mayRead(call, kept.origin))) return undefined;
      return { reply: { contents: [{ uri, ...kept.contents }] } };
    },
    onResponse: (call: PluginCall, response: PluginResponse) => {
      if (!governed(call) || response.size <= limit) return undefined;
      const { server = '', name = '', caller } = call;
      const origin = { server, tool: name, scopes: caller.scopes };
      return { result: shortened(response.result, limit, preview, (part) => results.keep(caller.key, origin, part)) };
    },
    // A shortened result has no structured content, so the tool cannot promise any.
    onList: (call: PluginCall, items: readonly ListItem[]): ListDecision | undefined => {
      if (call.method !== 'tools/list' || !items.some(({ item }) => item['outputSchema'] !== undefined))
        return undefined;
      return {
        items: items.map((each) => {
          const { outputSchema: _, ...item } = each.item;
          return { ...each, item };
        }),
      };
    },
    close: () => results.close(),
  };
}

/**
 * Whether this credential of the caller may have the result: it sees the tool, and has the scopes of the credential that
 * called the tool.
 */
async function mayRead(call: PluginCall, { server, tool, scopes }: Origin): Promise<boolean> {
  if (!scopes.every((scope) => call.caller.scopes.includes(scope))) return false;
  return (await call.sees?.(server, tool)) ?? true;
}

/** Keeps the contents of a resource and returns its URI, if there is room. */
type Keep = (contents: JsonObject) => string | undefined;

function shortened(result: JsonObject, limit: number, preview: number, keep: Keep): JsonObject {
  const { content, structuredContent, _meta, ...rest } = result;
  let room = limit;
  const fits = (value: JsonValue): boolean => {
    const size = Buffer.byteLength(JSON.stringify(value));
    if (size > room) return false;
    room -= size;
    return true;
  };
  const shown: JsonValue[] = [];
  const texts: string[] = [];
  const others: JsonObject[] = [];
  for (const block of Array.isArray(content) ? (content as JsonObject[]) : []) {
    if (fits(block)) shown.push(block);
    else if (block['type'] === 'text' && typeof block['text'] === 'string') texts.push(block['text']);
    else others.push(block);
  }
  if (texts.length > 0) shown.push(...linked({ mimeType: 'text/plain', text: texts.join('\n') }, preview, keep));
  for (const block of others.slice(0, MOST_LINKS)) shown.push(...linked(contentsOf(block), 0, keep));
  const left = others.slice(MOST_LINKS);
  if (left.length > 0) shown.push(...linked(asJson(left), 0, keep));
  const keepsStructure = structuredContent === undefined || fits(structuredContent);
  if (!keepsStructure) shown.push(...linked(asJson(structuredContent), texts.length > 0 ? 0 : preview, keep));
  return {
    ...rest,
    content: shown,
    ...(keepsStructure && structuredContent !== undefined && { structuredContent }),
    ...(_meta !== undefined && fits(_meta) && { _meta }),
  };
}

const asJson = (value: JsonValue): JsonObject => ({ mimeType: 'application/json', text: JSON.stringify(value) });

/** A block as the contents of a resource. */
function contentsOf(block: JsonObject): JsonObject {
  const { type, data, mimeType, resource } = block;
  if ((type === 'image' || type === 'audio') && typeof data === 'string')
    return { mimeType: typeof mimeType === 'string' ? mimeType : 'application/octet-stream', blob: data };
  if (type === 'resource' && typeof resource === 'object' && resource !== null && !Array.isArray(resource)) {
    const { uri: _, ...contents } = resource;
    if (typeof contents['text'] === 'string' || typeof contents['blob'] === 'string') return contents;
  }
  return asJson(block);
}

/** The preview of a part and its link. */
function linked(contents: JsonObject, preview: number, keep: Keep): JsonObject[] {
  const text = typeof contents['text'] === 'string' ? contents['text'] : undefined;
  const size = text === undefined ? Math.floor((String(contents['blob']).length * 3) / 4) : Buffer.byteLength(text);
  const uri = keep(contents);
  const start = text !== undefined && preview > 0 ? `${cut(text, preview)}\n\n` : '';
  const told =
    uri === undefined
      ? `[${size} bytes were left out, because the gateway has no room to keep them. Ask for less.]`
      : `[${size} bytes were left out. Read the resource below for all of them, or ask for less.]`;
  const note: JsonObject = { type: 'text', text: `${start}${told}` };
  if (uri === undefined) return [note];
  const { mimeType } = contents;
  const link: JsonObject = { type: 'resource_link', uri, name: 'Whole result', size, ...(mimeType && { mimeType }) };
  return [note, link];
}

/** The start of a text, without half of a surrogate pair. */
const cut = (text: string, most: number): string => text.slice(0, most).replace(/[\ud800-\udbff]$/, '');
