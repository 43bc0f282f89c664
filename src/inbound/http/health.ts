import { ANONYMOUS } from '../../core/caller.js';
import type { Catalog } from '../../core/catalog/catalog.js';
import { within } from '../../core/timing.js';
import { sendJson } from './reply.js';
import type { ErrorFormat, Route, Visit } from './route.js';

/** Whether the engines behind the state answer. */
export interface StorageHealth {
  readonly ok: boolean;
  readonly db: { readonly ok: boolean };
  readonly bus: { readonly ok: boolean };
}

export interface HealthOptions {
  readonly catalog: Pick<Catalog, 'servers' | 'upstream'>;
  readonly version: string;
  /** Sessions that are open. */
  readonly sessions: () => number;
  /** Asks the database and the bus. */
  readonly storage: () => Promise<StorageHealth>;
}

/** Milliseconds that the database and the bus have to answer, and for which their answer is good. */
const PROBE_TIME = 2_000;
const PROBE_AGE = 1_000;

const SILENT: StorageHealth = { ok: false, db: { ok: false }, bus: { ok: false } };

/**
 * Answers orchestrators and operators. Live: the process answers. Ready: calls may be sent here. Degraded: the gateway
 * serves, and some of its servers cannot be used. Only identified callers read the names of servers.
 */
export class Health {
  /** Loaded and listening; false again as soon as the gateway is told to stop. */
  accepting = false;
  private probed: { readonly at: number; readonly storage: Promise<StorageHealth> } | undefined;

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
      route('/health', 'Status of the gateway, its storage and its servers', (visit) => this.summary(visit)),
      route('/_health/live', 'Liveness: the process answers', (visit) => this.live(visit)),
      route('/_health/ready', 'Readiness: the gateway accepts calls and its storage answers', (visit) =>
        this.ready(visit),
      ),
    ];
  }

  private live(visit: Visit): void {
    send(visit, 200, { status: 'alive', service: 'parley' });
  }

  private async ready(visit: Visit): Promise<void> {
    const { db, bus, ok } = await this.storage();
    const servers = this.servers();
    const degraded = servers.some(({ status }) => status === 'down');
    const ready = this.accepting && ok;
    send(visit, ready ? 200 : 503, {
      status: !ready ? 'not_ready' : degraded ? 'degraded' : 'ready',
      service: 'parley',
      is_degraded: degraded,
      checks: {
        drain_status: { status: this.accepting ? 'accepting' : 'draining' },
        database: { status: db.ok ? 'ok' : 'unavailable' },
        bus: { status: bus.ok ? 'ok' : 'unavailable' },
        mcp_gateway: { status: 'ok', servers: servers.length },
      },
    });
  }

  private async summary(visit: Visit): Promise<void> {
    const { ok } = await this.storage();
    const servers = this.servers();
    const count = (wanted: string): number => servers.filter(({ status }) => status === wanted).length;
    const down = count('down');
    const known = visit.principal !== ANONYMOUS;
    send(visit, this.accepting && ok ? 200 : 503, {
      status: !this.accepting ? 'stopping' : !ok ? 'unavailable' : down > 0 ? 'degraded' : 'ok',
      version: this.options.version,
      transport: 'streamable-http',
      sessions: this.options.sessions(),
      storage: ok ? 'ok' : 'unavailable',
      serverCounts: { up: count('up'), down, unknown: count('unknown') },
      ...(known && { servers: Object.fromEntries(servers.map(({ name, status }) => [name, status])) }),
    });
  }

  /** One question for everybody who asks at the same time; an engine that does not answer is not waited for. */
  private storage(): Promise<StorageHealth> {
    const now = performance.now();
    if (!this.probed || now - this.probed.at > PROBE_AGE) {
      const asked = this.options.storage().catch(() => SILENT);
      this.probed = { at: now, storage: within(asked, PROBE_TIME, { ref: false }).then((found) => found ?? SILENT) };
    }
    return this.probed.storage;
  }

  private servers(): { name: string; status: string }[] {
    const { catalog } = this.options;
    return catalog.servers.map((name) => ({ name, status: catalog.upstream(name)?.health().status ?? 'unknown' }));
  }
}

function send({ res, headers }: Visit, status: number, body: object): void {
  sendJson(res, status, headers, [Buffer.from(JSON.stringify(body))]);
}
