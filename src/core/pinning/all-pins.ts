/**
 * Pins the definitions of servers (S21): the first definition of an item is trusted, and a different one needs an
 * approval. This class holds the pins of all servers in memory and follows the database; `DefinitionCheck` compares
 * lists.
 */

import { type AllPins, DefinitionCheck, type PinningOptions } from './definition-check.js';
import { type Pin, type PinKey, pinKey } from './pin-records.js';
import { SimilarNames } from './similar-names.js';

export type PinMode = 'off' | 'warn' | 'quarantine';

/** An item that needs an approval, or whose text is suspicious. */
export interface PinFinding extends PinKey {
  readonly state: 'changed' | 'quarantined' | 'flagged';
  readonly reason?: string;
  readonly flags: readonly string[];
}

/** Pause before the database is asked again after a failure, in milliseconds. */
const RETRY = 1_000;

export class Pinning implements AllPins {
  private version = 0;
  private readonly servers = new Map<string, Map<string, Pin>>();
  private readonly users = new Map<string, Set<DefinitionCheck>>();
  private names = new SimilarNames();
  private stop: (() => void) | undefined;
  private reading: Promise<void> | undefined;
  private again = false;
  private retry: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(readonly options: PinningOptions) {}

  /** Loads the pins, then follows the changes of all replicas. */
  async start(): Promise<void> {
    this.stop = this.options.records.watch(() => void this.refresh().catch(() => this.refreshLater()));
    await this.refresh();
  }

  /**
   * The pins for the lists of a server; undefined if its definitions are not compared. A personal server may give each
   * user other definitions, but all users share its pins. Its differences are therefore only reported: withholding an
   * item of one user would take the item from other users too.
   */
  forServer(server: string, given: PinMode, personal = false): DefinitionCheck | undefined {
    if (given === 'off') return undefined;
    const mode = personal ? 'warn' : given;
    const users = this.users.get(server) ?? new Set();
    this.users.set(server, users);
    const pins = new DefinitionCheck(this, server, mode, () => users.delete(pins));
    users.add(pins);
    return pins;
  }

  of(server: string): ReadonlyMap<string, Pin> {
    return this.servers.get(server) ?? NO_PINS;
  }

  /** A pinned name of another server that looks like the given name. */
  similar(server: string, name: string): PinKey | undefined {
    const found = this.names.find(server, name);
    return found && { ...found, kind: 'tool' };
  }

  /** Reads the changes of the database. Calls during a read share the next read. */
  refresh(): Promise<void> {
    this.again = true;
    this.reading ??= this.read().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  private async read(): Promise<void> {
    while (this.again && !this.closed) {
      this.again = false;
      const { version, pins, all } = await this.options.records.since(this.version);
      this.version = version;
      this.apply(pins, all);
    }
  }

  private apply(pins: readonly Pin[], all: boolean): void {
    const touched = new Set(pins.map(({ server }) => server));
    if (all) {
      for (const server of this.servers.keys()) touched.add(server);
      this.servers.clear();
      this.names = new SimilarNames();
    }
    for (const pin of pins) {
      let known = this.servers.get(pin.server);
      if (!known) {
        known = new Map();
        this.servers.set(pin.server, known);
      }
      const key = pinKey(pin.kind, pin.name);
      if (pin.kind === 'tool' && !known.has(key)) this.names.add(pin.server, pin.name);
      known.set(key, pin);
    }
    for (const server of touched) for (const user of this.users.get(server) ?? []) user.changed();
  }

  private refreshLater(): void {
    if (this.closed) return;
    clearTimeout(this.retry);
    this.retry = setTimeout(() => void this.refresh().catch(() => this.refreshLater()), RETRY).unref();
  }

  /** The items of running servers that an operator should check, at most `limit`. */
  findings(limit: number): { readonly count: number; readonly items: PinFinding[] } {
    const items: PinFinding[] = [];
    let count = 0;
    for (const [server, users] of this.users) {
      const [user] = users;
      if (!user) continue;
      for (const { kind, name, seen, reason, flags } of this.of(server).values()) {
        if (seen === undefined && flags.length === 0) continue;
        count++;
        const state = seen === undefined ? 'flagged' : user.mode === 'quarantine' ? 'quarantined' : 'changed';
        if (items.length < limit) items.push({ server, kind, name, state, ...(reason && { reason }), flags });
      }
    }
    return { count, items };
  }

  close(): void {
    this.closed = true;
    this.stop?.();
    clearTimeout(this.retry);
    for (const users of this.users.values()) for (const user of [...users]) user.close();
  }
}

const NO_PINS: ReadonlyMap<string, Pin> = new Map();
