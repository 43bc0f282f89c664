import { joined, type Piece, textOf } from '../../jsonrpc/json-pieces.js';
import { type Edits, type JsonObject, type JsonValue, RawObject } from '../../jsonrpc/raw.js';
import { type Implementation, isObject, META } from '../model.js';
import type { Expresses, Revision } from '../revisions/index.js';
import { translateBlock, translateContents } from './content.js';

/**
 * Words that show features which a revision may lack. A result without these words needs no inspection. Each word
 * begins with a byte that is rare in texts, because the search stops at every such byte. If a word is only the end of
 * another name, the result is inspected without need. Icons are members of resource links.
 */
const LACKING: readonly (readonly [word: Buffer, lacks: (to: Expresses) => boolean])[] = [
  [Buffer.from('"audio"'), (to) => !to.audio],
  [Buffer.from('_link"'), (to) => !to.resourceLinks || !to.titles || !to.icons],
  [Buffer.from('_meta"'), (to) => !to.itemMeta],
  [Buffer.from('Modified"'), (to) => !to.lastModified],
];

/**
 * The edits that translate a complete result to the client's revision. Depending on the upstream's revision, results
 * come with or without the modern envelope members.
 */
export function encodeResult(method: string, result: RawObject, to: Revision, gateway: Implementation): Piece[] {
  return to.era === 'modern' ? encodeModern(method, result, gateway) : encodeLegacy(method, result, to);
}

function encodeModern(method: string, result: RawObject, gateway: Implementation): Piece[] {
  const edits: Record<string, string | Buffer | undefined> = {
    _meta: metaWith(result, textOf(gateway)),
  };
  if (!result.has('resultType')) edits['resultType'] = '"complete"';
  if (method === 'resources/read') {
    if (!result.has('ttlMs')) edits['ttlMs'] = '0';
    if (!result.has('cacheScope')) edits['cacheScope'] = '"private"';
  }
  return result.edit(edits).pieces();
}

/** The result's `_meta`, with this hop's `serverInfo` instead of the upstream's (META-07, GW-08). */
function metaWith(result: RawObject, serverInfo: string): string | Buffer {
  const meta = result.object('_meta');
  if (!meta || meta.hasOnly(META.serverInfo)) return `{"${META.serverInfo}":${serverInfo}}`;
  return joined(meta.edit({ [META.serverInfo]: serverInfo, [META.relatedTask]: undefined }).pieces());
}

function encodeLegacy(method: string, result: RawObject, to: Revision): Piece[] {
  const edits: Record<string, string | Buffer | undefined> = {};
  for (const member of ['resultType', 'ttlMs', 'cacheScope']) if (result.has(member)) edits[member] = undefined;
  const meta = result.object('_meta');
  if (meta?.has(META.serverInfo)) {
    const rest = meta.edit({ [META.serverInfo]: undefined });
    edits['_meta'] = rest.isEmpty ? undefined : rest.bytes();
  }
  Object.assign(edits, projectMembers(method, result, to.expresses));
  return result.edit(edits).pieces();
}

function projectMembers(method: string, result: RawObject, to: Expresses): Edits {
  switch (method) {
    case 'tools/call':
      return projectToolResult(result, to);
    case 'prompts/get':
      return projectList(result, 'messages', to, (message) =>
        isObject(message) ? { ...message, content: translateBlock(message['content'] ?? null, to) } : message,
      );
    case 'resources/read':
      return projectList(result, 'contents', to, (contents) => translateContents(contents, to));
    default:
      return {};
  }
}

function projectToolResult(result: RawObject, to: Expresses): Edits {
  const edits: Record<string, string | Buffer | undefined> = projectList(result, 'content', to, (block) =>
    translateBlock(block, to),
  );
  const structured = result.has('structuredContent');
  if (
    structured &&
    to.structuredOutput !== 'any' &&
    (to.structuredOutput === 'none' || !result.startsWith('structuredContent', '{'))
  ) {
    edits['structuredContent'] = undefined;
    // Structured output that the reader's revision lacks becomes text, unless the server already sent text (TOOL-07).
    const content = result.raw('content');
    if (!content || /^\[\s*\]$/.test(content.toString('latin1', 0, 16))) {
      edits['content'] = JSON.stringify([{ type: 'text', text: result.raw('structuredContent')!.toString('utf8') }]);
    }
  }
  return edits;
}

function projectList(
  result: RawObject,
  member: string,
  to: Expresses,
  project: (item: JsonValue) => JsonValue,
): Record<string, string | Buffer | undefined> {
  if (!LACKING.some(([word, lacks]) => lacks(to) && result.mentions(member, word))) return {};
  const items = result.get(member);
  return Array.isArray(items) ? { [member]: JSON.stringify(items.map(project)) } : {};
}

/** The `resultType` of a result. A result without this member is complete (BASE-12). */
export function resultType(result: RawObject): string {
  if (result.is('resultType', '"complete"')) return 'complete';
  const type = result.get('resultType');
  return typeof type === 'string' ? type : 'complete';
}

/** A value created by the gateway as a result, to be encoded like any other. */
export const resultOf = (value: JsonObject): RawObject => RawObject.from(value);
