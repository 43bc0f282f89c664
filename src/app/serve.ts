/** The composition root: `app/` is the only folder that knows every layer. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { formatListen, isLoopback } from '../config/address.js';
import type { Config } from '../config/schema.js';
import { agentTarget, serverTarget, visible } from '../core/admission.js';
import { ALL_SERVERS, oneServer } from '../core/gateway.js';
import type { Interceptor } from '../core/pipeline.js';
import { sleep, within } from '../core/timing.js';
import { forOperators } from '../core/upstream-monitor.js';
import { OPEN } from '../identity/authenticator.js';
import { CardDoor } from '../inbound/a2a/card-door.js';
import { DeadLetterDoor } from '../inbound/a2a/dead-letter-door.js';
import type { GrpcDoor } from '../inbound/a2a/grpc-door.js';
import { A2aDoor } from '../inbound/a2a/http-door.js';
import { PushDoor } from '../inbound/a2a/push-door.js';
import { restErrors } from '../inbound/a2a/refusals.js';
import { ServerLogs } from '../inbound/admin/server-logs.js';
import { connectionsWithin } from '../inbound/http/descriptors.js';
import { Health } from '../inbound/http/health.js';
import type { ListenerSettings } from '../inbound/http/listener.js';
import { Origins } from '../inbound/http/origin.js';
import { type AgentEndpoints, routeTable } from '../inbound/http/routes.js';
import { HttpServer } from '../inbound/http/server.js';
import { Certificates } from '../inbound/http/tls.js';
import { type HttpCarrier, HttpDoor } from '../inbound/mcp/http-door.js';
import { InfoPage } from '../inbound/mcp/info-page.js';
import { ModernDoor } from '../inbound/mcp/modern.js';
import { MCP_ERRORS } from '../inbound/mcp/refusals.js';
import { type Carrier, Sessions } from '../inbound/mcp/session/sessions.js';
import { type SseCarrier, SseDoor } from '../inbound/mcp/sse-door.js';
import { StdioDoor } from '../inbound/mcp/stdio-door.js';
import type { CallLog } from '../interceptors/call-log.js';
import { DIALECTS } from '../protocol/a2a/index.js';
import type { Implementation } from '../protocol/mcp/model.js';
import type { Log } from '../telemetry/log.js';
import { sessionRecords } from './mcp-records.js';
import { offerOf } from './offer.js';
import { baseUrl, endpointsOf, logChange, monitorOf, shortSnippets } from './overview.js';
import type { RunningGateway } from './running.js';
import { Runtime } from './runtime.js';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

/** After a word that it is not ready, so long a gateway serves what comes all the same. */
const LAST_CALLS = 1_000;
const LAST_WORDS = 2_000;
/** How long a summary waits for the skills of agents. */
const SKILLS = 500;

const INFO: Implementation = { name: 'parley', title: 'Parley', version };

/** The names the gateway is called by; away from loopback there are none unless some are given. */
function hostsOf({ hosts, publicUrl, listen }: Config, loopback: boolean): string[] {
  const given = [...hosts, ...(publicUrl ? [new URL(publicUrl).host] : [])];
  if (!loopback && given.length === 0) return [];
  return [...given, listen.host.includes(':') ? `[${listen.host}]` : listen.host];
}

export interface ServeOptions {
  readonly log: Log;
  readonly calls?: CallLog;
  /** Steps around every call, beside those of the gateway. */
  readonly interceptors?: readonly Interceptor[];
}

