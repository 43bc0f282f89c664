import { ProtocolError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { LIST_MEMBER, type ListMethod } from '../../protocol/mcp/model.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { translateItem } from '../../protocol/mcp/translate/list-items.js';
import type { Caller } from '../caller.js';
import type { Missing } from '../gateway.js';
import { type Seal, SealBroken } from '../seal.js';
import type { View } from '../view.js';
import type { Catalog, ShownPart } from './catalog.js';
import type { Item } from './server-list-cache.js';

const CURSOR_TTL = 60 * 60 * 1000;

/**
 * The end of a page. The next page begins after this item of this server, or at this index if the item no longer
 * exists.
 */
interface Position {
  readonly method: string;
  readonly view: string;
  readonly server: string;
  readonly key: string;
  readonly index: number;
}

/** Pages of the lists of many servers. Each item is serialized once per revision and reused until its list changes. */
export class Pages {
  private readonly written = new WeakMap<readonly Item[], Map<string, Buffer[]>>();

  constructor(
    private readonly catalog: Catalog,
    private readonly seal: Seal,
    private readonly pageSize: number,
  ) {}

  /** `whole` returns all items at once, for the gateway's own requests. */
  async page(
    caller: Caller,
    view: View,
    method: ListMethod,
    cursor: string | undefined,
    whole = false,
  ): Promise<RawObject> {
    const size = whole ? Number.POSITIVE_INFINITY : this.pageSize;
    const after = cursor === undefined ? undefined : this.openCursor(caller, view, method, cursor);
    const set = this.catalog.setOf(caller, view);
    const { parts, missing } = await this.catalog.parts(caller, view, method, set, after !== undefined);
    // BASE-20: if no server offers the capability, the method does not exist. `tools/list` always exists.
    if (parts.length === 0 && missing.length === 0 && method !== 'tools/list') {
      throw new ProtocolError('method_not_found', `No server of this endpoint offers ${LIST_MEMBER[method]}`);
    }
    const chosen: Buffer[] = [];
    let next: Position | undefined;
    const clashes =
      method === 'tools/list' || method === 'prompts/list' ? this.catalog.clashes(view, method, parts) : NO_CLASHES;
    fill: for (const part of this.from(parts, after)) {
      const texts = this.texts(caller, part, method, view, clashes);
      for (let index = start(part, after); index < texts.length; index++) {
        const item = part.snapshot.items[index]!;
        if (part.hidden.has(item.key) || this.catalog.isTaken(view, method, parts, part, item.key, clashes)) continue;
        if (chosen.length === size) break fill;
        chosen.push(texts[index]!);
        next = { method, view: view.key, server: part.server, key: item.key, index };
      }
    }
    const more = next !== undefined && chosen.length === size && !isLast(parts, next);
    return this.result(
      method,
      parts,
      missing,
      chosen,
      // GW-05: a list that depends on the caller is private.
      !this.catalog.showsAll(caller),
      more ? this.seal.close('cursor', caller.principal.key, next, CURSOR_TTL) : undefined,
    );
  }

  private openCursor(caller: Caller, view: View, method: ListMethod, cursor: string): Position {
    try {
      const position = this.seal.open('cursor', caller.principal.key, cursor) as Position;
      if (position.method === method && position.view === view.key) return position;
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
    }
    throw new ProtocolError('invalid_cursor', 'The cursor is invalid or has expired; list again without a cursor');
  }

  /** The parts from the cursor's server on. A server that no longer exists is skipped. */
  private from(parts: readonly ShownPart[], after: Position | undefined): readonly ShownPart[] {
    if (!after) return parts;
    const at = parts.findIndex((part) => part.server === after.server);
    if (at >= 0) return parts.slice(at);
    const order = this.catalog.servers;
    const place = order.indexOf(after.server);
    return parts.filter((part) => order.indexOf(part.server) > place);
  }

  private texts(
    caller: Caller,
    part: ShownPart,
    method: ListMethod,
    view: View,
    clashes: ReadonlySet<string>,
  ): Buffer[] {
    const { revision } = caller;
    const hasTasks = this.catalog.hasTasks(caller, part.server);
    const key = `${revision.date} ${this.catalog.namingOf(view).key} ${hasTasks} ${view.renameKey}`;
    let byKey = this.written.get(part.snapshot.items);
    if (!byKey) {
      byKey = new Map();
      this.written.set(part.snapshot.items, byKey);
    }
    let texts = clashes.size > 0 ? undefined : byKey.get(key);
    if (!texts) {
      texts = part.snapshot.items.map((item) => this.write(part, item, method, view, revision, clashes, hasTasks));
      // Clashes depend on the other items that the caller sees, so names with clashes are not cached.
      if (clashes.size === 0) byKey.set(key, texts);
    }
    return texts;
  }

  private write(
    part: ShownPart,
    item: Item,
    method: ListMethod,
    view: View,
    revision: Revision,
    clashes: ReadonlySet<string>,
    hasTasks: boolean,
  ): Buffer {
    const value = translateItem(method, item.value, revision.expresses);
    // In these revisions a tool declares whether it may run as a task. A server with the tasks extension decides per
    // call (mcp.md 4.7).
    if (method === 'tools/list' && revision.expresses.execution && hasTasks)
      value['execution'] ??= { taskSupport: 'optional' };
    if (method === 'tools/list' || method === 'prompts/list') {
      value['name'] = this.catalog.exposed(view, method, part.server, item.key, clashes);
    }
    return Buffer.from(JSON.stringify(value));
  }

  private result(
    method: ListMethod,
    parts: readonly ShownPart[],
    missing: readonly Missing[],
    items: readonly Buffer[],
    personal: boolean,
    nextCursor: string | undefined,
  ): RawObject {
    const members: [string, Buffer][] = [[LIST_MEMBER[method], joined(items)]];
    if (nextCursor !== undefined) members.push(['nextCursor', Buffer.from(JSON.stringify(nextCursor))]);
    members.push(['ttlMs', Buffer.from(String(missing.length > 0 ? 0 : ttlOf(parts)))]);
    // GW-05: a list is private if it depends on the caller, or if a server says so. All pages have the same scope
    // (CACHE-06).
    const isPrivate = personal || parts.some(({ snapshot, varies }) => varies || snapshot.scope === 'private');
    members.push(['cacheScope', Buffer.from(isPrivate ? '"private"' : '"public"')]);
    if (missing.length > 0) members.push(['_meta', Buffer.from(JSON.stringify({ [MISSING]: missing }))]);
    return RawObject.build(members);
  }
}

/** The `_meta` key under which a list names the missing servers and the reasons. */
export const MISSING = 'parley/missing';

const NO_CLASHES: ReadonlySet<string> = new Set();
const COMMA = Buffer.from(',');

function joined(items: readonly Buffer[]): Buffer {
  const chunks: Buffer[] = [Buffer.from('[')];
  for (const [index, item] of items.entries()) {
    if (index > 0) chunks.push(COMMA);
    chunks.push(item);
  }
  chunks.push(Buffer.from(']'));
  return Buffer.concat(chunks);
}

/** The first index of a part after the cursor. */
function start(part: ShownPart, after: Position | undefined): number {
  if (after?.server !== part.server) return 0;
  const { items } = part.snapshot;
  if (items[after.index]?.key === after.key) return after.index + 1;
  const moved = items.findIndex((item) => item.key === after.key);
  return moved >= 0 ? moved + 1 : Math.min(after.index, items.length);
}

function isLast(parts: readonly ShownPart[], position: Position): boolean {
  const at = parts.findIndex((part) => part.server === position.server);
  const part = parts[at];
  return !!part && !showsFrom(part, position.index + 1) && !parts.slice(at + 1).some((other) => showsFrom(other, 0));
}

/** Whether any item from this index on is shown. */
function showsFrom({ snapshot: { items }, hidden }: ShownPart, index: number): boolean {
  if (hidden.size === 0) return index < items.length;
  for (let at = index; at < items.length; at++) if (!hidden.has(items[at]!.key)) return true;
  return false;
}

/** The merged list has the shortest TTL of its parts (mcp.md 4.9). */
const ttlOf = (parts: readonly ShownPart[]): number =>
  parts.length === 0 ? 0 : Math.min(...parts.map(({ ttl }) => ttl));
