/** The running gateway without its inbound adapters: starts its parts in order and stops them in reverse order. */
import { changedKeys } from '../config/changed-keys.js';
import type { Config } from '../config/schema.js';
import { Seal } from '../core/seal.js';
import type { Authenticator } from '../identity/authenticator.js';
import type { VerdictStore } from '../outbound/mcp/build.js';
import { stopAllChildren } from '../outbound/stdio/process.js';
import type { Implementation } from '../protocol/mcp/model.js';
import { type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { A2aRuntime } from './a2a-runtime.js';
import { authenticatorOf } from './authentication.js';
import { credentialsOf } from './credentials.js';
import { Lifecycle } from './lifecycle.js';
import { rememberedVerdicts } from './mcp-records.js';
import { McpRuntime, type Reporting } from './mcp-runtime.js';
import { joinReplicas, type Replica } from './replica.js';
import { openStorage } from './storage.js';

/** Keys that need no restart. */
const RELOADED = /^(servers|agents)(\.|$)|^log\.level$/;

export class Runtime {
  /** The configuration that was read last. Its servers and agents are in effect, with the global keys for them. */
  private latest: Config;
  /** Authenticates callers that connect over the network. */
  readonly authenticator: Authenticator;
  readonly seal: Seal;
  readonly mcp: McpRuntime;
  readonly a2a: A2aRuntime;

  private constructor(
    readonly config: Config,
    readonly info: Implementation,
    readonly state: State,
    readonly replica: Replica,
    verdicts: VerdictStore,
    log: Log,
    reporting: Reporting,
    private readonly lifecycle: Lifecycle,
  ) {
    this.latest = config;
    this.authenticator = authenticatorOf(config);
    this.seal = new Seal(state.keyring, wallMs);
    const { authenticator, seal } = this;
    const live = (): Config => this.live();
    const credentials = credentialsOf(config);
    const explains = reporting.private === true || explainsFailures(config, authenticator.enabled);
    const shared = { config, live, info, state, replica, seal, authenticator, credentials, explains, log };
    this.mcp = new McpRuntime({ ...shared, verdicts, reporting });
    this.a2a = new A2aRuntime({ ...shared, mcp: this.mcp });
  }

  /** Builds and starts the parts of the gateway. They stop in reverse order. */
  static build(config: Config, info: Implementation, log: Log, reporting: Reporting = {}): Promise<Runtime> {
    const lifecycle = new Lifecycle(log);
    return lifecycle.start(async () => {
      const state = lifecycle.add('state', await openStorage(config, log), (part) => part.close());
      const replica = lifecycle.add('replica', await joinReplicas(config, state, log), (part) => part.leave());
      lifecycle.add('child processes', undefined, stopAllChildren);
      const verdicts = await rememberedVerdicts(state, log);
      const runtime = new Runtime(config, info, state, replica, verdicts, log, reporting, lifecycle);
      const { mcp, a2a } = runtime;
      lifecycle.add('catalog', mcp.catalog, (part) => part.close());
      lifecycle.add('tasks', mcp.tasks, (part) => part.close());
      lifecycle.add('parked calls', mcp.parking, (part) => part.close());
      lifecycle.add('agents', a2a, (part) => part.close());
      lifecycle.add('server registrations', mcp.servers, (part) => part.close());
      await mcp.servers.start();
      if (config.a2a.enabled) await a2a.start();
      return runtime;
    });
  }

  /**
   * Applies the servers and agents of a reloaded configuration; unchanged ones keep running.
   * Returns the other changed keys, which need a restart.
   */
  async reload(next: Config): Promise<readonly string[]> {
    this.latest = next;
    await this.mcp.servers.configure(next.servers);
    if (this.config.a2a.enabled) await this.a2a.agents.configure(next.agents);
    return changedKeys(this.config, next).filter((key) => !RELOADED.test(key));
  }

  private live(): Config {
    return { ...this.latest, servers: this.mcp.servers.all, agents: this.a2a.agents.all };
  }

  close(): Promise<void> {
    return this.lifecycle.stop();
  }
}

/** Without authentication only programs on this machine can call, and they count as operators. */
function explainsFailures({ explainFailures }: Config, authenticated: boolean): boolean {
  return explainFailures === 'auto' ? !authenticated : explainFailures === 'always';
}
