/** Compares the lists of one server with its pins, and names the items that are withheld from callers (S21). */
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { ListMethod } from '../../protocol/mcp/model.js';
import type { Log } from '../../telemetry/log.js';
import { type AuditTrail, type EventRecord, GATEWAY_ACTOR } from '../audit-trail.js';
import { definitionOf, PIN_KIND, type PinKind, partsOf } from './definition-hash.js';
import { type Pin, type PinKey, type PinRecords, pinKey, type SeenPin } from './pin-records.js';
import { textFlags } from './suspicious-text.js';

export interface PinningOptions {
  readonly records: PinRecords;
  /** Takes one record per change of a definition. */
  readonly audit: Pick<AuditTrail, 'record'>;
  readonly log: Log;
}

/** The pins of all servers. */
export interface AllPins {
  readonly options: PinningOptions;
  of(server: string): ReadonlyMap<string, Pin>;
  /** A pinned name of another server that looks like the given name. */
  similar(server: string, name: string): PinKey | undefined;
  /** Reads the changes of the database. */
  refresh(): Promise<void>;
}

/** The part of a list's item that is pinned. */
export interface PinnedItem {
  /** The server's own name or URI template. */
  readonly own: string;
  readonly value: JsonObject;
}

/** The most pins of a server. Further items are not pinned. In quarantine mode they are withheld. */
export const MOST_PINS = 5_000;
/**
 * The most changes that are stored in one period, so that a server that changes without pause does not fill the audit
 * trail.
 */
const MOST_CHANGES = 1_000;
const CHANGES_PERIOD = 10 * 60_000;
/** The most log lines about the first list of a server. */
const MOST_LINES = 20;
/** The number of items that are hashed in one event-loop turn. */
const TURN = 50;
/** Pause before items are compared again after the database failed, in milliseconds. */
const RETRY = 1_000;
/** The longest stored text of a definition, in characters. The hash covers the whole definition. */
const MOST_TEXT = 64 * 1024;
const MOST_NAME = 400;

const NOTHING: ReadonlySet<string> = new Set();
const INSTRUCTIONS = 'instructions';

export class DefinitionCheck {
  private readonly listeners = new Set<() => void>();
  private turn: Promise<void> = Promise.resolve();
  private recorded = { since: 0, count: 0 };
  private readonly waiting = new Map<PinKind, readonly PinnedItem[]>();
  private retry: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(
    private readonly pinning: AllPins,
    private readonly server: string,
    readonly mode: 'warn' | 'quarantine',
    private readonly ended: () => void,
  ) {}

  /** Calls `listener` when the withheld items may have changed. */
  onChange(listener: () => void): void {
    this.listeners.add(listener);
  }

  changed(): void {
    for (const listener of this.listeners) listener();
  }

  /**
   * Stores the new and changed definitions of a new list, and returns the own names of withheld items. Returns a
   * promise only in quarantine mode, because only then must the list wait. Never fails.
   */
  check(method: ListMethod, items: readonly PinnedItem[]): ReadonlySet<string> | Promise<ReadonlySet<string>> {
    const kind = PIN_KIND[method];
    if (kind === undefined) return NOTHING;
    const done = this.record(kind, items);
    return this.mode === 'warn' ? NOTHING : done.then(() => this.withheld(method, items));
  }

  /** The own names of withheld items, according to the pins in memory. Stores nothing. */
  withheld(method: ListMethod, items: readonly PinnedItem[]): ReadonlySet<string> {
    const kind = PIN_KIND[method];
    if (kind === undefined || this.mode === 'warn') return NOTHING;
    const pins = this.pinning.of(this.server);
    const names = new Set<string>();
    for (const { own, value } of items) {
      const pin = pins.get(pinKey(kind, storedName(own)));
      if (!pin || pin.seen !== undefined || !isApproved(pin, definitionOf(kind, value).hash)) names.add(own);
    }
    return names;
  }

  /** Whether the item waits for an approval. Used for calls while the list of the server cannot be read. */
  withholds(kind: PinKind, own: string): boolean {
    if (this.mode === 'warn') return false;
    return this.pinning.of(this.server).get(pinKey(kind, storedName(own)))?.seen !== undefined;
  }

  /** The instructions of the server, or undefined while they are withheld. */
  async instructions(text: string): Promise<string | undefined> {
    const item = { own: INSTRUCTIONS, value: { instructions: text } };
    const done = this.record(INSTRUCTIONS, [item]);
    if (this.mode === 'warn') return text;
    await done;
    return this.shownInstructions(text);
  }

