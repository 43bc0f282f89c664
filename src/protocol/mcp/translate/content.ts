import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { isObject } from '../model.js';
import type { Expresses } from '../revisions/index.js';
import { translateAnnotations } from './list-items.js';

/** A content block in the form of an older revision. A block that the revision lacks becomes its closest equivalent. */
export function translateBlock(block: JsonValue, to: Expresses): JsonValue {
  if (!isObject(block)) return block;
  const type = block['type'];
  if (type === 'audio' && !to.audio) return audioAsResource(block);
  if (type === 'resource_link' && !to.resourceLinks) return linkAsText(block);
  const out: JsonObject = { ...block };
  if (!to.itemMeta) delete out['_meta'];
  translateAnnotations(out, to);
  if (type === 'resource' && isObject(out['resource'])) out['resource'] = translateContents(out['resource'], to);
  if (type === 'resource_link') {
    if (!to.icons) delete out['icons'];
    if (!to.titles) delete out['title'];
  }
  return out;
}

/** The contents of a resource, in `resources/read` results and embedded resources. */
export function translateContents(contents: JsonValue, to: Expresses): JsonValue {
  if (to.itemMeta || !isObject(contents)) return contents;
  const { _meta: _, ...rest } = contents;
  return rest;
}

function audioAsResource(block: JsonObject): JsonObject {
  const mimeType = typeof block['mimeType'] === 'string' ? block['mimeType'] : 'application/octet-stream';
  return { type: 'resource', resource: { uri: 'attachment:audio', mimeType, blob: block['data'] } };
}

function linkAsText(block: JsonObject): JsonObject {
  const label = [block['title'], block['name']].find((part) => typeof part === 'string');
  const description = typeof block['description'] === 'string' ? `: ${block['description']}` : '';
  return { type: 'text', text: `${label === undefined ? '' : `${label} `}<${String(block['uri'])}>${description}` };
}
