import { configFrom } from './config/load.js';
import type { ServerConfig } from './config/schema.js';
import type { Catalog } from './core/catalog/catalog.js';
import type { Upstream } from './core/upstream.js';
import type { Log } from './outbound/mcp/context.js';
import type { Registry } from './state/index.js';

const KIND = 'server';

/** A server that is there no more, though the configuration file names it. */
type Entry = { readonly settings: object } | { readonly removed: true };

export interface ServersParts {
  readonly catalog: Catalog;
  readonly registry: Registry<Entry>;
  /** Changes leave a record. */
  readonly audit: { write(record: object): Promise<unknown> };
  readonly log: Log;
  /** How long calls under way may take to finish at a server that was replaced. */
  readonly drain: number;
  build(name: string, settings: ServerConfig): Upstream;
}

/**
 * The servers behind the gateway as they are now: those of the configuration, changed at run time through the registry.
 * A change is checked first, then written, then made on every replica; each server is swapped whole, or left as it was.
 */
export class Servers {
  private readonly current = new Map<string, { readonly settings: ServerConfig; readonly text: string }>();
  private stop: (() => void) | undefined;
  private turn: Promise<void> = Promise.resolve();

  constructor(
    private readonly configured: Readonly<Record<string, ServerConfig>>,
    private readonly parts: ServersParts,
  ) {}

  /** Brings up what is configured and registered, and follows the registry from then on. */
  async start(): Promise<void> {
    const { registry } = this.parts;
    const version = await registry.version();
    await this.align();
    this.stop = registry.watch(
      version,
      () =>
        void this.align().catch((error: unknown) =>
          this.parts.log.error({ err: error }, 'a change of the servers could not be made'),
        ),
    );
  }

  get(name: string): ServerConfig | undefined {
    return this.current.get(name)?.settings;
  }

  /** Adds or changes a server. Throws a `ConfigError` that names what is wrong, and changes nothing then. */
  async put(name: string, settings: object): Promise<void> {
    const { key } = check(name, settings);
    await this.parts.registry.put(KIND, key, { settings });
    await this.parts.audit.write({ event: 'server.put', server: key });
    await this.align();
  }

  /** False where there is no such server. */
  async remove(name: string): Promise<boolean> {
    const key = name.toLowerCase();
    if (!this.current.has(key)) return false;
    if (this.configured[key]) await this.parts.registry.put(KIND, key, { removed: true });
    else await this.parts.registry.remove(KIND, key);
    await this.parts.audit.write({ event: 'server.remove', server: key });
    await this.align();
    return true;
  }

  close(): void {
    this.stop?.();
  }

  private align(): Promise<void> {
    const next = this.turn.then(() => this.alignNow());
    this.turn = next.catch(() => {});
    return next;
  }

  private async alignNow(): Promise<void> {
    const wanted = new Map<string, ServerConfig>(Object.entries(this.configured));
    for (const { name, value } of await this.parts.registry.list(KIND)) {
      if ('removed' in value) wanted.delete(name);
      else wanted.set(name, this.read(name, value.settings) ?? wanted.get(name)!);
    }
    for (const [name, settings] of wanted) {
      if (settings?.enabled) this.bring(name, settings);
      else wanted.delete(name);
    }
    for (const name of [...this.current.keys()]) if (!wanted.has(name)) this.takeAway(name);
  }

  /** What another replica wrote was checked there; a version that knows more may have written what this one cannot read. */
  private read(name: string, settings: object): ServerConfig | undefined {
    try {
      return check(name, settings).settings;
    } catch (error) {
      this.parts.log.error({ server: name, why: (error as Error).message }, 'a registered server cannot be read');
      return undefined;
    }
  }

  private bring(name: string, settings: ServerConfig): void {
    const text = JSON.stringify(settings);
    if (this.current.get(name)?.text === text) return;
    const before = this.parts.catalog.put(this.parts.build(name, settings));
    this.current.set(name, { settings, text });
    if (before) this.retire(before);
    this.parts.log.info({ server: name }, before ? 'a server was changed' : 'a server was added');
  }

  private takeAway(name: string): void {
    this.current.delete(name);
    const before = this.parts.catalog.remove(name);
    if (before) this.retire(before);
    this.parts.log.info({ server: name }, 'a server was removed');
  }

  /** Calls that are under way finish where they are. */
  private retire(upstream: Upstream): void {
    setTimeout(() => void upstream.close().catch(() => {}), this.parts.drain).unref();
  }
}

function check(name: string, settings: object): { readonly key: string; readonly settings: ServerConfig } {
  const { config } = configFrom({ servers: { [name]: settings } }, { env: process.env });
  const [entry] = Object.entries(config.servers);
  if (!entry) throw new RangeError(`"${name}" is not a server`);
  return { key: entry[0], settings: entry[1] };
}
