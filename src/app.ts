/** The composition root: the only file that knows every room. */
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isLoopback } from './config/address.js';
import type { Config } from './config/schema.js';
import { OpenAdmission } from './core/admission.js';
import { Aggregate } from './core/aggregate.js';
import { Parking } from './core/bridge/parking.js';
import { States } from './core/bridge/states.js';
import { HostedTasks, type TaskRecord, type TaskRecords } from './core/bridge/tasks.js';
import { Catalog } from './core/catalog/catalog.js';
import { Pages } from './core/catalog/pages.js';
import { Forwarder } from './core/forward.js';
import { ALL_SERVERS, type Gateway } from './core/gateway.js';
import { Seal } from './core/seal.js';
import { withApproval } from './features/approval.js';
import { Guard, LOCAL } from './identity/guard.js';
import { Health } from './inbound/http/health.js';
import { Origins } from './inbound/http/origin.js';
import { routes } from './inbound/http/routes.js';
import { HttpServer } from './inbound/http/server.js';
import { type HttpCarrier, HttpDoor, refuse } from './inbound/mcp/http-door.js';
import { InfoPage } from './inbound/mcp/info-page.js';
import { ModernDoor } from './inbound/mcp/modern.js';
import type { SessionRecord, SessionRecords } from './inbound/mcp/session/records.js';
import { type Carrier, Sessions, type SessionsOptions } from './inbound/mcp/session/sessions.js';
import { type SseCarrier, SseDoor } from './inbound/mcp/sse-door.js';
import { StdioDoor } from './inbound/mcp/stdio-door.js';
import { HttpClient } from './outbound/http.js';
import { buildUpstream, type VerdictStore } from './outbound/mcp/build.js';
import type { Log } from './outbound/mcp/context.js';
import { stopAllChildren } from './outbound/stdio/process.js';
import type { Implementation } from './protocol/mcp/model.js';
import type { Verdict } from './protocol/mcp/probe.js';
import { isTerminal } from './protocol/mcp/project/task.js';
import { type Offer, offerOf } from './quickstart.js';
import { openState, Sessions as SessionRows, type State } from './state/index.js';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const INFO: Implementation = { name: 'parley', title: 'Parley', version };

/** How long a task of the gateway may run and its outcome is kept, and how often it is worth asking. */
const TASK_TTL = 60 * 60 * 1000;
const TASK_POLL = 500;

/** A verdict that nobody confirmed for so long is asked for again at the next start. */
const VERDICT_LIFE = 7 * 24 * 60 * 60 * 1000;

/** The gateway without its doors. */
class House {
  readonly catalog: Catalog;
  readonly aggregate: Aggregate;
  readonly seal: Seal;
  readonly parking: Parking;
  readonly tasks: HostedTasks;
  /** The core with its features around it: what every door calls. */
  readonly gateway: Gateway;
  private readonly http: HttpClient;

  private constructor(
    readonly config: Config,
    readonly state: State,
    readonly log: Log,
    verdicts: VerdictStore,
  ) {
    this.seal = new Seal(state.keyring);
    this.http = new HttpClient({ connectTimeout: config.timeouts.connect });
    this.catalog = new Catalog({ naming: config.naming, patience: config.timeouts.connect, log });
    for (const [name, settings] of Object.entries(config.servers)) {
      if (!settings.enabled) continue;
      this.catalog.add(
        buildUpstream(name, settings, {
          http: this.http,
          limits: config.limits,
          sessionIdle: config.session.idle,
          clientInfo: INFO,
          log,
          verdicts,
        }),
      );
    }
    const admission = new OpenAdmission((server) => config.servers[server]?.invocation !== false);
    const { bridge } = config;
    this.parking = new Parking({
      ttl: bridge.parkTtl,
      inAll: bridge.maxParked,
      perCaller: bridge.maxParkedPerCaller,
      perServer: bridge.maxParkedPerServer,
    });
    this.tasks = new HostedTasks(taskRecords(state), { ttl: TASK_TTL, pollInterval: TASK_POLL });
    const states = new States(this.seal, bridge.parkTtl);
    const { catalog, seal, parking, tasks } = this;
    this.aggregate = new Aggregate({
      catalog,
      pages: new Pages(catalog, admission, seal, config.limits.pageSize),
      admission,
      forwarder: new Forwarder({ catalog, admission, parking, states, tasks, seal, bridge, taskTtl: TASK_TTL }),
      tasks,
      bridge,
    });
    this.gateway = withApproval(this.aggregate, config.policy.approve, catalog, states);
  }

