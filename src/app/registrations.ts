import { ConfigError, type Problem } from '../config/problem.js';
import type { Config } from '../config/schema.js';
import { readRegistration } from '../config/upstream-entry.js';
import { type AuditActor, type AuditTrail, OPERATOR } from '../core/audit-trail.js';
import { type Egress, EgressRefused } from '../outbound/egress.js';
import { type Registry, RegistryCopy, type RegistryRow, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { type Entry, type RegistrationRecord, RegistrationWrites } from './registration-writes.js';

/** The kinds of upstream that can change while the gateway runs, with their sections of the configuration. */
interface Kinds {
  readonly server: 'servers';
  readonly agent: 'agents';
}
type Kind = keyof Kinds;
type SettingsOf<K extends Kind> = Config[Kinds[K]][string];

const SECTION: Kinds = { server: 'servers', agent: 'agents' };

export interface RegistrationsOptions<K extends Kind> {
  readonly registry: Registry<Entry>;
  /** The configuration in effect: the file that was read last, with the servers and agents that run. */
  live(): Config;
  /** Receives one record per change. */
  readonly audit: AuditTrail;
  /** The rules for URLs that callers supply. Registrations contain such URLs. */
  readonly egress: Pick<Egress, 'checkUrl'>;
  /** The version of settings of the configuration file: a keyed hash, because settings contain secrets. */
  fingerprint(settings: object): string;
  readonly log: Log;
  /** Time for calls under way to finish at a server or agent that was replaced, in milliseconds. */
  readonly drain: number;
  /**
   * Adds a server or agent, or replaces an existing entry of the same name. Returns a function that closes the replaced
   * entry. `guarded`: the settings are registered, so every address is checked when it is dialled.
   */
  install(name: string, settings: SettingsOf<K>, guarded: boolean): (() => Promise<void>) | undefined;
  /** Removes a server or agent; returns a function that closes it. */
  uninstall(name: string): (() => Promise<void>) | undefined;
}

/** A server or agent that the gateway knows, also if it is switched off. */
export interface Known<K extends Kind> {
  /** The settings in effect; undefined if the registered settings are not valid. */
  readonly settings: SettingsOf<K> | undefined;
  /** The registration; undefined for an entry of the configuration file. */
  readonly row?: RegistryRow<RegistrationRecord>;
  readonly problem?: string;
}

/** A parsed registration, which stays valid until its row or the configuration changes. */
interface Parsed<K extends Kind> extends Known<K> {
  readonly row: RegistryRow<RegistrationRecord>;
  readonly generation: number;
}

/**
 * The servers or agents behind the gateway: the entries of the configuration file, with the changes that were made at
 * run time through the registry. A change is checked, then stored, then applied on every replica; it applies as a whole
 * or not at all.
 */
export class Registrations<K extends Kind> {
  private readonly current = new Map<string, Installed<K>>();
  /** The cached settings of all entries of `current`; undefined after one of them changed. */
  private settings: Readonly<Record<string, SettingsOf<K>>> | undefined;
  private readonly stored: RegistryCopy<Entry>;
  private known = new Map<string, Known<K>>();
  /** The parsed registrations by name, so that a change of one does not parse all others again. */
  private readonly parsed = new Map<string, Parsed<K>>();
  private generation = 0;
  readonly writes: RegistrationWrites;
  private stop: (() => void) | undefined;
  private closed = false;
  private turn: Promise<void> = Promise.resolve();
  /** The round of `align` that has not begun yet. */
  private waiting: Promise<void> | undefined;
  private started = false;

  constructor(
    private readonly kind: K,
    private configured: Readonly<Record<string, SettingsOf<K>>>,
    private readonly options: RegistrationsOptions<K>,
  ) {
    const { registry, audit } = options;
    this.stored = new RegistryCopy(registry, kind);
    this.writes = new RegistrationWrites({
      kind,
      registry,
      audit,
      configured: (name) => (Object.hasOwn(this.configured, name) ? this.configured[name] : undefined),
      fingerprint: (settings) => options.fingerprint(settings),
      count: () => this.parsed.size,
      now: wallMs,
    });
  }

  /** The settings of the running servers or agents, by name. */
  get all(): Readonly<Record<string, SettingsOf<K>>> {
    this.settings ??= Object.fromEntries([...this.current].map(([name, { settings }]) => [name, settings]));
    return this.settings;
  }

  /** Starts the configured and registered servers or agents, then applies changes of the registry. */
  async start(): Promise<void> {
    const { registry } = this.options;
    const version = await registry.version();
    await this.align();
    this.started = true;
    this.stop = registry.watch(
      version,
      () =>
        void this.align().catch((error: unknown) =>
          this.options.log.error({ err: error }, `failed to apply a change to the registered ${SECTION[this.kind]}`),
        ),
    );
  }

  /** Replaces the entries of the configuration file. Unchanged entries keep running. */
  async configure(entries: Readonly<Record<string, SettingsOf<K>>>): Promise<void> {
    this.configured = entries;
    this.generation += 1;
    await this.align();
  }

  get(name: string): SettingsOf<K> | undefined {
    return this.current.get(name)?.settings;
  }

  /** All entries, including those that are switched off, sorted by name. */
  entries(): readonly (readonly [name: string, entry: Known<K>])[] {
    return [...this.known].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  entry(name: string): Known<K> | undefined {
    return this.known.get(name.toLowerCase());
  }

  /** Whether the configuration file has an entry of this name. */
  hasConfigured(name: string): boolean {
    return Object.hasOwn(this.configured, name);
  }

  /**
   * Checks settings for a registration and returns the normalized name. Throws a `ConfigError` that lists the problems.
   */
  check(name: string, settings: object): string {
    const section = SECTION[this.kind];
    const read = readRegistration(section, name, settings, { config: this.options.live() });
    const problems = read.urls.flatMap(({ key, url }) => this.refusal(key, url));
    if (problems.length > 0) throw new ConfigError(problems);
    return read.name;
  }

  private refusal(key: string, url: string): Problem[] {
    try {
      this.options.egress.checkUrl(url);
      return [];
    } catch (error) {
      if (!(error instanceof EgressRefused)) throw error;
      const fix = /user name/.test(error.message)
        ? 'write credentials into headers or auth'
        : 'add the host to egress.allow (and its port to egress.ports), or the entry to the configuration file';
      return [{ severity: 'error', code: 'egress', key, message: error.message, fix, origin: {} }];
    }
  }

  /** Adds or changes a registration. Throws a `ConfigError` that lists the problems if the settings are invalid. */
  async put(name: string, settings: object, by: AuditActor = OPERATOR): Promise<void> {
    await this.writes.put(this.check(name, settings), () => settings, { by, mode: 'any' });
    await this.align();
  }

  /** Returns false if no server or agent has this name. */
  async remove(name: string, by: AuditActor = OPERATOR): Promise<boolean> {
    const removed = await this.writes.remove(name.toLowerCase(), { by });
    if (removed) await this.align();
    return removed;
  }

  close(): void {
    this.closed = true;
    this.stop?.();
  }

  /**
   * Applies the stored registrations and the configuration file. A waiting round will read every change that is stored
   * before it begins, so one round serves many changes at once.
   */
  align(): Promise<void> {
    this.waiting ??= this.turn.then(() => {
      this.waiting = undefined;
      return this.alignNow();
    });
    const round = this.waiting;
    this.turn = round.catch(() => {});
    return round;
  }

  private async alignNow(): Promise<void> {
    const rows = await this.stored.update();
    const known = new Map<string, Known<K>>();
    for (const [name, settings] of Object.entries(this.configured)) known.set(name, { settings });
    const registered = new Set<string>();
    for (const row of rows.values()) {
      const { name, value } = row;
      if ('removed' in value) known.delete(name);
      else {
        registered.add(name);
        known.set(name, this.read({ ...row, value }));
      }
    }
    for (const name of this.parsed.keys()) if (!registered.has(name)) this.parsed.delete(name);
    if (this.closed) return;
    this.known = known;
    const wanted = new Set<string>();
    for (const [name, { settings, row }] of known) {
      // Invalid settings of a registration do not end the configured server or agent of the same name.
      const used = settings ?? this.configured[name];
      if (!used?.enabled) continue;
      wanted.add(name);
      this.install(name, used, row !== undefined && settings !== undefined);
    }
    for (const name of [...this.current.keys()]) if (!wanted.has(name)) this.uninstall(name);
  }

  /**
   * Reads a stored registration. Conflicts with other names were checked when it was made and are not checked again,
   * because the file may have changed since. The settings can still be invalid: a newer version of the gateway wrote
   * them, or a global key of the file has changed.
   */
  private read(row: RegistryRow<RegistrationRecord>): Known<K> {
    const { name, value, rev } = row;
    const before = this.parsed.get(name);
    if (before?.row.rev === rev && before.generation === this.generation) return before;
    const parsed: Parsed<K> = { ...this.parse(name, value.settings), row, generation: this.generation };
    this.parsed.set(name, parsed);
    return parsed;
  }

  private parse(name: string, settings: object): Pick<Known<K>, 'settings' | 'problem'> {
    const { log, live } = this.options;
    try {
      const config = { ...live(), servers: {}, agents: {} };
      const read = readRegistration(SECTION[this.kind], name, settings, { config });
      return { settings: read.settings as SettingsOf<K> };
    } catch (error) {
      const { message } = error as Error;
      log.error({ [this.kind]: name, why: message }, `ignored a registered ${this.kind}: its settings are invalid`);
      return { settings: undefined, problem: message };
    }
  }

  private install(name: string, settings: SettingsOf<K>, guarded: boolean): void {
    const running = this.current.get(name);
    if (running?.settings === settings && running.guarded === guarded) return;
    const text = JSON.stringify(settings);
    this.settings = undefined;
    if (running?.text === text && running.guarded === guarded) {
      this.current.set(name, { ...running, settings });
      return;
    }
    const before = this.options.install(name, settings, guarded);
    this.current.set(name, { settings, text, guarded });
    if (before) this.retire(before);
    // The startup summary shows the initial entries, so only later changes are logged at info.
    const { log } = this.options;
    const said = `${this.article} was ${before ? 'changed' : 'added'}`;
    if (this.started) log.info({ [this.kind]: name }, said);
    else log.debug({ [this.kind]: name }, said);
  }

  private uninstall(name: string): void {
    this.current.delete(name);
    this.settings = undefined;
    const before = this.options.uninstall(name);
    if (before) this.retire(before);
    this.options.log.info({ [this.kind]: name }, `${this.article} was removed`);
  }

  private get article(): string {
    return this.kind === 'agent' ? 'an agent' : 'a server';
  }

  /** Closes a replaced server or agent after the time for its calls under way. */
  private retire(close: () => Promise<void>): void {
    setTimeout(() => void close().catch(() => {}), this.options.drain).unref();
  }
}

interface Installed<K extends Kind> {
  readonly settings: SettingsOf<K>;
  readonly text: string;
  readonly guarded: boolean;
}
