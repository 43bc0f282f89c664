import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { Caller } from '../caller.js';
import type { CapabilitySet } from '../catalog/capability-set.js';
import type { Catalog, ShownPart } from '../catalog/catalog.js';
import type { Item } from '../catalog/server-list-cache.js';
import type { Missing } from '../gateway.js';
import type { View } from '../view.js';
import { type ExplainedHit, type Explanation, explain } from './explanation.js';
import { parametersOf } from './parameters.js';
import type { SharedLearning } from './shared-learning.js';
import { termsOf } from './tokenize.js';
import type { LearnedScores, ToolKey } from './tool-key.js';
import { type Hit, LONGEST_QUERY, type SearchOptions, ToolRanking } from './tool-ranking.js';
import type { EmbeddedTool, ToolVectors } from './tool-vectors.js';
import type { SearchDocument, SearchServer } from './weighted-fields.js';

export interface ToolSearchRequest {
  readonly query: string;
  readonly limit: number;
  /** If present, the search finds only tools of this server. */
  readonly server?: string | undefined;
  /** Whether the results go to a caller that may call a found tool. If so, search learns from that call. */
  readonly followed?: boolean;
}

/** A tool that fits a need, under the name by which the caller calls it. */
export interface FoundTool {
  readonly name: string;
  readonly server: string;
  readonly score: number;
  readonly item: Item;
  /** The names of tools with nearly the same text and a lower score, such as those of another account. */
  readonly alike: readonly string[];
}

interface Indexed {
  readonly index: ToolRanking;
  /** The list of each server that the index has, and what the server says about itself. */
  readonly lists: Map<string, { readonly items: readonly Item[]; readonly about: string }>;
}

/** The most indexes, one per capability set. Clients declare few different sets. */
const MOST_SETS = 8;
/** The most tools of one server that search covers. Building the index of a longer list would block the event loop. */
const MOST_INDEXED = 10_000;

/** Searches the tools that a caller sees. A server's part of the index is built again when its list changes. */
export class ToolSearch {
  private readonly indexed = new Map<CapabilitySet, Indexed>();

  private latest: ToolRanking | undefined;

  constructor(
    private readonly catalog: Catalog,
    private readonly learning?: SharedLearning,
    private readonly vectors?: ToolVectors,
  ) {}

  /** The index of the last search. */
  get index(): ToolRanking | undefined {
    return this.latest;
  }

  async search(caller: Caller, view: View, request: ToolSearchRequest): Promise<FoundTool[]> {
    return (await this.find(caller, view, request)).tools;
  }

  /** The tools that fit a need, and the servers that the search does not cover because they have not answered. */
  async find(
    caller: Caller,
    view: View,
    request: ToolSearchRequest,
  ): Promise<{ readonly tools: FoundTool[]; readonly missing: readonly Missing[] }> {
    const { index, options, found, missing } = await this.prepared(caller, view, request);
    return { tools: this.ranked(caller, index(), request, options).map(found), missing };
  }

  /** Explains why a search ranks the tools of a view in this order. `learned` counts as if learning were on. */
  async explain(
    caller: Caller,
    view: View,
    request: ToolSearchRequest,
    learned: LearnedScores | undefined,
  ): Promise<Omit<Explanation, 'hits'> & { readonly hits: readonly (ExplainedHit & FoundTool)[] }> {
    const { index, options, found } = await this.prepared(caller, view, request);
    const { hits, ...more } = explain(index(), request.query, { ...options, learned });
    return { ...more, hits: hits.map((hit) => ({ ...hit, ...found(hit) })) };
  }

