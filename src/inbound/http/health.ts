import type { AuditStatus } from '../../core/audit-trail.js';
import { ANONYMOUS, isAdmin, type Principal } from '../../core/caller.js';
import type { Catalog } from '../../core/catalog/catalog.js';
import { within } from '../../core/timing.js';
import type { UpstreamHealth } from '../../core/upstream.js';
import { ANYBODY } from '../../identity/authenticator.js';
import type { ErrorFormat, RequestContext, Route } from './route.js';
import { sendJson } from './send-body.js';

/** Whether the database and the bus respond. */
export interface StorageHealth {
  readonly ok: boolean;
  readonly db: { readonly ok: boolean };
  readonly bus: { readonly ok: boolean };
}

export interface HealthOptions {
  readonly catalog: Pick<Catalog, 'servers' | 'upstream'>;
  readonly version: string;
  /** The number of open sessions that a caller may know of. */
  readonly sessions: (principal: Principal) => number;
  /** Checks the database and the bus. */
  readonly storage: () => Promise<StorageHealth>;
  /** Whether a caller may see a server. */
  readonly knows: (principal: Principal, server: string) => boolean | Promise<boolean>;
  /** Definitions that need an approval or contain suspicious text, of items that an administrator may see. */
  readonly pins?: (principal: Principal) => Promise<{ readonly count: number; readonly items: readonly object[] }>;
  /** Records of the audit trail that were lost or wait for the database. Administrators see them. */
  readonly audit?: () => AuditStatus;
  /** The state of each plugin; undefined without plugins. Administrators see it. */
  readonly plugins?: () => Readonly<Record<string, string>> | undefined;
}

/** Milliseconds that the database and the bus have to respond, and for which their response is cached. */
const PROBE_TIME = 2_000;
const PROBE_AGE = 1_000;

const SILENT: StorageHealth = { ok: false, db: { ok: false }, bus: { ok: false } };

/**
 * Serves the health checks of orchestrators and operators. Live: the process responds. Ready: the gateway accepts
 * calls. Degraded: the gateway accepts calls, but some of its servers are unavailable. Only identified callers see
 * numbers and names of servers, and only of servers that they may see.
 */
export class Health {
  /** Whether the gateway is loaded and listens; false again as soon as the gateway is asked to stop. */
  accepting = false;
  private probed: { readonly at: number; readonly storage: Promise<StorageHealth> } | undefined;
  /** The pending check of the storage. */
  private asked: Promise<StorageHealth> | undefined;

  constructor(private readonly options: HealthOptions) {}

  routes(errors: ErrorFormat): Route[] {
    const route = (path: string, description: string, handle: Route['handle']): Route => ({
      method: 'GET',
      path,
      access: 'public',
      errors,
      description,
      handle,
    });
    return [
      route('/health', 'Status of the gateway, its storage and its servers', (context) => this.summary(context)),
      {
        ...route('/_health/live', 'Liveness: the process answers', (context) => this.live(context)),
        // An authenticator that waits for another service must not make the process look dead.
        authenticator: ANYBODY,
      },
      {
        ...route('/_health/ready', 'Readiness: the gateway accepts calls and its storage answers', (context) =>
          this.ready(context),
        ),
        authenticator: ANYBODY,
      },
    ];
  }

  private live(context: RequestContext): void {
    send(context, 200, { status: 'alive', service: 'parley' });
  }

  private async ready(context: RequestContext): Promise<void> {
    const { db, bus, ok } = await this.storage();
    const servers = this.servers();
    const degraded = servers.some(({ status }) => status === 'down');
    const ready = this.accepting && ok;
    send(context, ready ? 200 : 503, {
      status: !ready ? 'not_ready' : degraded ? 'degraded' : 'ready',
      service: 'parley',
      is_degraded: degraded,
      checks: {
        drain_status: { status: this.accepting ? 'accepting' : 'draining' },
        database: { status: db.ok ? 'ok' : 'unavailable' },
        bus: { status: bus.ok ? 'ok' : 'unavailable' },
        mcp_gateway: { status: degraded ? 'degraded' : 'ok' },
      },
    });
  }

  private async summary(context: RequestContext): Promise<void> {
    const { ok } = await this.storage();
    const servers = this.servers();
    const stranger = context.principal === ANONYMOUS;
    const shown = stranger ? servers : await this.known(context.principal, servers);
    // The numbers that an identified caller gets do not count servers that are hidden from this caller.
    const count = (wanted: string): number => shown.filter(({ status }) => status === wanted).length;
    const down = count('down');
    const status = !this.accepting ? 'stopping' : !ok ? 'unavailable' : down > 0 ? 'degraded' : 'ok';
    const code = this.accepting && ok ? 200 : 503;
    if (stranger) {
      send(context, code, { status, transport: 'streamable-http', storage: ok ? 'ok' : 'unavailable' });
      return;
    }
    send(context, code, {
      status,
      version: this.options.version,
      transport: 'streamable-http',
      sessions: this.options.sessions(context.principal),
      storage: ok ? 'ok' : 'unavailable',
      serverCounts: { up: count('up'), down, unknown: count('unknown') },
      ...(this.options.audit && isAdmin(context.principal) && { audit: this.options.audit() }),
      ...(isAdmin(context.principal) && this.pluginStates()),
      ...(this.options.pins && isAdmin(context.principal) && { pins: await this.options.pins(context.principal) }),
      servers: Object.fromEntries(shown.map((server) => [server.name, server.status])),
      // The servers to which calls are refused at once, each with the time until the next trial.
      ...(shown.some(({ breaker }) => breaker) && {
        breakers: Object.fromEntries(shown.flatMap(({ name, breaker }) => (breaker ? [[name, breaker]] : []))),
      }),
      ...(isAdmin(context.principal) &&
        shown.some(({ replicas }) => replicas) && {
          replicas: Object.fromEntries(shown.flatMap(({ name, replicas }) => (replicas ? [[name, replicas]] : []))),
        }),
    });
  }

  private pluginStates(): object {
    const plugins = this.options.plugins?.();
    return plugins ? { plugins } : {};
  }

  /** One check serves all concurrent requests; a storage that does not respond in time counts as unavailable. */
  private storage(): Promise<StorageHealth> {
    const now = performance.now();
    if (!this.probed || now - this.probed.at > PROBE_AGE) {
      this.probed = {
        at: now,
        storage: within(this.ask(), PROBE_TIME, { ref: false }).then((found) => found ?? SILENT),
      };
    }
    return this.probed.storage;
  }

  /** Reuses the pending check, so that checks do not accumulate. */
  private ask(): Promise<StorageHealth> {
    this.asked ??= (async () => this.options.storage())()
      .catch(() => SILENT)
      .finally(() => {
        this.asked = undefined;
      });
    return this.asked;
  }

  private async known<T extends { readonly name: string }>(principal: Principal, servers: readonly T[]): Promise<T[]> {
    const seen = await Promise.all(servers.map(({ name }) => this.options.knows(principal, name)));
    return servers.filter((_, index) => seen[index]);
  }

  private servers(): ({ name: string; status: string } & Pick<UpstreamHealth, 'breaker' | 'replicas'>)[] {
    const { catalog } = this.options;
    return catalog.servers.map((name) => {
      const { status = 'unknown', breaker, replicas } = catalog.upstream(name)?.health() ?? {};
      return { name, status, ...(breaker && { breaker }), ...(replicas && { replicas }) };
    });
  }
}

function send({ res, headers }: RequestContext, status: number, body: object): void {
  sendJson(res, status, headers, [Buffer.from(JSON.stringify(body))]);
}