  /** The instructions, or undefined if the pins in memory withhold them. Stores nothing. */
  shownInstructions(text: string): string | undefined {
    if (this.mode === 'warn') return text;
    const pin = this.pinning.of(this.server).get(pinKey(INSTRUCTIONS, INSTRUCTIONS));
    const hash = definitionOf(INSTRUCTIONS, { instructions: text }).hash;
    return pin && pin.seen === undefined && isApproved(pin, hash) ? text : undefined;
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    this.listeners.clear();
    this.ended();
  }

  /** Records lists one after the other, so that each comparison sees the pins that the previous comparison stored. */
  private record(kind: PinKind, items: readonly PinnedItem[]): Promise<void> {
    this.waiting.delete(kind);
    this.turn = this.turn.then(async () => {
      try {
        await this.compare(kind, items);
      } catch (error) {
        this.recordLater(kind, items, error as Error);
      }
    });
    return this.turn;
  }

  private recordLater(kind: PinKind, items: readonly PinnedItem[], error: Error): void {
    if (this.closed) return;
    if (this.waiting.size === 0)
      this.pinning.options.log.warn(
        { server: this.server, why: error.message },
        'cannot compare the definitions of a server with the pinned ones; trying again',
      );
    this.waiting.set(kind, items);
    clearTimeout(this.retry);
    this.retry = setTimeout(() => {
      for (const [each, list] of [...this.waiting]) void this.record(each, list).then(() => this.changed());
    }, RETRY).unref();
  }

  private async compare(kind: PinKind, items: readonly PinnedItem[]): Promise<void> {
    let fresh: PinnedItem[] = [];
    const different: PinnedItem[] = [];
    const sort = (item: PinnedItem): void => {
      const pin = this.pinOf(kind, item);
      if (!pin) fresh.push(item);
      else if (this.differs(pin, definitionOf(kind, item.value).hash)) different.push(item);
    };
    for (const [index, item] of items.entries()) {
      if (index % TURN === TURN - 1) await nextTurn();
      sort(item);
    }
    if (fresh.length > 0) {
      const known = fresh;
      await this.pin(kind, fresh, items);
      fresh = [];
      // Another replica may have pinned another definition at the same time.
      for (const item of known) sort(item);
    }
    if (different.length > 0) await this.store(kind, different);
  }

  private pinOf(kind: PinKind, { own }: PinnedItem): Pin | undefined {
    return this.pinning.of(this.server).get(pinKey(kind, storedName(own)));
  }

  /**
   * Whether the definition must be stored. While a changed definition waits for an approval, a return to the approved
   * definition is a change too.
   */
  private differs(pin: Pin, hash: string): boolean {
    return pin.seen === undefined ? !isApproved(pin, hash) : pin.seen !== hash;
  }

  private async pin(kind: PinKind, fresh: readonly PinnedItem[], list: readonly PinnedItem[]): Promise<void> {
    const { pinning, server } = this;
    const { log, records, audit } = pinning.options;
    const room = Math.max(0, MOST_PINS - pinning.of(server).size);
    if (fresh.length > room)
      log.warn({ server, most: MOST_PINS }, `the server has too many definitions; some ${kind}s are not pinned`);
    const removed = this.removed(kind, list);
    const added: SeenPin[] = [];
    for (const [index, item] of fresh.slice(0, room).entries()) {
      if (index % TURN === TURN - 1) await nextTurn();
      const seen = this.seen(kind, item);
      added.push({ ...seen, reason: this.suspicion(kind, item.own, seen.body, removed) });
    }
    if (added.length === 0) return;
    const inserted = new Set((await records.insert(added)).map(({ name }) => name));
    await pinning.refresh();
    let lines = 0;
    for (const { name, hash, reason, flags } of added) {
      if (!inserted.has(name) || (reason === '' && flags.length === 0) || lines++ >= MOST_LINES) continue;
      const found = { server, kind, name, ...(reason && { reason }), ...(flags.length > 0 && { flags }) };
      log.warn({ ...found, see: `parley pins list ${server}` }, this.said(reason === '' ? 'flagged' : 'new'));
      const event = reason === '' ? 'pin.flagged' : 'pin.changed';
      audit.record({ kind: 'event', ...GATEWAY_ACTOR, event, ...this.facts({ kind, name, reason, flags, to: hash }) });
    }
  }

