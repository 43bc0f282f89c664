import { readRegistration } from '../config/entry.js';
import type { Config } from '../config/schema.js';
import { type AuditActor, type AuditTrail, OPERATOR } from '../core/audit-trail.js';
import type { Registry } from '../state/index.js';
import type { Log } from '../telemetry/log.js';

/** A registration, or the removal of an entry that the configuration file still has. */
export type Entry = { readonly settings: object } | { readonly removed: true };

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
  readonly log: Log;
  /** Time for calls under way to finish at a server or agent that was replaced, in milliseconds. */
  readonly drain: number;
  /** Adds a server or agent, or replaces the one of the same name; returns a function that closes the replaced one. */
  install(name: string, settings: SettingsOf<K>): (() => Promise<void>) | undefined;
  /** Removes a server or agent; returns a function that closes it. */
  uninstall(name: string): (() => Promise<void>) | undefined;
}

/**
 * The servers or agents behind the gateway: those of the configuration file, and changes made at run time through the
 * registry. A change is checked, then stored, then applied on every replica; it applies as a whole or not at all.
 */
export class Registrations<K extends Kind> {
  private readonly current = new Map<string, { readonly settings: SettingsOf<K>; readonly text: string }>();
  private stop: (() => void) | undefined;
  private closed = false;
  private turn: Promise<void> = Promise.resolve();
  private started = false;

  constructor(
    private readonly kind: K,
    private configured: Readonly<Record<string, SettingsOf<K>>>,
    private readonly options: RegistrationsOptions<K>,
  ) {}

  /** The settings of the running servers or agents, by name. */
  get all(): Readonly<Record<string, SettingsOf<K>>> {
    return Object.fromEntries([...this.current].map(([name, { settings }]) => [name, settings]));
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
    await this.align();
  }

  get(name: string): SettingsOf<K> | undefined {
    return this.current.get(name)?.settings;
  }

  /** Adds or changes a registration. Throws a `ConfigError` that lists the problems if the settings are invalid. */
  async put(name: string, settings: object, by: AuditActor = OPERATOR): Promise<void> {
    const { name: key } = readRegistration(SECTION[this.kind], name, settings, {
      config: this.options.live(),
      env: process.env,
    });
    const { registry, audit } = this.options;
    const record = { ...by, action: `${this.kind}.put`, subject: key } as const;
    await audit.change(record, () => registry.put(this.kind, key, { settings }));
    await this.align();
  }

  /** Returns false if no server or agent has this name. */
  async remove(name: string, by: AuditActor = OPERATOR): Promise<boolean> {
    const key = name.toLowerCase();
    if (!this.current.has(key)) return false;
    const { registry, audit } = this.options;
    await audit.change({ ...by, action: `${this.kind}.remove`, subject: key }, async () => {
      if (this.configured[key]) await registry.put(this.kind, key, { removed: true });
      else await registry.remove(this.kind, key);
    });
    await this.align();
    return true;
  }

  close(): void {
    this.closed = true;
    this.stop?.();
  }

  private align(): Promise<void> {
    const next = this.turn.then(() => this.alignNow());
    this.turn = next.catch(() => {});
    return next;
  }

  private async alignNow(): Promise<void> {
    const wanted = new Map<string, SettingsOf<K>>(Object.entries(this.configured));
    for (const { name, value } of await this.options.registry.list(this.kind)) {
      if ('removed' in value) wanted.delete(name);
      else wanted.set(name, this.read(name, value.settings) ?? wanted.get(name)!);
    }
    if (this.closed) return;
    for (const [name, settings] of wanted) {
      if (settings?.enabled) this.install(name, settings);
      else wanted.delete(name);
    }
    for (const name of [...this.current.keys()]) if (!wanted.has(name)) this.uninstall(name);
  }

  /**
   * Reads a stored registration. Conflicts with other names were checked when it was made and are not checked again,
   * because the file may have changed since. The settings can still be invalid: a newer version of the gateway wrote
   * them, or a global key of the file has changed.
   */
  private read(name: string, settings: object): SettingsOf<K> | undefined {
    const { log, live } = this.options;
    try {
      const config = { ...live(), servers: {}, agents: {} };
      return readRegistration(SECTION[this.kind], name, settings, { config, env: process.env })
        .settings as SettingsOf<K>;
    } catch (error) {
      log.error(
        { [this.kind]: name, why: (error as Error).message },
        `ignored a registered ${this.kind}: its settings are invalid`,
      );
      return undefined;
    }
  }

  private install(name: string, settings: SettingsOf<K>): void {
    const text = JSON.stringify(settings);
    if (this.current.get(name)?.text === text) return;
    const before = this.options.install(name, settings);
    this.current.set(name, { settings, text });
    if (before) this.retire(before);
    // The startup summary shows the initial entries, so only later changes are logged at info.
    const { log } = this.options;
    const said = `${this.article} was ${before ? 'changed' : 'added'}`;
    if (this.started) log.info({ [this.kind]: name }, said);
    else log.debug({ [this.kind]: name }, said);
  }

  private uninstall(name: string): void {
    this.current.delete(name);
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