export async function startServe(config: Config, { log, calls, interceptors }: ServeOptions): Promise<RunningGateway> {
  const began = performance.now();
  const tls = await tlsOf(config, log);
  const runtime = await Runtime.build(config, INFO, log, {
    showsOutput: (name) => `parley logs ${name}`,
    ...(calls && { calls }),
    ...(interceptors && { interceptors }),
  });
  const { gateway, catalog, seal } = runtime;
  const modern = new ModernDoor(gateway, INFO, runtime.states);
  const sessions = new Sessions<HttpCarrier>({
    ...runtime.sessionsOptions(),
    records: sessionRecords(runtime.state, runtime.cluster),
  });
  const sseSessions = new Sessions<SseCarrier>(runtime.sessionsOptions());
  const monitor = monitorOf(runtime, began);
  const { directory } = runtime.a2a;
  let grpc: string | undefined;
  const sseServed = config.mcp.enabled && config.mcp.sse && !config.mcp.legacyMode;
  const endpoints = (base: string) =>
    endpointsOf({ base, mcp: config.mcp.enabled, sse: sseServed, agents: directory.names().length > 0, grpc });
  /** The skills of an agent made of tools are known once its servers are and somebody asks. */
  const skillsKnown = async (): Promise<void> => {
    const agents = directory.names().flatMap((name) => directory.get(name) ?? []);
    const unknown = agents.filter((agent) => agent.health().status === 'up' && !agent.known());
    if (unknown.length > 0) await within(Promise.allSettled(unknown.map((agent) => agent.facts())), SKILLS);
    monitor.sample();
  };
  const { authenticator } = runtime;
  const guarded = authenticator.enabled;
  const info = new InfoPage({
    gateway,
    info: INFO,
    states: async (caller) => {
      await skillsKnown();
      return visible(runtime.admission, caller, monitor.states(), ({ kind, name }) =>
        kind === 'agent' ? agentTarget(name) : serverTarget(name),
      );
    },
    endpoints,
    publicUrl: config.publicUrl,
    guarded,
  });
  const health = new Health({
    catalog,
    version,
    sessions: () => sessions.size + sseSessions.size,
    storage: () => runtime.state.health(),
  });
  const mcp = new HttpDoor({
    modern,
    sessions,
    info,
    limits: config.limits,
    ...(runtime.streams && { shared: runtime.streams }),
    resumeWindow: config.session.resumeWindow,
    strictAccept: config.mcp.strictAccept,
    clientTermination: config.session.clientTermination,
  });
  const sse = sseServed
    ? new SseDoor({
        sessions: sseSessions,
        info,
        limits: config.limits,
        mintId: (principal) => seal.close('session', principal.key, randomUUID(), config.session.idle),
      })
    : undefined;
  const loopback = isLoopback(config.listen.host);
  const failed = (error: unknown, path?: string, requestId?: string): void => {
    if (path === undefined) log.error({ err: error }, 'a connection could not be taken');
    else log.error({ err: error, path, requestId }, 'a request failed in the gateway');
  };
  const a2a = config.a2a.enabled ? agentDoors(runtime, failed) : undefined;
  const routes = routeTable({
    mcp: config.mcp.enabled ? mcp : 'off',
    sse,
    catalog,
    a2a: a2a?.endpoints ?? 'off',
    others: [...health.routes(MCP_ERRORS), ...new ServerLogs(catalog).routes(MCP_ERRORS)],
  });
  const server = new HttpServer({
    authenticator,
    origins: new Origins({
      loopback,
      hosts: hostsOf(config, loopback),
      origins: config.origins,
      corsOrigins: config.cors.origins,
      credentials: config.cors.credentials,
    }),
    routes,
    listener: {
      limits: { ...config.limits, connections: connectionsWithin(config.limits.connections) },
      times: config.timeouts,
      trustedProxies: config.trustedProxies,
      tls,
      log,
    },
    failed,
  });
  const address = await server.listen(config.listen.host, config.listen.port).catch(async (error: unknown) => {
    await runtime.close();
    throw error;
  });
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  const url = `${tls ? 'https' : 'http'}://${host}:${address.port}`;
  grpc = await a2a?.listen();
  if (a2a) runtime.a2a.opened(url, grpc);
  health.accepting = true;
  monitor.start();
  void catalog.warm();
  const base = baseUrl(config, address.address, address.port);
  return {
    url,
    routes: routes.routes,
    reload: async (next) => {
      await server.reload();
      return runtime.reload(next);
    },
    settled: async (milliseconds) => {
      await monitor.settled(milliseconds);
      await skillsKnown();
    },
    summary: () => ({
      upstreams: monitor.states().map(forOperators),
      endpoints: endpoints(base),
      paste: config.mcp.enabled ? shortSnippets(`${base}/mcp`, guarded) : [],
      page: config.mcp.enabled && !guarded ? `${base}/` : undefined,
    }),
    offer: () => offerOf(catalog),
    reportChanges: () => {
      monitor.onChange((change) => logChange(log, change));
    },
    close: async () => {
      monitor.close();
      health.accepting = false;
      const sendAway = (): void => {
        modern.endListens();
        a2a?.door.endStreams();
        sessions.comeBack();
      };
      sendAway();
      await server.leave(Math.min(LAST_CALLS, config.timeouts.drain));
      sendAway();
      let force = (): void => {};
      const forced = new Promise<void>((resolve) => (force = resolve));
      const closed = Promise.all([server.close(forced), a2a?.close(forced)]);
      const busy = (): number => modern.busy + sessions.busy + sseSessions.busy + (a2a?.door.busy ?? 0);
      await drained(busy, config.timeouts.drain);
      sessions.close();
      sseSessions.close();
      // What was said last is on its way.
      await within(closed, LAST_WORDS);
      force();
      await closed;
      await runtime.close();
    },
  };
}

