/** The A2A side of the running gateway: composes agents, their tasks, cards and webhooks. */
import { createHash } from 'node:crypto';
import { formatListen } from '../config/address-fields.js';
import type { AgentConfig, Config } from '../config/schema.js';
import type { Agent } from '../core/a2a/agent.js';
import { Cards } from '../core/a2a/cards/published-cards.js';
import { AgentDispatcher } from '../core/a2a/dispatcher.js';
import { AgentUpstream } from '../core/a2a/protocol-bridge/agent-upstream.js';
import { ToolAgent } from '../core/a2a/protocol-bridge/tool-agent.js';
import { Callbacks } from '../core/a2a/push/agent-callback-urls.js';
import { PushNotifications, type QueuedPush, withPushSignal } from '../core/a2a/push/push-notifications.js';
import { Agents } from '../core/a2a/routing/agent-directory.js';
import { buildRouter } from '../core/a2a/routing/ask-which-agent.js';
import { EqualSkills } from '../core/a2a/routing/choice-among-equal-skills.js';
import { SignInAgent } from '../core/a2a/sign-in-agent.js';
import type { AgentRecords } from '../core/a2a/tasks/task-records.js';
import type { AuditTrail } from '../core/audit-trail.js';
import { REQUEST_BYTES } from '../core/era-bridge/request-byte-limits.js';
import { TaskSlots } from '../core/era-bridge/task-slots.js';
import type { ChoiceLog } from '../core/replica-choice/choice-log.js';
import type { QualitySource } from '../core/replica-choice/reward.js';
import type { Seal } from '../core/seal.js';
import type { Authenticator } from '../identity/authenticator.js';
import { type CardKeyRecord, CardKeys } from '../identity/card-keys.js';
import type { Credentials } from '../identity/upstream-credentials.js';
import { asksForLogin } from '../identity/upstream-login/login-settings.js';
import { argumentProblems } from '../interceptors/argument-validation.js';
import { pushedEvents } from '../interceptors/plugin-hooks/on-event.js';
import { buildAgent } from '../outbound/a2a/build-agent.js';
import type { SafeHttp } from '../outbound/safe-http.js';
import { DeadLetters } from '../outbound/webhooks/dead-letters.js';
import { WebhookSender } from '../outbound/webhooks/sender.js';
import { dialect } from '../protocol/a2a/index.js';
import type { Implementation } from '../protocol/mcp/model.js';
import { type Dropped, newId, type Outbox, type Registry, type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { agentRecords } from './a2a-records.js';
import type { Replica } from './join-replicas.js';
import type { McpRuntime } from './mcp-runtime.js';
import type { Plugins } from './plugin-loader.js';
import type { Entry } from './registration-writes.js';
import { Registrations } from './registrations.js';
import { CARD_KEY } from './reseal-stored.js';
import { fingerprintOf } from './settings-fingerprint.js';

export interface A2aRuntimeOptions {
  readonly config: Config;
  /** The configuration in effect; agents registered at run time are checked against it. */
  readonly live: () => Config;
  readonly info: Implementation;
  readonly state: State;
  readonly replica: Replica;
  readonly seal: Seal;
  readonly authenticator: Authenticator;
  readonly credentials: Credentials;
  readonly audit: AuditTrail;
  /** Stores choices among agents with equal skills. */
  readonly choices?: ChoiceLog | undefined;
  /** Scores of evaluators, for choices among agents with equal skills. */
  readonly quality?: QualitySource | undefined;
  /** Whether callers, and not only operators, see the details of failures. */
  readonly explains: boolean;
  /** The MCP side, for the protocol bridge: agents made of tools, and tools made of agents. */
  readonly mcp: Pick<McpRuntime, 'admission' | 'pipeline' | 'catalog' | 'gateway' | 'traced'>;
  /** The HTTP client for every URL that a caller or an agent card supplied. */
  readonly safeHttp: SafeHttp;
  readonly plugins: Pick<Plugins, 'all'>;
  readonly log: Log;
}

/** Lifetime of the seal around the card signing key: longer than any installation, because the key is kept for good. */
const KEY_LIFE = 10 * 365 * 24 * 60 * 60 * 1000;
/**
 * Limit on the open streams of all callers together. It is more than one machine can hold open, so in practice only the
 * limit of each caller applies.
 */
const MAX_STREAMS = 10_000;
/**
 * Lease, in milliseconds, of the replica that delivers the message of a task after a sign-in. Other replicas do not
 * deliver the message while the lease lasts.
 */
const SIGN_IN_CLAIM = 60_000;
/**
 * Limits on the running tasks of agents made of tools. Their calls continue after the callers have received an answer.
 */
const TOOL_TASKS = { perCaller: 1_000, inAll: 10_000, requests: REQUEST_BYTES } as const;

export class A2aRuntime {
  readonly directory = new Agents();
  readonly records: AgentRecords;
  readonly callbacks: Callbacks;
  readonly cards: Cards;
  readonly keys: CardKeys;
  readonly dispatcher: AgentDispatcher;
  /** The agents behind the gateway; they can change while it runs. */
  readonly agents: Registrations<'agent'>;
  private readonly sender: WebhookSender;
  private readonly toolTasks = new TaskSlots(TOOL_TASKS);
  /** Push notifications that could not be delivered. */
  readonly deadLetters: DeadLetters;
  /** The URL of the HTTP endpoints, once they are open. */
  private listener: string | undefined;
  private grpcListener: string | undefined;

  constructor(private readonly options: A2aRuntimeOptions) {
    const { config, state, replica, seal, authenticator, mcp, safeHttp, log, info } = options;
    const { admission, pipeline } = mcp;
    const { a2a, publicUrl } = config;
    const registry = state.registry as Registry<Entry>;
    const dropped = (owner: string, numbers: Dropped): void =>
      log.warn(
        { event: 'webhook.dropped', owner, ...numbers },
        'dropped the oldest notifications of a caller: its webhooks do not accept them, and too many were stored',
      );
    const stored = agentRecords(state, { taskTtl: a2a.taskTtl, shared: replica.shared, dropped });
    this.records = withPushSignal(stored, () => this.sender.nudge());
    const { records, directory } = this;
    this.keys = cardKeys(state, seal);
    const pushes = new PushNotifications({
      records,
      seal,
      dialect,
      checkUrl: (url) => safeHttp.egress.checkUrl(url),
      limit: a2a.pushConfigs,
      pass: pushedEvents(options.plugins.all),
      revoked: async ({ kind, id }) => kind === 'key' && (await state.apiKeys.find(id))?.revokedAt !== undefined,
    });
    const outbox = state.outbox as Outbox<QueuedPush>;
    this.deadLetters = new DeadLetters(outbox, pushes, () => this.sender.nudge());
    this.sender = new WebhookSender({
      outbox,
      pushes,
      client: safeHttp.client,
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
    const { choices, quality } = options;
    const equalSkills = new EqualSkills({ objective: config.routing.objective, choices, quality });
    this.dispatcher = new AgentDispatcher({
      agents: directory,
      admission,
      pipeline,
      traced: mcp.traced,
      records,
      seal,
      limits: {
        parts: a2a.parts,
        artifacts: a2a.artifacts,
        history: a2a.history,
        taskSize: a2a.taskSize,
        tasks: a2a.tasks,
        streams: MAX_STREAMS,
        streamsPerCaller: a2a.streams,
        followed: a2a.followed,
        maxHops: a2a.maxHops,
      },
      timeouts: { call: config.timeouts.call },
      instance: instanceOf(state),
      log,
      now: wallMs,
      router: buildRouter({ cards, records, gateway: () => this.dispatcher, equalSkills }),
      pushes,
      callbacks,
      cards,
    });
    this.agents = new Registrations('agent', config.agents, {
      registry,
      live: options.live,
      audit: options.audit,
      egress: safeHttp.egress,
      fingerprint: fingerprintOf(state),
      log,
      drain: config.timeouts.drain,
      install: (name, settings, guarded) => this.install(name, settings, guarded),
      uninstall: (name) => this.uninstall(name),
    });
  }

  async start(): Promise<void> {
    await this.agents.start();
  }

  /**
   * Called when the endpoints are open. From now on agents can push to these endpoints, and cards name their addresses.
   */
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

  private install(name: string, settings: AgentConfig, guarded: boolean): (() => Promise<void>) | undefined {
    const agent = this.build(name, settings, guarded);
    const before = this.directory.put(agent);
    // Fetch the card in the background. If the agent is unreachable, the next use fetches the card again.
    agent.facts().catch(() => {});
    this.withoutTools(name);
    // An agent made of tools adds no tools, because the catalog already contains these tools.
    if (settings.mcp && settings.url !== undefined) this.withTools(agent, settings);
    return before && (() => before.close());
  }

  private uninstall(name: string): (() => Promise<void>) | undefined {
    this.withoutTools(name);
    const before = this.directory.remove(name);
    return before && (() => before.close());
  }

  private withTools(agent: Agent, { timeouts, pin }: AgentConfig): void {
    const { mcp, log } = this.options;
    const { catalog } = mcp;
    if (catalog.upstream(agent.name)) {
      log.warn({ agent: agent.name }, 'the skills of this agent are not offered as tools: a server has the same name');
    } else catalog.put(new AgentUpstream(agent, this.dispatcher, timeouts.callMax), undefined, [], pin);
  }

  private withoutTools(name: string): void {
    const { catalog } = this.options.mcp;
    if (catalog.upstream(name) instanceof AgentUpstream) catalog.remove(name);
  }

  private build(name: string, settings: AgentConfig, guarded: boolean): Agent {
    const { config, log, mcp, seal, replica, credentials, explains, safeHttp } = this.options;
    const { url, tools } = settings;
    if (url === undefined) {
      return new ToolAgent({
        name,
        description: settings.description,
        tools,
        check: argumentProblems,
        gateway: mcp.gateway,
        onToolsChanged: (listener) =>
          mcp.catalog.onChange((kind) => {
            if (kind === 'toolsListChanged') listener();
          }),
        records: this.records,
        tell: (key) => this.dispatcher.handleCallback(key, []),
        seal,
        cluster: replica.cluster,
        patience: config.a2a.taskTtl,
        slots: this.toolTasks,
      });
    }
    const agent = buildAgent(name, { ...settings, url } as Parameters<typeof buildAgent>[1], {
      guarded: safeHttp.client,
      egress: safeHttp.egress,
      ...(guarded && { guard: safeHttp }),
      credentials,
      explains,
      limits: config.limits,
      log,
    });
    if (!asksForLogin(settings.auth.oauth)) return agent;
    return new SignInAgent({ agent, records: this.records, claim: (task) => this.claimSignIn(task) });
  }

  /** Lets only one replica deliver the message of a task that waited for a sign-in. */
  private async claimSignIn(task: string): Promise<(() => Promise<void>) | undefined> {
    const { bus } = this.options.state;
    const [key, owner] = [`sign-in:${task}`, newId()];
    if ((await bus.lease(key, owner, SIGN_IN_CLAIM)) === undefined) return undefined;
    return async () => {
      await bus.release(key, owner);
    };
  }

  async close(): Promise<void> {
    this.agents.close();
    await this.dispatcher.close();
    await this.sender.close();
    await this.directory.close();
  }
}

/** The key that signs cards, the same for all replicas: stored sealed in the shared database. */
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
      close: (value) => seal.close(...CARD_KEY, value, KEY_LIFE),
      open: (sealed) => seal.open(...CARD_KEY, sealed),
    },
    now: wallMs,
  });
}

/** An id that all replicas of one gateway share and no other gateway has. */
const instanceOf = ({ keyring }: State): string =>
  createHash('sha256').update('parley instance ').update(keyring.active.key).digest('base64url').slice(0, 16);