  static async build(config: Config, log: Log): Promise<House> {
    const { db, bus, keys } = config.state;
    const state = await openState({
      data: config.data,
      log,
      ...(db !== undefined && { db }),
      ...(bus !== undefined && { bus }),
      ...(keys.length > 0 && { keys: keys.map((key) => ({ id: keyId(key), key: keyText(key) })) }),
    });
    return new House(config, state, log, await rememberedVerdicts(state, config, log));
  }

  sessionsOptions(): SessionsOptions {
    const { config } = this;
    return {
      gateway: this.gateway,
      describe: (view) => this.aggregate.describe(view),
      tasks: this.tasks,
      identified: config.auth.tokens.length > 0,
      info: INFO,
      seal: this.seal,
      idle: config.session.idle,
      answerTime: config.bridge.parkTtl,
      logging: config.bridge.logging,
      strictVersions: config.mcp.versionNegotiation === 'strict',
      rootsChanged: (key) => {
        for (const name of this.catalog.servers) this.catalog.upstream(name)?.rootsChanged(key);
      },
      ended: (key) => {
        for (const name of this.catalog.servers) this.catalog.upstream(name)?.release(key);
      },
    };
  }

  async close(): Promise<void> {
    this.parking.close();
    this.tasks.close();
    await this.catalog.close();
    await stopAllChildren();
    await this.http.close();
    await this.state.close();
  }
}

/** Any secret of enough characters serves as a key; which one it is shows in its id, not what it is. */
const keyText = (key: string): string => createHash('sha256').update(`parley key ${key}`).digest('base64');
const keyId = (key: string): string => createHash('sha256').update(`parley id ${key}`).digest('hex').slice(0, 8);

/** Sessions of HTTP clients are rows: a restart, or another replica, goes on with them. */
function sessionRecords({ db }: State): SessionRecords {
  const store = new SessionRows<SessionRecord>(db);
  const until = (idle: number): number => Date.now() + idle;
  return {
    create: async (record, idle) => {
      await store.create({ id: record.key, principal: record.principal.name, value: record, expiresAt: until(idle) });
    },
    load: async (key) => (await store.get(key))?.value,
    update: async (key, progress) => {
      // Whoever writes at the same time writes of the same client; the last word counts.
      for (let found = await store.get(key); found; found = await store.get(key)) {
        if ((await store.update({ id: key, rev: found.rev, value: { ...found.value, progress } })) !== undefined)
          return;
      }
    },
    touch: async (key, idle) => {
      await store.touch(key, until(idle));
    },
    remove: async (key) => {
      await store.remove(key);
    },
    onRemoved: () => {},
  };
}

function taskRecords({ tasks }: State): TaskRecords {
  const save = (record: TaskRecord): { value: TaskRecord; expiresAt: number } => ({
    value: record,
    expiresAt: Date.parse(record.createdAt) + (record.ttlMs ?? TASK_TTL),
  });
  const revs = new Map<string, number>();
  return {
    create: async (record) => {
      await tasks.create({ id: record.taskId, principal: record.principal, ...save(record) });
      revs.set(record.taskId, 1);
    },
    update: async (record) => {
      const rev = await tasks.update({ id: record.taskId, rev: revs.get(record.taskId) ?? 0, ...save(record) });
      if (rev === undefined || isTerminal(record.status)) revs.delete(record.taskId);
      else revs.set(record.taskId, rev);
    },
    load: async (taskId) => (await tasks.get(taskId))?.value as TaskRecord | undefined,
    list: async (principal, after, limit) => {
      const found = await tasks.listByPrincipal(principal, { limit, ...(after !== undefined && { after }) });
      return found.map(({ value }) => value as TaskRecord);
    },
  };
}

