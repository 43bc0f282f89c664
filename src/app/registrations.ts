import { readEntry } from '../config/entry.js';
import type { Config } from '../config/schema.js';
import type { Registry } from '../state/index.js';
import type { Log } from '../telemetry/log.js';

/** Something that is there no more, though the configuration file names it. */
export type Entry = { readonly settings: object } | { readonly removed: true };

/** What can be added, changed and removed while the gateway runs, by the section that configures it. */
interface Kinds {
  readonly server: 'servers';
  readonly agent: 'agents';
}
type Kind = keyof Kinds;
type SettingsOf<K extends Kind> = Config[Kinds[K]][string];

const SECTION: Kinds = { server: 'servers', agent: 'agents' };

export interface RegistrationsOptions<K extends Kind> {
  readonly registry: Registry<Entry>;
  /** The configuration as it is now: the file that was read last, with the servers and agents that run. */
  live(): Config;
  /** Changes leave a record. */
  readonly audit: { write(record: object): Promise<unknown> };
  readonly log: Log;
  /** How long calls under way may take to finish at one that was replaced. */
  readonly drain: number;
  /** Puts one in the place of what was there under its name; returns how to close what was. */
  bring(name: string, settings: SettingsOf<K>): (() => Promise<void>) | undefined;
  takeAway(name: string): (() => Promise<void>) | undefined;
}

/**
 * The servers or agents behind the gateway as they are now: those of the configuration, changed at run time through the
 * registry. A change is checked first, then written, then made on every replica; each is swapped whole, or left as it was.
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

  /** The settings of those that run, by name. */
  get all(): Readonly<Record<string, SettingsOf<K>>> {
    return Object.fromEntries([...this.current].map(([name, { settings }]) => [name, settings]));
  }

  /** Brings up what is configured and registered, and follows the registry from then on. */
  async start(): Promise<void> {
    const { registry } = this.options;
    const version = await registry.version();
    await this.align();
    this.started = true;
    this.stop = registry.watch(
      version,
      () =>
        void this.align().catch((error: unknown) =>
          this.options.log.error({ err: error }, `a change of the ${SECTION[this.kind]} could not be made`),
        ),
    );
  }

  /** Replaces the entries of the configuration file. Entries that are the same as before keep running untouched. */
  async configure(entries: Readonly<Record<string, SettingsOf<K>>>): Promise<void> {
    this.configured = entries;
    await this.align();
  }

  get(name: string): SettingsOf<K> | undefined {
    return this.current.get(name)?.settings;
  }

  /** Adds or changes one. Throws a `ConfigError` that names what is wrong, and changes nothing then. */
  async put(name: string, settings: object): Promise<void> {
    const { name: key } = readEntry(SECTION[this.kind], name, settings, {
      config: this.options.live(),
      env: process.env,
    });
    await this.options.registry.put(this.kind, key, { settings });
    await this.options.audit.write({ event: `${this.kind}.put`, [this.kind]: key });
    await this.align();
  }

  /** False where there is no such one. */
  async remove(name: string): Promise<boolean> {
    const key = name.toLowerCase();
    if (!this.current.has(key)) return false;
    if (this.configured[key]) await this.options.registry.put(this.kind, key, { removed: true });
    else await this.options.registry.remove(this.kind, key);
    await this.options.audit.write({ event: `${this.kind}.remove`, [this.kind]: key });
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
      if (settings?.enabled) this.bring(name, settings);
      else wanted.delete(name);
    }
    for (const name of [...this.current.keys()]) if (!wanted.has(name)) this.takeAway(name);
  }

  /**
   * A stored registration was checked when it was made, so the names beside it are not looked at again: the file may have
   * been changed since. It may be unreadable all the same: a newer version wrote it, or the file changed a global key.
   */
  private read(name: string, settings: object): SettingsOf<K> | undefined {
    const { log, live } = this.options;
    try {
      const config = { ...live(), servers: {}, agents: {} };
      return readEntry(SECTION[this.kind], name, settings, { config, env: process.env }).settings as SettingsOf<K>;
    } catch (error) {
      log.error({ [this.kind]: name, why: (error as Error).message }, `a registered ${this.kind} cannot be read`);
      return undefined;
    }
  }

  private bring(name: string, settings: SettingsOf<K>): void {
    const text = JSON.stringify(settings);
    if (this.current.get(name)?.text === text) return;
    const before = this.options.bring(name, settings);
    this.current.set(name, { settings, text });
    if (before) this.retire(before);
    // What the configuration has is shown once all of it is there; a change of it is news.
    const { log } = this.options;
    const said = `${this.article} was ${before ? 'changed' : 'added'}`;
    if (this.started) log.info({ [this.kind]: name }, said);
    else log.debug({ [this.kind]: name }, said);
  }

  private takeAway(name: string): void {
    this.current.delete(name);
    const before = this.options.takeAway(name);
    if (before) this.retire(before);
    this.options.log.info({ [this.kind]: name }, `${this.article} was removed`);
  }

  private get article(): string {
    return this.kind === 'agent' ? 'an agent' : 'a server';
  }

  /** Calls that are under way finish where they are. */
  private retire(close: () => Promise<void>): void {
    setTimeout(() => void close().catch(() => {}), this.options.drain).unref();
  }
}
