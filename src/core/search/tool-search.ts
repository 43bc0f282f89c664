import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { Caller } from '../caller.js';
import type { CapabilitySet } from '../catalog/capability-set.js';
import type { Catalog, ShownPart } from '../catalog/catalog.js';
import type { Item } from '../catalog/listing.js';
import type { View } from '../view.js';
import type { SearchDocument } from './document.js';
import { parametersOf } from './parameters.js';
import { SearchIndex } from './search-index.js';

export interface ToolSearchRequest {
  readonly query: string;
  readonly limit: number;
  /** Only tools of this server. */
  readonly server?: string | undefined;
}

/** A tool that fits a need, under the name by which the caller calls it. */
export interface FoundTool {
  readonly name: string;
  readonly server: string;
  readonly score: number;
  readonly item: Item;
}

interface Indexed {
  readonly index: SearchIndex;
  /** The list of each server that the index has. */
  readonly lists: Map<string, readonly Item[]>;
}

/** Clients declare few different capabilities; each set has lists of its own. */
const MOST_SETS = 8;
/** Tools of one server that search covers: a longer list would block the event loop while its index is built. */
const MOST_INDEXED = 10_000;

/** Searches the tools that a caller sees. A server's part of the index is built again when its list changes. */
export class ToolSearch {
  private readonly indexed = new Map<CapabilitySet, Indexed>();

  constructor(private readonly catalog: Catalog) {}

  async search(caller: Caller, view: View, request: ToolSearchRequest): Promise<FoundTool[]> {
    const { catalog } = this;
    const set = catalog.setOf(caller, view);
    const { parts } = await catalog.parts(caller, view, 'tools/list', set);
    const shown = new Map(parts.map((part) => [part.server, part]));
    const index = this.indexFor(set, parts);
    const clashes = catalog.clashes(view, 'tools/list', parts);
    const hits = index.search(request.query, {
      limit: request.limit,
      allowed: ({ server, name }) => {
        const part = shown.get(server);
        if (!part || (request.server !== undefined && server !== request.server)) return false;
        return (
          part.snapshot.byKey.has(name) &&
          !part.hidden.has(name) &&
          !catalog.isTaken(view, 'tools/list', parts, part, name, clashes)
        );
      },
    });
    return hits.map(({ server, name, score }) => ({
      name: catalog.exposed(view, 'tools/list', server, name, clashes),
      server,
      score,
      item: shown.get(server)!.snapshot.byKey.get(name)!,
    }));
  }

  private indexFor(set: CapabilitySet, parts: readonly ShownPart[]): SearchIndex {
    let found = this.indexed.get(set);
    if (!found) {
      if (this.indexed.size >= MOST_SETS) this.indexed.delete(this.indexed.keys().next().value!);
      found = { index: new SearchIndex(), lists: new Map() };
      this.indexed.set(set, found);
    }
    const { index, lists } = found;
    for (const server of lists.keys()) {
      if (this.catalog.has(server)) continue;
      lists.delete(server);
      index.delete(server);
    }
    for (const { server, snapshot } of parts) {
      if (lists.get(server) === snapshot.items) continue;
      lists.set(server, snapshot.items);
      index.set({ name: server }, snapshot.items.slice(0, MOST_INDEXED).map(documentOf));
    }
    return index;
  }
}

function documentOf({ key, value }: Item): SearchDocument {
  const title = text(value['title']);
  const description = text(value['description']);
  return {
    name: key,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    parameters: parametersOf(value['inputSchema']),
  };
}

const text = (value: JsonValue | undefined): string | undefined => (typeof value === 'string' ? value : undefined);

/** A found tool as `search_tools` returns it. */
export function describeFound({ name, server, score, item }: FoundTool, full: boolean): JsonObject {
  const { title, description, inputSchema, annotations } = item.value;
  return {
    name,
    server,
    score: Math.round(score * 1_000) / 1_000,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(annotations !== undefined && { annotations }),
    ...(full && inputSchema !== undefined && { inputSchema }),
  };
}