/** Verdicts are read once at the start and written behind: no call waits for them. */
async function rememberedVerdicts(state: State, config: Config, log: Log): Promise<VerdictStore> {
  const known = new Map<string, Verdict>();
  const store = state.verdicts;
  for (const { target, value } of await store.all()) known.set(target, value as Verdict);
  log.debug({ verdicts: known.size, servers: Object.keys(config.servers).length }, 'verdicts recalled');
  return {
    recall: (target) => known.get(target),
    remember: (target, verdict) => {
      known.set(target, verdict);
      store
        .put(target, { value: verdict, datedAt: verdict.at, expiresAt: Date.now() + VERDICT_LIFE })
        .catch((error: unknown) => log.warn({ err: error }, 'a verdict was not saved'));
    },
  };
}

export { startExamples } from './quickstart.js';

export interface Running {
  readonly url: string;
  /** What was found behind it, under the names callers see; looked for in the quickstart only. */
  readonly offer: Offer | undefined;
  close(): Promise<void>;
}

export async function startServe(
  config: Config,
  { log, quickstart }: { log: Log; quickstart: boolean },
): Promise<Running> {
  const house = await House.build(config, log);
  const { aggregate, gateway, catalog, seal } = house;
  const modern = new ModernDoor(gateway, INFO);
  const sessions = new Sessions<HttpCarrier>({ ...house.sessionsOptions(), records: sessionRecords(house.state) });
  const sseSessions = new Sessions<SseCarrier>(house.sessionsOptions());
  const info = new InfoPage(gateway, (view) => aggregate.describe(view), INFO);
  const health = new Health(catalog, version, () => sessions.size + sseSessions.size);
  const mcp = new HttpDoor({
    modern,
    sessions,
    info,
    limits: config.limits,
    strictAccept: config.mcp.strictAccept,
    clientTermination: config.session.clientTermination,
  });
  const sse =
    config.mcp.sse && !config.mcp.legacyMode
      ? new SseDoor({
          sessions: sseSessions,
          info,
          limits: config.limits,
          mintId: (principal) => seal.close('session', principal.name, randomUUID(), config.session.idle),
        })
      : undefined;
  const loopback = isLoopback(config.listen.host);
  const server = new HttpServer({
    guard: new Guard(config.auth.tokens.length > 0 ? config.auth.tokens : undefined),
    origins: new Origins({
      loopback,
      hosts: [...config.hosts, ...(config.publicUrl ? [new URL(config.publicUrl).host] : [])],
      origins: config.origins,
      corsOrigins: config.cors.origins,
      credentials: config.cors.credentials,
    }),
    router: routes({ mcp, sse, health, catalog }),
    maxConnections: config.limits.connections,
    refuse: ({ req, res, headers }, error) => {
      const named = req.headers['mcp-protocol-version'];
      refuse(res, headers, error, typeof named === 'string' ? named : undefined);
    },
    failed: (error, path) => log.error({ err: error, path }, 'a request failed in the gateway'),
  });
  const address = await server.listen(config.listen.host, config.listen.port).catch(async (error: unknown) => {
    await house.close();
    throw error;
  });
  health.accepting = true;
  void catalog
    .warm()
    .then(() => log.info({ servers: catalog.servers.length }, 'the servers were asked for their lists'));
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return {
    url: `http://${host}:${address.port}`,
    offer: quickstart ? await offerOf(catalog) : undefined,
    close: async () => {
      health.accepting = false;
      modern.endListens();
      const drained = new Promise((resolve) => setTimeout(resolve, config.timeouts.drain).unref());
      sessions.close();
      sseSessions.close();
      await server.close(drained);
      await house.close();
    },
  };
}

export async function startStdio(config: Config, { server }: { server?: string }): Promise<void> {
  const { createLog } = await import('./cli/log.js');
  const log = createLog(config.log);
  const house = await House.build(config, log);
  const sessions = new Sessions<Carrier>(house.sessionsOptions());
  const modern = new ModernDoor(house.gateway, INFO);
  const door = new StdioDoor(
    {
      modern,
      sessions,
      principal: LOCAL,
      view: server === undefined ? ALL_SERVERS : { server },
      limits: config.limits,
    },
    process.stdout,
  );
  const stopped = new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
  });
  await Promise.race([door.serve(process.stdin), stopped]);
  process.stdin.destroy();
  door.end();
  sessions.close();
  await house.close();
}
