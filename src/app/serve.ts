/** `parley serve`: builds, opens and closes the parts of the gateway over HTTP. `app/` is the composition root. */
import { isLoopback } from '../config/address-fields.js';
import type { Config } from '../config/schema.js';
import { serverTarget, visible } from '../core/admission.js';
import { callerOf } from '../core/caller.js';
import type { Interceptor } from '../core/pipeline.js';
import { sleep, within } from '../core/timing.js';
import { isWholeAdmin } from '../core/whole-admin.js';
import { RestrictionAdmission } from '../identity/restrictions.js';
import { RecordingEndpoint } from '../inbound/admin/recording-endpoint.js';
import { ServerLogs } from '../inbound/admin/server-logs.js';
import { TailEndpoint } from '../inbound/admin/tail-endpoint.js';
import { PROBLEM_ERRORS } from '../inbound/api/problem-errors.js';
import { connectionsWithin } from '../inbound/http/file-descriptors.js';
import { Health } from '../inbound/http/health.js';
import { Origins } from '../inbound/http/host-and-origin.js';
import type { ListenerSettings } from '../inbound/http/listener.js';
import { OAuthMetadata } from '../inbound/http/oauth-metadata.js';
import type { RouteTable } from '../inbound/http/route-table.js';
import { routeTable } from '../inbound/http/routes.js';
import { HttpServer } from '../inbound/http/server.js';
import { Certificates } from '../inbound/http/tls.js';
import { MCP_ERRORS } from '../inbound/mcp/early-refusal.js';
import { ConnectEndpoint } from '../inbound/upstream-login/connect-endpoint.js';
import type { CallLog } from '../interceptors/call-log.js';
import type { Log } from '../telemetry/log.js';
import { A2aEndpoints } from './a2a-endpoints.js';
import type { ConfigReloader } from './config-reloader.js';
import { baseUrl, EndpointList } from './endpoint-list.js';
import { Lifecycle } from './lifecycle.js';
import { managementRoutes } from './management-api/routes.js';
import { McpEndpoints } from './mcp-endpoints.js';
import { offeredTools } from './offered-tools.js';
import { INFO, VERSION } from './product-info.js';
import { restRoutes } from './rest-endpoints.js';
import type { RunningGateway } from './running-gateway.js';
import { Runtime } from './runtime.js';
import { UpstreamStates } from './upstream-states.js';
import { pinFindings } from './visible-counts.js';

/** Time that the gateway still accepts calls after readiness reports false, in milliseconds. */
const ACCEPT_WHILE_LEAVING = 1_000;
/** Time for the last answers to reach their clients, in milliseconds. */
const FLUSH_TIME = 2_000;

export interface ServeOptions {
  readonly log: Log;
  readonly calls?: CallLog;
  /** Reads the configuration again, for the route of the management API. */
  readonly reloader?: Pick<ConfigReloader, 'reload'>;
  /** Additional interceptors around every call. */
  readonly interceptors?: readonly Interceptor[];
}

/** Starts the gateway. If the start fails, the parts that were started are stopped. */
export function startServe(config: Config, options: ServeOptions): Promise<RunningGateway> {
  const lifecycle = new Lifecycle(options.log);
  return lifecycle.start(() => serve(config, options, lifecycle));
}

