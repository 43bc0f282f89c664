import { ProtocolError } from '../../protocol/errors.js';
import { type JsonObject, type JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';
import { isObject } from '../../protocol/mcp/model.js';
import { translateItem } from '../../protocol/mcp/translate/list-items.js';
import type { Caller } from '../caller.js';
import type { Catalog, ShownPart } from '../catalog/catalog.js';
import { type Glob, globOf } from '../catalog/glob.js';
import { spellingsOf } from '../catalog/names.js';
import type { Item } from '../catalog/server-list-cache.js';
import type { Call } from '../gateway.js';
import type { ExposureOptions, View } from '../view.js';
import { calledTool, isCallTool } from './call-tool.js';
import { DEFAULT_RESULTS, META_TOOLS, MOST_RESULTS, SEARCH_TOOLS } from './meta-tool-schemas.js';
import { describeFound, type FoundTool, type ToolSearch } from './tool-search.js';

/** `auto` lists every tool up to these limits. Four characters are about one token. */
const MOST_LISTED = 40;
const MOST_LISTED_CHARACTERS = 4 * 10_000;
/** The most servers that an answer names as missing from the search. */
const MOST_MISSING = 20;
const NEAREST = 3;

/**
 * Decides how a view of several servers shows its tools: all tools, or `search_tools` and the pinned tools. This
 * changes the lists, never the permissions of a caller.
 */
export class Exposure {
  private readonly pinned = new WeakMap<ExposureOptions, readonly Glob[]>();
  /** The sizes of lists and of single tools, in characters. */
  private readonly sizes = new WeakMap<Item | readonly Item[], number>();

  constructor(
    private readonly catalog: Catalog,
    private readonly tools: ToolSearch,
    private options: ExposureOptions,
  ) {}

  /**
   * Replaces the options for views without options of their own, and notifies clients that their lists may have
   * changed.
   */
  configure(options: ExposureOptions): void {
    this.options = options;
    this.catalog.visibilityChanged();
  }

  /** Whether `search_tools` and `call_tool` exist for a call. The gateway's own requests see all tools. */
  private applies({ view, whole }: Pick<Call, 'view' | 'whole'>): boolean {
    return this.optionsOf(view).exposure !== 'full' && view.only === undefined && !whole;
  }

  private optionsOf(view: View): ExposureOptions {
    return view.selection.exposure ?? this.options;
  }

  isSearch(call: Call): boolean {
    return this.applies(call) && call.method === 'tools/call' && call.params.get('name') === SEARCH_TOOLS;
  }

  /** For `call_tool`, the call of the tool that it names. Other calls are returned unchanged. */
  unwrapped(call: Call): Call {
    return this.applies(call) && isCallTool(call) ? calledTool(call) : call;
  }

  /** The result of `search_tools`. */
  async search(caller: Caller, { view, params }: Call): Promise<RawObject> {
    const args = params.get('arguments');
    const { query, limit = DEFAULT_RESULTS, server, detail = 'full' } = isObject(args) ? args : {};
    if (typeof query !== 'string' || query.trim() === '')
      return problem('"query" must be a string: one need in plain words');
    if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 1 || limit > MOST_RESULTS) {
      return problem(`"limit" must be a whole number from 1 to ${MOST_RESULTS}`);
    }
    if (server !== undefined && typeof server !== 'string') return problem('"server" must be the name of a server');
    if (detail !== 'brief' && detail !== 'full') return problem('"detail" must be "brief" or "full"');
    const found = await this.tools.find(caller, view, { query, limit, server, followed: true });
    const tools = found.tools.map((tool) => describeFound(tool, detail === 'full'));
    const missing = found.missing.slice(0, MOST_MISSING).map((entry) => entry.server);
    if (tools.length > 0) return answer(JSON.stringify({ tools, ...(missing.length > 0 && { missing }) }));
    const silent =
      missing.length > 0
        ? ` The search does not cover ${missing.join(', ')}, which cannot be listed now; try again.`
        : '';
    return answer(`No tool fits. Describe the need in other words.${silent}`);
  }

  /** Adds the names of the nearest tools to the error of an unknown name. */
  async withNearest(caller: Caller, view: View, name: string, error: ProtocolError): Promise<ProtocolError> {
    if (error.reason !== 'tool_not_found') return error;
    const found: FoundTool[] = await this.tools.search(caller, view, { query: name, limit: NEAREST });
    if (found.length === 0) return error;
    const nearest = found.map((tool) => tool.name);
    const message = `${error.message}. The nearest tools are ${nearest.join(', ')}`;
    return new ProtocolError('tool_not_found', message, { outcome: 'not_executed', data: { name, nearest } });
  }

  /** The tools that a list shows instead of all tools; undefined if the list shows all tools. */
  async list(caller: Caller, call: Call): Promise<RawObject | undefined> {
    if (!this.applies(call)) return undefined;
    const { catalog } = this;
    const { view } = call;
    const { exposure } = this.optionsOf(view);
    const { parts } = await catalog.parts(caller, view, 'tools/list', catalog.setOf(caller, view));
    if (exposure === 'auto' && !this.isLong(parts)) return undefined;
    const clashes = catalog.clashes(view, 'tools/list', parts);
    const pinned = exposure === 'search' ? [] : parts.flatMap((part) => this.pinnedOf(view, parts, part, clashes));
    const tools = [
      ...META_TOOLS,
      ...pinned.map(({ server, item }) => ({
        ...item.value,
        name: catalog.exposed(view, 'tools/list', server, item.key, clashes),
      })),
    ];
    return RawObject.from({
      tools: tools.map((tool) => translateItem('tools/list', tool, caller.revision.expresses)),
      ttlMs: 0,
      cacheScope: 'private',
    });
  }

  private pinnedOf(
    view: View,
    parts: readonly ShownPart[],
    part: ShownPart,
    clashes: ReadonlySet<string>,
  ): { server: string; item: Item }[] {
    const { server, snapshot, hidden } = part;
    const patterns = this.patternsOf(this.optionsOf(view));
    return snapshot.items
      .filter(({ key }) => {
        if (hidden.has(key) || this.catalog.isTaken(view, 'tools/list', parts, part, key, clashes)) return false;
        const spellings = [...spellingsOf(server, key), view.newName(server, key) ?? key];
        return patterns.some((pattern) => spellings.some((spelling) => pattern.test(spelling)));
      })
      .map((item) => ({ server, item }));
  }

  private patternsOf(options: ExposureOptions): readonly Glob[] {
    let patterns = this.pinned.get(options);
    if (!patterns) {
      patterns = options.pinned.map(globOf);
      this.pinned.set(options, patterns);
    }
    return patterns;
  }

  private isLong(parts: readonly ShownPart[]): boolean {
    const count = parts.reduce((sum, { snapshot, hidden }) => sum + snapshot.items.length - hidden.size, 0);
    return count > MOST_LISTED || parts.reduce((sum, part) => sum + this.visibleSize(part), 0) > MOST_LISTED_CHARACTERS;
  }

  /** Hidden tools do not count, because the form of the list would reveal that they exist. */
  private visibleSize({ snapshot: { items, byKey }, hidden }: ShownPart): number {
    let size = this.sizeOf(items);
    for (const key of hidden) size -= this.sizeOf(byKey.get(key)!);
    return size;
  }

  private sizeOf(measured: Item | readonly Item[]): number {
    let size = this.sizes.get(measured);
    if (size === undefined) {
      size = isOne(measured)
        ? JSON.stringify(measured.value).length
        : measured.reduce((sum, item) => sum + this.sizeOf(item), 0);
      this.sizes.set(measured, size);
    }
    return size;
  }
}

const isOne = (measured: Item | readonly Item[]): measured is Item => 'value' in measured;
const content = (text: string): JsonValue => [{ type: 'text', text }];
const answer = (text: string): RawObject => RawObject.from({ content: content(text) } satisfies JsonObject);
/** An error as a tool result, because a model reads the text of a result and corrects its call. */
const problem = (text: string): RawObject =>
  RawObject.from({ content: content(text), isError: true } satisfies JsonObject);
