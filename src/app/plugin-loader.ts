/** Loads the plugins of the configuration, and starts and stops them. */

import { isShipped, pluginName, type ShippedPlugin } from '../config/plugin-schema.js';
import type { Config } from '../config/schema.js';
import type { AuditRecord } from '../core/audit-trail.js';
import type { Cluster } from '../core/cluster.js';
import type { Seal } from '../core/seal.js';
import { within } from '../core/timing.js';
import { HttpClient, proxyRule } from '../outbound/http/index.js';
import { httpPlugin } from '../outbound/plugins/http-plugin.js';
import { ActivePlugin } from '../plugins/active-plugin.js';
import type { JsonObject, Plugin, PluginContext } from '../plugins/api.js';
import type { AccountOf } from '../plugins/call-view.js';
import { PluginLoadError } from '../plugins/plugin-module.js';
import { Scope } from '../plugins/scope.js';
import { descriptions } from '../plugins/shipped/descriptions.js';
import { KeptResults } from '../plugins/shipped/kept-results.js';
import { redaction } from '../plugins/shipped/redaction.js';
import { resultCache } from '../plugins/shipped/result-cache.js';
import { sizeGovernor } from '../plugins/shipped/size-governor.js';
import { ThreadPlugin } from '../plugins/thread/gateway-side.js';
import { wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';

export type PluginConfig = Config['plugins'][number];

export interface PluginsOptions {
  readonly config: Pick<Config, 'plugins' | 'timeouts'>;
  readonly seal: Seal;
  readonly cluster: Cluster;
  readonly accountOf: AccountOf;
  readonly log: Log;
  /** Time for the setup of a plugin, in milliseconds. */
  readonly setupTime?: number;
}

/** Time limit for the setup of a plugin, and for its end, in milliseconds. */
const SETUP_TIME = 30_000;
const CLOSE_TIME = 2_000;

/** The plugins of a running gateway, in the order of the configuration. */
export class Plugins {
  private client: HttpClient | undefined;
  /** The threads of modules. */
  private readonly threads: ThreadPlugin[] = [];

  private constructor(
    readonly all: readonly ActivePlugin[],
    readonly accountOf: AccountOf,
  ) {}

  /** Loads and sets up every plugin. A plugin that cannot be loaded stops the start. */
  static async load(options: PluginsOptions): Promise<Plugins> {
    const { config, log } = options;
    const active: ActivePlugin[] = [];
    const plugins = new Plugins(active, options.accountOf);
    try {
      for (const settings of config.plugins) {
        const name = pluginName(settings);
        const { plugin, thread } = await plugins.build(name, settings, options);
        await setUp(name, plugin, settings, options);
        const { hooks, onFailure, timeout } = settings;
        const used = { hooks: hooks.length > 0 ? hooks : undefined, scope: new Scope(settings) };
        active.push(new ActivePlugin({ ...{ name, plugin, onFailure, timeout, thread, log }, ...used }));
      }
    } catch (error) {
      await plugins.close();
      throw error;
    }
    if (active.length > 0)
      log.info({ plugins: active.map(({ name, hooks }) => `${name}: ${[...hooks].join(', ')}`) }, 'loaded plugins');
    return plugins;
  }

  /** URI schemes of resources that plugins answer. */
  get schemes(): readonly string[] {
    return this.all.flatMap(({ plugin }) => plugin.resourceScheme ?? []);
  }

  /** Receives the records of the audit trail; undefined if no plugin wants them. */
  get auditing(): ((record: AuditRecord) => void) | undefined {
    const wanting = this.all.filter(({ hooks }) => hooks.has('onAudit'));
    if (wanting.length === 0) return undefined;
    return (record) => {
      // Each plugin gets a copy, so that no plugin can change the record that is stored.
      const text = JSON.stringify(record);
      for (const plugin of wanting) plugin.audit(JSON.parse(text) as JsonObject);
    };
  }

  /** The state of each plugin, for operators; undefined without plugins. */
  status(): Readonly<Record<string, 'enabled' | 'disabled'>> | undefined {
    if (this.all.length === 0) return undefined;
    return Object.fromEntries(this.all.map(({ name, disabled }) => [name, disabled ? 'disabled' : 'enabled']));
  }

  /** Closes the plugins in reverse order. */
  async close(): Promise<void> {
    for (const { plugin } of this.all.toReversed())
      await within(
        (async () => plugin.close?.())().catch(() => {}),
        CLOSE_TIME,
        { ref: false },
      );
    await Promise.all(this.threads.map((thread) => thread.close()));
    await this.client?.close();
  }

  private async build(
    name: string,
    settings: PluginConfig,
    options: PluginsOptions,
  ): Promise<{ readonly plugin: Plugin; readonly thread?: ThreadPlugin }> {
    const { use, url, secret = '', hooks, body, timeout, blockLimit, memory } = settings;
    if (url !== undefined) {
      this.client ??= new HttpClient({ connectTimeout: options.config.timeouts.connect, proxy: proxyRule(undefined) });
      return { plugin: httpPlugin({ client: this.client, url, secret, hooks, body, timeout, now: wallMs }) };
    }
    if (use === undefined) throw new PluginLoadError(`plugin "${name}" has neither use nor url`);
    if (isShipped(use)) return { plugin: shipped(use, name, settings, options) };
    const thread = await ThreadPlugin.load({ use, directory: process.cwd(), blockLimit, memory });
    this.threads.push(thread);
    return { plugin: thread.plugin, thread };
  }
}

function shipped(use: ShippedPlugin, name: string, settings: PluginConfig, { seal, cluster }: PluginsOptions): Plugin {
  switch (use) {
    case 'redaction':
      return redaction(settings.redaction);
    case 'size-governor': {
      const { limit, preview, ttl, perCaller, inAll } = settings.governor;
      return sizeGovernor({ limit, preview, results: new KeptResults({ seal, cluster, name, ttl, perCaller, inAll }) });
    }
    case 'result-cache':
      return resultCache({ ...settings.cache, cluster, name });
    case 'descriptions':
      return descriptions(settings.descriptions);
  }
}

async function setUp(
  name: string,
  plugin: Plugin,
  { options }: PluginConfig,
  { log, setupTime = SETUP_TIME }: PluginsOptions,
): Promise<void> {
  if (!plugin.setup) return;
  const context: PluginContext = { name, options: { ...options }, log: logOf(name, log) };
  const done = (async () => plugin.setup?.(context))().then(
    () => true,
    (error: Error) => {
      throw new PluginLoadError(`the setup of plugin "${name}" failed: ${error.message}`);
    },
  );
  if (!(await within(done, setupTime))) throw new PluginLoadError(`the setup of plugin "${name}" takes too long`);
}

/** Maximum length of a plugin's message in the log. */
const MOST_MESSAGE = 1_000;

function logOf(plugin: string, log: Log): PluginContext['log'] {
  const write =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, fields: object = {}): void =>
      log[level]({ ...fields, plugin }, String(message).slice(0, MOST_MESSAGE));
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}