  private async store(kind: PinKind, different: readonly PinnedItem[]): Promise<void> {
    const { pinning, server } = this;
    const { log, records, audit } = pinning.options;
    for (const item of different) {
      if (!this.mayRecord()) break;
      const pin = this.pinOf(kind, item);
      const { hash } = definitionOf(kind, item.value);
      const back = pin !== undefined && isApproved(pin, hash);
      const reason = back ? `changed, and changed back${isRepeated(pin)}` : 'changed';
      const seen = { ...this.seen(kind, item), reason: pin?.hash === '' ? pin.reason : reason };
      const from = await records.change(seen);
      if (from === undefined) continue;
      const { name, flags } = seen;
      const found = { server, kind, name, from, to: hash, reason: seen.reason, ...(flags.length > 0 && { flags }) };
      log.warn({ ...found, see: `parley pins diff ${server}` }, this.said('changed'));
      const facts = this.facts({ kind, name, reason: seen.reason, flags, from, to: hash });
      audit.record({ kind: 'event', ...GATEWAY_ACTOR, event: 'pin.changed', ...facts });
    }
    await pinning.refresh();
  }

  private seen(kind: PinKind, { own, value }: PinnedItem): SeenPin {
    const { hash, body, text } = definitionOf(kind, value);
    const flags = textFlags({ name: own, parts: partsOf(kind, value), icons: value['icons'] });
    const definition = text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text;
    return { server: this.server, kind, name: storedName(own), hash, body, definition, reason: '', flags };
  }

  /** The pinned items that the list no longer has, by the hash of their definition without the name. */
  private removed(kind: PinKind, list: readonly PinnedItem[]): ReadonlyMap<string, PinKey> {
    const present = new Set(list.map(({ own }) => storedName(own)));
    const removed = new Map<string, PinKey>();
    for (const pin of this.pinning.of(this.server).values())
      if (pin.kind === kind && pin.body !== '' && !present.has(pin.name)) removed.set(pin.body, pin);
    return removed;
  }

  /** The reason why a new item needs an approval; empty if it needs none. */
  private suspicion(kind: PinKind, own: string, body: string, removed: ReadonlyMap<string, PinKey>): string {
    const before = body === '' ? undefined : removed.get(body);
    if (before) return `renamed from "${before.name}"`;
    const alike = kind === 'tool' ? this.pinning.similar(this.server, own) : undefined;
    return alike ? `looks like "${alike.name}" of server "${alike.server}"` : '';
  }

  private said(what: 'flagged' | 'new' | 'changed'): string {
    if (what === 'flagged') return 'a definition contains suspicious text';
    const item = what === 'new' ? 'a new item has a suspicious name' : 'a definition differs from the pinned one';
    return this.mode === 'quarantine' ? `${item}; it is not offered until it is approved` : item;
  }

  private mayRecord(): boolean {
    const now = performance.now();
    if (this.recorded.since === 0 || now - this.recorded.since > CHANGES_PERIOD)
      this.recorded = { since: now, count: 0 };
    this.recorded.count++;
    if (this.recorded.count === MOST_CHANGES + 1)
      this.pinning.options.log.warn(
        { server: this.server, most: MOST_CHANGES },
        'the definitions of a server change too often; further changes are not stored for some minutes',
      );
    return this.recorded.count <= MOST_CHANGES;
  }

  /** The members of an audit record. */
  private facts({
    name,
    reason,
    ...details
  }: FoundItem): Pick<EventRecord, 'subject' | 'server' | 'reason' | 'details'> {
    return {
      subject: name,
      server: this.server,
      ...(reason !== '' && { reason }),
      details: { ...details, mode: this.mode },
    };
  }
}

/** An item whose definition an operator should check, and the hashes of its definitions. */
interface FoundItem {
  readonly kind: PinKind;
  readonly name: string;
  readonly reason: string;
  readonly flags: readonly string[];
  readonly from?: string;
  readonly to: string;
}

const isApproved = (pin: Pin, hash: string): boolean => pin.hash === hash || pin.earlier.includes(hash);

const isRepeated = ({ reason }: Pin): string => (reason.includes('changed back') ? ' again' : '');

/**
 * The name as stored in the database. It has a limited length and neither NUL nor half of a surrogate pair, which the
 * database cannot store.
 */
export function storedName(own: string): string {
  const name = own.replace(/\0|[\ud800-\udfff]/gu, '\ufffd');
  return name.length > MOST_NAME ? `${name.slice(0, MOST_NAME)}…` : name;
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