async function serve(config: Config, options: ServeOptions, lifecycle: Lifecycle): Promise<RunningGateway> {
  const { log } = options;
  const began = performance.now();
  const tls = await tlsOf(config, log);
  const reporting = { ...options, showsOutput: (name: string) => `parley logs ${name}` };
  const runtime = lifecycle.add('runtime', await Runtime.build(config, INFO, log, reporting), (part) => part.close());
  const failed = (error: unknown, path?: string, requestId?: string): void => {
    if (path === undefined) log.error({ err: error }, 'failed to accept a connection');
    else log.error({ err: error, path, requestId }, 'a request failed in the gateway');
  };
  const { catalog } = runtime.mcp;
  const upstreamStates = new UpstreamStates(runtime, began);
  const endpoints = new EndpointList(runtime, upstreamStates);
  const mcp = new McpEndpoints(runtime, upstreamStates, endpoints, failed);
  const a2a = config.a2a.enabled ? new A2aEndpoints({ runtime, failed }) : undefined;
  const { reaches } = new RestrictionAdmission();
  const health = new Health({
    catalog,
    version: VERSION,
    sessions: (principal) => (isWholeAdmin(principal) ? mcp.sessions : mcp.sessionsOf(principal.key)),
    storage: () => runtime.state.health(),
    pins: (principal) => pinFindings(runtime.mcp, principal),
    audit: () => runtime.audit.status(),
    plugins: () => runtime.plugins.status(),
    knows: async (principal, server) => {
      const [seen] = await visible(runtime.mcp.admission, callerOf(principal), [server], serverTarget);
      return seen !== undefined;
    },
  });
  const { authentication } = runtime;
  const { resources, authorizationServer } = authentication;
  const oauth = new OAuthMetadata({ resources, authorizationServer });
  const { telemetry } = runtime;
  const tail = new TailEndpoint(telemetry.tail, reaches);
  const recording = new RecordingEndpoint(telemetry.recordings, runtime.audit, runtime.replica.cluster.self);
  const management = managementRoutes({
    ...{
      runtime,
      upstreamStates,
      sessions: () => mcp.sessions,
      endSession: (key) => mcp.endSession(key),
      reloader: options.reloader,
    },
    table: () => routes.routes,
  });
  const routes: RouteTable = routeTable({
    mcp: config.mcp.enabled ? mcp.http : 'off',
    sse: mcp.sse,
    webSocket: mcp.webSocket,
    catalog,
    views: runtime.mcp.views,
    admission: runtime.mcp.admission,
    a2a: a2a?.endpoints ?? 'off',
    others: [
      ...health.routes(MCP_ERRORS),
      ...new ServerLogs(catalog, reaches).routes(MCP_ERRORS),
      ...telemetry.routes(MCP_ERRORS, runtime.authenticator),
      ...tail.routes(MCP_ERRORS),
      ...recording.routes(PROBLEM_ERRORS),
      ...authentication.loginRoutes(),
      ...connectEndpointOf(runtime).routes(MCP_ERRORS),
      ...management,
      ...restRoutes(runtime),
    ],
    apiErrors: PROBLEM_ERRORS,
    wellKnown: { routes: oauth.routes(MCP_ERRORS), fallbacks: oauth.fallbacks(MCP_ERRORS) },
  });
  const server = new HttpServer({
    authenticator: runtime.authenticator,
    refusals: runtime.refusals,
    recheck: authentication.recheck,
    origins: originsOf(config),
    routes,
    overloaded: runtime.overload.refusal,
    refused: telemetry.refused,
    listener: {
      limits: { ...config.limits, connections: connectionsWithin(config.limits.connections) },
      times: config.timeouts,
      trustedProxies: config.trustedProxies,
      tls,
      log,
      limited: telemetry.limited,
    },
    failed,
  });
  telemetry.measure(runtime, { mcp, unread: () => server.unread });
  await telemetry.startPush(log);
  const { address, family, port } = await server.listen(config.listen.host, config.listen.port);
  lifecycle.add('endpoints', { mcp, a2a, tail, recording, server }, (part) => closeEndpoints(part, config.timeouts));
  const url = `${tls ? 'https' : 'http'}://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
  runtime.upstreamLogins.opened(baseUrl(config, address, port));
  authentication.opened(url);
  endpoints.grpc = await a2a?.listen();
  if (a2a) runtime.a2a.opened(url, endpoints.grpc);
  lifecycle.add('readiness', health, (part) => {
    part.accepting = false;
  });
  health.accepting = true;
  lifecycle.add('upstream states', upstreamStates, (part) => part.close());
  upstreamStates.start();
  void catalog.warm();
  const base = baseUrl(config, address, port);
  return {
    url,
    routes: routes.routes,
    reload: async (next, by) => {
      await server.reload();
      return runtime.reload(next, by);
    },
    settled: (milliseconds) => upstreamStates.settled(milliseconds),
    summary: () => endpoints.summary(base),
    offer: () => offeredTools(catalog),
    reportChanges: () => upstreamStates.logChanges(log),
    close: () => lifecycle.stop(),
  };
}

/** The TLS settings of the listener; undefined without a certificate. */
async function tlsOf(config: Config, log: Log): Promise<ListenerSettings['tls']> {
  const { cert, key, clientCa, clientCertificate } = config.tls;
  if (cert === undefined || key === undefined) return undefined;
  const files = { cert, key, clientCa, clientCertificate };
  return { files, certificates: await Certificates.load(files, log) };
}

function originsOf({ hosts, publicUrl, listen, origins, cors }: Config): Origins {
  const loopback = isLoopback(listen.host);
  const given = [...hosts, ...(publicUrl ? [new URL(publicUrl).host] : [])];
  // The gateway's own pages send forms, so their origin must be accepted.
  const ownPages = publicUrl ? [new URL(publicUrl).origin] : [];
  const own = listen.host.includes(':') ? `[${listen.host}]` : listen.host;
  return new Origins({
    loopback,
    // On a non-loopback address the Host header is checked only if host names are configured.
    hosts: loopback || given.length > 0 ? [...given, own] : [],
    origins: [...origins, ...ownPages],
    corsOrigins: cors.origins,
    credentials: cors.credentials,
  });
}

/** The pages on which users sign in at servers and agents. */
function connectEndpointOf({ upstreamLogins, authenticator, browser, state }: Runtime): ConnectEndpoint {
  return new ConnectEndpoint({
    logins: upstreamLogins.logins,
    links: upstreamLogins.links,
    base: () => upstreamLogins.base,
    identified: authenticator.enabled,
    browser,
    count: (key, ttl) => state.bus.incr(key, 1, ttl),
  });
}

interface Endpoints {
  readonly mcp: McpEndpoints;
  readonly a2a: A2aEndpoints | undefined;
  readonly tail: TailEndpoint;
  readonly recording: RecordingEndpoint;
  readonly server: HttpServer;
}

/** Ends streams so that clients move to another replica, waits for calls under way, then closes every connection. */
async function closeEndpoints(
  { mcp, a2a, tail, recording, server }: Endpoints,
  timeouts: Config['timeouts'],
): Promise<void> {
  const endStreams = (): void => {
    mcp.endStreams();
    tail.endStreams();
    recording.endStreams();
    a2a?.endStreams();
  };
  endStreams();
  await server.leave(Math.min(ACCEPT_WHILE_LEAVING, timeouts.drain));
  endStreams();
  let force = (): void => {};
  const forced = new Promise<void>((resolve) => (force = resolve));
  const closed = Promise.all([server.close(forced), a2a?.close(forced)]);
  const busy = (): number => mcp.busy + (a2a?.busy ?? 0);
  for (const end = performance.now() + timeouts.drain; busy() > 0 && performance.now() < end; ) await sleep(20);
  mcp.close();
  await within(closed, FLUSH_TIME);
  force();
  await closed;
}