/** TLS as it is configured, if it is. */
async function tlsOf(config: Config, log: Log): Promise<ListenerSettings['tls']> {
  const { cert, key, clientCa, clientCertificate } = config.tls;
  if (cert === undefined || key === undefined) return undefined;
  const files = { cert, key, clientCa, clientCertificate };
  return { files, certificates: await Certificates.load(files, log) };
}

/** The doors of A2A, over HTTP and gRPC. */
function agentDoors(runtime: Runtime, failed: (error: unknown, path: string, requestId?: string) => void) {
  const { config, state } = runtime;
  const { a2a, limits, grpc } = config;
  const { hall, directory, cards, keys, callbacks, records, deadLetters } = runtime.a2a;
  const profile = a2a.errorProfile;
  const { authenticator } = runtime;
  const door = new A2aDoor({ gateway: hall, agents: directory, limits, profile, failed });
  const cardDoor = new CardDoor({
    cards,
    gateway: hall,
    keys,
    publicCards: a2a.publicCards,
    identified: authenticator.enabled,
    profile,
  });
  const dead = new DeadLetterDoor(deadLetters);
  const push = new PushDoor({ callbacks, records, hall, dialects: DIALECTS, bus: state.bus, limits });
  let grpcDoor: GrpcDoor | undefined;
  const endpoints: AgentEndpoints = {
    routes: [...cardDoor.routes(), ...dead.routes(restErrors(profile)), ...push.routes(), ...door.routes()],
    fallbacks: door.fallbacks(),
    agent: door.agent,
  };
  return {
    door,
    endpoints,
    /** Opens the gRPC door, if there is one to be; returns its address. */
    listen: async (): Promise<string | undefined> => {
      if (!grpc.listen) return undefined;
      const { host, port } = grpc.listen;
      // Loaded by those who want it: it is the largest library of all.
      const { GrpcDoor } = await import('../inbound/a2a/grpc-door.js');
      grpcDoor = new GrpcDoor({
        gateway: hall,
        authenticator,
        knows: (name) => !!directory.get(name),
        profile,
        limits,
        failed,
      });
      const bound = await grpcDoor.listen(host, port);
      return formatListen({ host, port: bound.port });
    },
    close: (force: Promise<unknown>): Promise<void> | undefined => grpcDoor?.close(force),
  };
}

/** Resolves when nothing is under way any more, or when waiting has taken long enough. */
async function drained(busy: () => number, patience: number): Promise<void> {
  for (const end = performance.now() + patience; busy() > 0 && performance.now() < end; ) {
    await sleep(20);
  }
}

export interface StdioOptions extends ServeOptions {
  /** The only server to serve; all of them without it. */
  readonly server?: string;
  readonly started?: (gateway: Pick<RunningGateway, 'reload'>) => void;
  /** The pipes of the client; those of this process without them. */
  readonly input?: Readable;
  readonly output?: Writable;
}

export async function startStdio(config: Config, options: StdioOptions): Promise<void> {
  const { log, calls, interceptors, server, started, input = process.stdin, output = process.stdout } = options;
  const began = performance.now();
  const runtime = await Runtime.build(config, INFO, log, {
    private: true,
    showsOutput: () => 'log.level: debug',
    ...(calls && { calls }),
    ...(interceptors && { interceptors }),
  });
  const monitor = monitorOf(runtime, began);
  monitor.onChange((change) => logChange(log, change));
  monitor.start();
  const view = server === undefined ? ALL_SERVERS : oneServer(server);
  void runtime.catalog.warm(view);
  const sessions = new Sessions<Carrier>(runtime.sessionsOptions());
  const modern = new ModernDoor(runtime.gateway, INFO, runtime.states);
  const door = new StdioDoor(
    {
      modern,
      sessions,
      // The program that started the gateway is its operator, whatever tokens there are.
      authenticator: OPEN,
      view,
      limits: config.limits,
      failed: (error) => log.error({ err: error }, 'a request failed in the gateway'),
    },
    output,
  );
  started?.({ reload: (next) => runtime.reload(next) });
  const stopped = new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
  });
  await Promise.race([door.serve(input), stopped]);
  input.destroy();
  monitor.close();
  door.end();
  sessions.close();
  await runtime.close();
}
