/** The parts of a definition that a model reads, and their hash (S21). */
import { createHash } from 'node:crypto';
import { canonicalJson } from '../../protocol/a2a/canonical-card.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { ListMethod } from '../../protocol/mcp/model.js';

/** The kinds of pinned items. `instructions` is the text with which a server introduces itself. */
export type PinKind = 'tool' | 'prompt' | 'template' | 'instructions';

export const PIN_KIND: Readonly<Partial<Record<ListMethod, PinKind>>> = {
  'tools/list': 'tool',
  'prompts/list': 'prompt',
  'resources/templates/list': 'template',
};

/**
 * Icons, `_meta` and members of later revisions are not part of the hash, because they can change while the meaning of
 * the item stays the same.
 */
const PARTS: Readonly<Record<PinKind, readonly string[]>> = {
  tool: ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations'],
  prompt: ['name', 'title', 'description', 'arguments'],
  template: ['uriTemplate', 'name', 'title', 'description', 'mimeType'],
  instructions: ['instructions'],
};

/** The member that identifies the item, which a rename changes. */
const IDENTITY: Readonly<Record<PinKind, string>> = {
  tool: 'name',
  prompt: 'name',
  template: 'uriTemplate',
  instructions: '',
};

export interface Definition {
  /** SHA-256 of the canonical JSON (RFC 8785) of the parts, in hexadecimal digits. */
  readonly hash: string;
  /**
   * The hash of the parts without the name, to recognise a renamed item. Empty if the other parts are too short to
   * recognise an item.
   */
  readonly body: string;
  /** The canonical JSON of the parts. */
  readonly text: string;
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

const known = new WeakMap<JsonObject, Definition>();

/** The definition of an item, computed once for each object. */
export function definitionOf(kind: PinKind, value: JsonObject): Definition {
  let found = known.get(value);
  if (!found) {
    found = define(kind, value);
    known.set(value, found);
  }
  return found;
}

function define(kind: PinKind, value: JsonObject): Definition {
  const parts = partsOf(kind, value);
  const { [IDENTITY[kind]]: _, ...rest } = parts;
  const text = canonicalJson(parts);
  const described = typeof value['description'] === 'string' && value['description'].trim() !== '';
  return { hash: sha256(text), body: described ? sha256(`${kind} ${canonicalJson(rest)}`) : '', text };
}

/** The parts that a model reads. */
export function partsOf(kind: PinKind, value: JsonObject): Record<string, JsonValue> {
  const parts: Record<string, JsonValue> = {};
  for (const part of PARTS[kind]) {
    const member = value[part];
    if (member !== undefined) parts[part] = member;
  }
  return parts;
}