  /**
   * Prepares a search of the tools that a caller sees in a view. `index` must be called right before the search,
   * because all callers share the index, and a server with an account per caller has other tools for each caller.
   */
  private async prepared(
    caller: Caller,
    view: View,
    request: ToolSearchRequest,
  ): Promise<{
    index: () => ToolRanking;
    options: SearchOptions;
    found: (hit: Hit) => FoundTool;
    missing: readonly Missing[];
  }> {
    const { catalog } = this;
    const set = catalog.setOf(caller, view);
    const { parts, missing } = await catalog.parts(caller, view, 'tools/list', set);
    const shown = new Map(parts.map((part) => [part.server, part]));
    const clashes = catalog.clashes(view, 'tools/list', parts);
    const allowed = ({ server, name }: ToolKey): boolean => {
      const part = shown.get(server);
      if (!part || (request.server !== undefined && server !== request.server)) return false;
      return (
        part.snapshot.byKey.has(name) &&
        !part.hidden.has(name) &&
        !catalog.isTaken(view, 'tools/list', parts, part, name, clashes)
      );
    };
    const similar = await this.vectors?.similarities(request.query, toolsIn(parts, allowed));
    const exposed = (server: string, name: string): string =>
      catalog.exposed(view, 'tools/list', server, name, clashes);
    return {
      index: () => this.indexFor(set, parts),
      options: { limit: request.limit, visible: { hiddenOf: (server) => shown.get(server)?.hidden }, allowed, similar },
      found: ({ server, name, score, duplicates }) => ({
        name: exposed(server, name),
        server,
        score,
        item: shown.get(server)!.snapshot.byKey.get(name)!,
        alike: duplicates.map((other) => exposed(other.server, other.name)),
      }),
      missing: missing.filter(({ server }) => request.server === undefined || server === request.server),
    };
  }

  /** The hits in the order in which the caller gets them. If learning is on, learned suggestions affect this order. */
  private ranked(caller: Caller, index: ToolRanking, request: ToolSearchRequest, options: SearchOptions): Hit[] {
    const { learning } = this;
    const { query } = request;
    const { principal } = caller;
    this.latest = index;
    const plain = index.search(query, options);
    if (!learning) return plain;
    const scores = learning.for(principal);
    const learned = scores && index.search(query, { ...options, learned: scores });
    const shown = learning.mode === 'on' ? (learned ?? plain) : plain;
    if (request.followed === true && learning.active) {
      const keys = (hits: readonly Hit[]): ToolKey[] => hits.map(({ server, name }) => ({ server, name }));
      learning.searched(principal, {
        text: query,
        terms: termsOf(query.slice(0, LONGEST_QUERY)),
        shown: keys(shown),
        plain: keys(plain),
        learned: learned && keys(learned),
      });
    }
    return shown;
  }

  private indexFor(set: CapabilitySet, parts: readonly ShownPart[]): ToolRanking {
    let found = this.indexed.get(set);
    if (!found) {
      if (this.indexed.size >= MOST_SETS) this.indexed.delete(this.indexed.keys().next().value!);
      found = { index: new ToolRanking(), lists: new Map() };
      this.indexed.set(set, found);
    }
    const { index, lists } = found;
    for (const server of lists.keys()) {
      if (this.catalog.has(server)) continue;
      lists.delete(server);
      index.delete(server);
    }
    for (const part of parts) {
      const { items } = part.snapshot;
      const server = serverOf(part);
      const about = JSON.stringify(server);
      const known = lists.get(part.server);
      if (known?.items === items && known.about === about) continue;
      lists.set(part.server, { items, about });
      index.set(server, items.slice(0, MOST_INDEXED).map(documentOf));
    }
    return index;
  }
}

/** The tools of some parts that pass a test. */
const toolsIn = (parts: readonly ShownPart[], allowed: (tool: ToolKey) => boolean): EmbeddedTool[] =>
  parts.flatMap((part) => {
    const { server, snapshot } = part;
    const { title = server } = serverOf(part);
    return snapshot.items.map((item) => ({ server, name: item.key, item, about: title })).filter(allowed);
  });

/** The number of characters that are read of a server's description of itself. */
const LONGEST_ABOUT = 1_000;

/** The server as search reads it: its configured name, the name that the server gives itself, and its description. */
function serverOf({ server, info, trust }: ShownPart): SearchServer {
  const own = text(info?.['title']) ?? text(info?.name);
  const description = text(info?.['description']);
  return {
    name: server,
    title: own === undefined || own === server ? server : `${server} ${own.slice(0, LONGEST_ABOUT)}`,
    ...(description !== undefined && { description: description.slice(0, LONGEST_ABOUT) }),
    trust,
  };
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

const text = (value: JsonValue | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

/** A found tool as `search_tools` returns it. */
export function describeFound({ name, server, score, item, alike }: FoundTool, full: boolean): JsonObject {
  const { title, description, inputSchema, annotations } = item.value;
  return {
    name,
    server,
    score: Math.round(score * 1_000) / 1_000,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(annotations !== undefined && { annotations }),
    ...(full && inputSchema !== undefined && { inputSchema }),
    ...(alike.length > 0 && { alike: [...alike] }),
  };
}
