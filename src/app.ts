/** The composition root: the only file that knows every room. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isLoopback } from './config/address.js';
import type { Config } from './config/schema.js';
import { ALL_SERVERS } from './core/gateway.js';
import { House } from './house.js';
import { Guard, LOCAL } from './identity/guard.js';
import { Health } from './inbound/http/health.js';
import { Origins } from './inbound/http/origin.js';
import { routes } from './inbound/http/routes.js';
import { HttpServer } from './inbound/http/server.js';
import { type HttpCarrier, HttpDoor, refuse } from './inbound/mcp/http-door.js';
import { InfoPage } from './inbound/mcp/info-page.js';
import { ModernDoor } from './inbound/mcp/modern.js';
import { type Carrier, Sessions } from './inbound/mcp/session/sessions.js';
import { type SseCarrier, SseDoor } from './inbound/mcp/sse-door.js';
import { StdioDoor } from './inbound/mcp/stdio-door.js';
import type { Log } from './outbound/mcp/context.js';
import type { Implementation } from './protocol/mcp/model.js';
import { type Offer, offerOf } from './quickstart.js';
import { sessionRecords } from './records.js';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const INFO: Implementation = { name: 'parley', title: 'Parley', version };

/** The names the gateway is called by; away from loopback there are none unless some are given. */
function hostsOf({ hosts, publicUrl, listen }: Config, loopback: boolean): string[] {
  const given = [...hosts, ...(publicUrl ? [new URL(publicUrl).host] : [])];
  if (!loopback && given.length === 0) return [];
  return [...given, listen.host.includes(':') ? `[${listen.host}]` : listen.host];
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
  const house = await House.build(config, INFO, log);
  const { aggregate, gateway, catalog, seal } = house;
  const modern = new ModernDoor(gateway, INFO);
  const sessions = new Sessions<HttpCarrier>({
    ...house.sessionsOptions(),
    records: sessionRecords(house.state, house.cluster),
  });
  const sseSessions = new Sessions<SseCarrier>(house.sessionsOptions());
  const info = new InfoPage(gateway, (view) => aggregate.describe(view), INFO);
  const health = new Health(catalog, version, () => sessions.size + sseSessions.size);
  const mcp = new HttpDoor({
    modern,
    sessions,
    info,
    limits: config.limits,
    ...(house.streams && { shared: house.streams }),
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
      hosts: hostsOf(config, loopback),
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
      sessions.comeBack();
      let force = (): void => {};
      const closed = server.close(new Promise<void>((resolve) => (force = resolve)));
      await drained(() => modern.busy + sessions.busy + sseSessions.busy, config.timeouts.drain);
      sessions.close();
      sseSessions.close();
      force();
      await closed;
      await house.close();
    },
  };
}

/** Resolves when nothing is under way any more, or when waiting has taken long enough. */
async function drained(busy: () => number, patience: number): Promise<void> {
  for (const end = Date.now() + patience; busy() > 0 && Date.now() < end; ) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export async function startStdio(config: Config, { server }: { server?: string }): Promise<void> {
  const { createLog } = await import('./cli/log.js');
  const log = createLog(config.log);
  const house = await House.build(config, INFO, log);
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
