import { isDeepStrictEqual } from 'node:util';
import { type Document, isMap, isScalar, parseDocument, YAMLMap } from 'yaml';
import { setJsonMember } from '../json-edit.js';
import type { ImportedEntry } from './entries.js';

/**
 * What the import did with an entry: wrote it, or left it out because the file already has an entry of this name, with
 * the same or with other settings.
 */
export interface MergedEntry {
  readonly entry: ImportedEntry;
  readonly state: 'added' | 'replaced' | 'same' | 'taken';
}

export interface Merged {
  readonly text: string;
  readonly entries: readonly MergedEntry[];
}

/**
 * Adds entries to the text of a configuration file, whose comments stay. An entry whose name the file already has is
 * written only with `replace`; of several entries with the same name, the first is written.
 */
export function mergeEntries(
  text: string,
  format: 'yaml' | 'json',
  entries: readonly ImportedEntry[],
  replace: boolean,
): Merged {
  const document = parseDocument(text, { keepSourceTokens: true });
  if (document.errors.length > 0)
    throw new Error(`the file has a syntax error: ${document.errors[0]?.message.split('\n')[0]}`);
  if (document.contents === null) document.contents = new YAMLMap() as Document.Parsed['contents'];
  if (!isMap(document.contents)) throw new Error('the file is not a map of keys and values');
  const done: MergedEntry[] = [];
  const seen = new Set<string>();
  let json = text.trim() === '' ? '{}\n' : text;
  for (const entry of entries) {
    const { name, settings } = entry;
    const id = `${entry.section}.${name}`;
    const first = !seen.has(id);
    seen.add(id);
    const section = sectionOf(document, entry);
    const existing = nameIn(document, section, name);
    const before = existing === undefined ? undefined : (document.getIn([section, existing], true) as unknown);
    if (before !== undefined && isDeepStrictEqual(plainOf(before), settings)) {
      done.push({ entry, state: 'same' });
      continue;
    }
    if (before !== undefined && !(replace && first)) {
      done.push({ entry, state: 'taken' });
      continue;
    }
    put(document, section, existing ?? name, settings);
    if (format === 'json') json = setJsonMember(json, [section, existing ?? name], settings);
    done.push({ entry, state: before === undefined ? 'added' : 'replaced' });
  }
  const changed = done.some(({ state }) => state === 'added' || state === 'replaced');
  if (!changed) return { text, entries: done };
  return { text: format === 'json' ? json : document.toString({ lineWidth: 0 }), entries: done };
}

function put(document: Document, section: string, name: string, settings: object): void {
  const map = document.get(section, true);
  if (!isMap(map)) {
    // The section is not a map here. It may be an alias of a map that is written elsewhere and that other keys use too.
    if (!isEmpty(map))
      throw new Error(
        `${section} in the configuration is not written as a map of names; add the ${kindOf(section)} by hand`,
      );
    document.set(section, document.createNode({}));
  }
  const node = document.get(section, true);
  // `servers: {}` becomes a block, so that each server has its own lines.
  if (isMap(node) && node.items.length === 0) node.flow = false;
  document.setIn([section, name], document.createNode(settings));
}

const isEmpty = (node: unknown): boolean =>
  node === undefined || node === null || (isScalar(node) && node.value === null);

const kindOf = (section: string): string => (section === 'agents' ? 'agents' : 'servers');

/** The keys that the loader reads as servers. */
const SERVER_SECTIONS = ['servers', 'mcpServers', 'mcp_servers'] as const;

/**
 * The section for an entry. Of several sections of servers, the section that has the entry is chosen, otherwise the
 * first.
 */
function sectionOf(document: Document, { section, name }: ImportedEntry): string {
  if (section !== 'servers') return section;
  const present = SERVER_SECTIONS.filter((key) => document.has(key));
  return present.find((key) => nameIn(document, key, name) !== undefined) ?? present[0] ?? section;
}

/** The name as the file writes it; case does not matter. */
function nameIn(document: Document, section: string, name: string): string | undefined {
  const map = document.get(section, true);
  if (!isMap(map)) return undefined;
  return map.items
    .map(({ key }) => String((key as { value?: unknown }).value ?? key))
    .find((key) => key.toLowerCase() === name);
}

function plainOf(node: unknown): unknown {
  return typeof node === 'object' && node !== null && 'toJSON' in node
    ? (node as { toJSON(): unknown }).toJSON()
    : node;
}
