/** The A2A side of the running gateway: agents, their tasks, cards and webhooks, put together. */
import { createHash } from 'node:crypto';
import { formatListen } from '../config/address.js';
import type { AgentConfig, Config } from '../config/schema.js';
import type { Agent } from '../core/a2a/agent.js';
import { Cards } from '../core/a2a/cards/cards.js';
import { AgentDispatcher } from '../core/a2a/dispatcher.js';
import { AgentUpstream } from '../core/a2a/protocol-bridge/agent-upstream.js';
import { ToolAgent } from '../core/a2a/protocol-bridge/tool-agent.js';
import { Callbacks } from '../core/a2a/push/callbacks.js';
import { PushNotifications, type QueuedPush, tellingOfPushes } from '../core/a2a/push/push-notifications.js';
import { Agents } from '../core/a2a/routing/agent-directory.js';
import { buildRouter } from '../core/a2a/routing/routing-agent.js';
import type { AgentRecords } from '../core/a2a/tasks/task-records.js';
import type { Seal } from '../core/seal.js';
import type { Authenticator } from '../identity/authenticator.js';
import { type CardKeyRecord, CardKeys } from '../identity/card-keys.js';
import type { Credentials } from '../identity/credentials.js';
import { buildAgent } from '../outbound/a2a/build.js';
import { Egress } from '../outbound/egress.js';
import { HttpClient, proxyRule } from '../outbound/http/index.js';
import { DeadLetters } from '../outbound/webhooks/dead-letters.js';
import { WebhookSender } from '../outbound/webhooks/sender.js';
import { dialect } from '../protocol/a2a/index.js';
import type { Implementation } from '../protocol/mcp/model.js';
import { type Outbox, type Registry, type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { agentRecords } from './a2a-records.js';
import type { McpRuntime } from './mcp-runtime.js';
import { type Entry, Registrations } from './registrations.js';
import type { Replica } from './replica.js';

export interface A2aRuntimeOptions {
  readonly config: Config;
  /** The configuration as it is now, for agents that are registered. */
  readonly live: () => Config;
  readonly info: Implementation;
  readonly state: State;
  readonly replica: Replica;
  readonly seal: Seal;
  readonly authenticator: Authenticator;
  readonly credentials: Credentials;
  /** Whether callers may read what operators may of failures. */
  readonly explains: boolean;
  /** The MCP side, for agents made of tools and for tools made of agents. */
  readonly mcp: Pick<McpRuntime, 'admission' | 'pipeline' | 'catalog' | 'gateway'>;
  readonly log: Log;
}

/** The row is as old as the gateway; what is sealed in it must only not end before. */
const KEY_LIFE = 10 * 365 * 24 * 60 * 60 * 1000;
/** More than any one machine holds open. */
const MOST_STREAMS = 10_000;

export class A2aRuntime {
  readonly directory = new Agents();
  readonly records: AgentRecords;
  readonly callbacks: Callbacks;
  readonly cards: Cards;
  readonly keys: CardKeys;
  readonly dispatcher: AgentDispatcher;
  /** The agents, which can be changed while the gateway runs. */
  readonly agents: Registrations<'agent'>;
  private readonly egress: Egress;
  /** For every URL that a caller or a card supplied. */
  private readonly guarded: HttpClient;
  private readonly sender: WebhookSender;
  /** Notifications that nobody took. */
  readonly deadLetters: DeadLetters;
  /** Where the endpoints are, once they are open. */
  private listener: string | undefined;
  private grpcListener: string | undefined;

  constructor(private readonly options: A2aRuntimeOptions) {
    const { config, state, replica, seal, authenticator, mcp, log, info } = options;
    const { admission, pipeline } = mcp;
    const { a2a, publicUrl } = config;
    const registry = state.registry as Registry<Entry>;
    this.egress = new Egress(config.egress);
    this.guarded = new HttpClient({
      connectTimeout: config.timeouts.connect,
      egress: this.egress,
      proxy: proxyRule(config.egress.proxy ?? 'none'),
    });
    this.records = tellingOfPushes(agentRecords(state, { taskTtl: a2a.taskTtl, shared: replica.shared }), () =>
      this.sender.nudge(),
    );
    const { records, directory } = this;
    this.keys = cardKeys(state, seal);
    const pushes = new PushNotifications({
      records,
      seal,
      dialect,
      checkUrl: (url) => this.egress.checkUrl(url),
      limit: a2a.pushConfigs,
    });
    const outbox = state.outbox as Outbox<QueuedPush>;
    this.deadLetters = new DeadLetters(outbox, pushes, () => this.sender.nudge());
    this.sender = new WebhookSender({
      outbox,
      pushes,
      client: this.guarded,
      signing: { sign: (claims) => this.keys.signJwt(claims), issuer: publicUrl ?? info.name },
      log,
      now: wallMs,
    });
    this.callbacks = new Callbacks({ seal, publicUrl: () => this.base, ttl: a2a.taskTtl });
    this.cards = new Cards({
      agents: directory,
      admission,
      base: () => this.base ?? '',
      fixed: publicUrl !== undefined,
      grpc: () => this.grpcAddress,
      identified: authenticator.enabled,
      push: true,
      routingAgent: {
        name: a2a.name,
        description: a2a.description,
        version: info.version,
        documentationUrl: a2a.documentationUrl,
        ...(a2a.organization !== undefined && {
          provider: { organization: a2a.organization, url: a2a.organizationUrl ?? this.base ?? '' },
        }),
      },
      describe: (name) => this.agents.get(name)?.description,
    });
    const { cards, callbacks } = this;
    this.dispatcher = new AgentDispatcher({
      agents: directory,
      admission,
      pipeline,
      records,
      seal,
      limits: {
        parts: a2a.parts,
        artifacts: a2a.artifacts,
        history: a2a.history,
        streams: MOST_STREAMS,
        streamsPerCaller: a2a.streams,
        maxHops: a2a.maxHops,
      },
      timeouts: { call: config.timeouts.call },
      instance: instanceOf(state),
      log,
      now: wallMs,
      router: buildRouter({ cards, records, gateway: () => this.dispatcher }),
      pushes,
      callbacks,
      cards,
    });
    this.agents = new Registrations('agent', config.agents, {
      registry,
      live: options.live,
      audit: state.audit,
      log,
      drain: config.timeouts.drain,
      bring: (name, settings) => this.bring(name, settings),
      takeAway: (name) => this.takeAway(name),
    });
  }

  async start(): Promise<void> {
    await this.agents.start();
  }

  /** The endpoints are open: agents may call back, and cards say where. */
  opened(listener: string, grpc: string | undefined): void {
    this.listener = listener;
    this.grpcListener = grpc;
    this.dispatcher.start();
    this.sender.start();
  }

  private get base(): string | undefined {
    return this.options.config.publicUrl ?? this.listener;
  }

  private get grpcAddress(): string | undefined {
    const { publicAddress } = this.options.config.grpc;
    return publicAddress && this.grpcListener !== undefined ? formatListen(publicAddress) : this.grpcListener;
  }

  private bring(name: string, settings: AgentConfig): (() => Promise<void>) | undefined {
    const agent = this.build(name, settings);
    const before = this.directory.put(agent);
    // Asked once by itself: an agent that is away now is asked again, and nobody waits for it.
    agent.facts().catch(() => {});
    this.withoutTools(name);
    // An agent that is made of tools would only offer them a second time.
    if (settings.mcp && settings.url !== undefined) this.withTools(agent, settings.timeouts.callMax);
    return before && (() => before.close());
  }

  private takeAway(name: string): (() => Promise<void>) | undefined {
    this.withoutTools(name);
    const before = this.directory.remove(name);
    return before && (() => before.close());
  }

  private withTools(agent: Agent, callMax: number): void {
    const { mcp, log } = this.options;
    const { catalog } = mcp;
    if (catalog.upstream(agent.name)) {
      log.warn({ agent: agent.name }, 'an agent has the name of a server, so its skills are not tools');
    } else catalog.put(new AgentUpstream(agent, this.dispatcher, callMax));
  }

  private withoutTools(name: string): void {
    const { catalog } = this.options.mcp;
    if (catalog.upstream(name) instanceof AgentUpstream) catalog.remove(name);
  }

  private build(name: string, settings: AgentConfig): Agent {
    const { config, log, mcp, seal, replica, credentials, explains } = this.options;
    const { url, tools } = settings;
    if (url === undefined) {
      return new ToolAgent({
        name,
        description: settings.description,
        tools,
        gateway: mcp.gateway,
        onToolsChanged: (listener) =>
          mcp.catalog.onChange((kind) => {
            if (kind === 'toolsListChanged') listener();
          }),
        records: this.records,
        tell: (key) => this.dispatcher.news(key, []),
        seal,
        cluster: replica.cluster,
        patience: config.a2a.taskTtl,
      });
    }
    const { guarded, egress } = this;
    return buildAgent(name, { ...settings, url } as Parameters<typeof buildAgent>[1], {
      guarded,
      egress,
      credentials,
      explains,
      limits: config.limits,
      log,
    });
  }

  async close(): Promise<void> {
    this.agents.close();
    await this.dispatcher.close();
    await this.sender.close();
    await this.directory.close();
    await this.guarded.close();
  }
}

/** One key for all replicas, sealed where they all look. */
function cardKeys(state: State, seal: Seal): CardKeys {
  const registry = state.registry as Registry<CardKeyRecord>;
  return new CardKeys({
    store: {
      load: async () => {
        const entry = await registry.get('key', 'cards');
        return entry && { record: entry.value, rev: entry.rev };
      },
      save: async (record, rev) => (await registry.put('key', 'cards', record, rev)) !== undefined,
    },
    sealer: {
      close: (value) => seal.close('key', 'parley', value, KEY_LIFE),
      open: (sealed) => seal.open('key', 'parley', sealed),
    },
    now: wallMs,
  });
}

/** The same for all replicas of a gateway, and for no other gateway. */
const instanceOf = ({ keyring }: State): string =>
  createHash('sha256').update('parley instance ').update(keyring.active.key).digest('base64url').slice(0, 16);
