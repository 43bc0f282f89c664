import type { Catalog } from '../../core/catalog/catalog.js';
import { sendJson } from './reply.js';
import type { ErrorFormat, Route, Visit } from './route.js';

/** What is asked before traffic is sent here. */
export class Health {
  /** Loaded and listening; false again as soon as the gateway is told to stop. */
  accepting = false;

  constructor(
    private readonly catalog: Catalog,
    private readonly version: string,
    private readonly sessions: () => number,
  ) {}

  routes(errors: ErrorFormat): Route[] {
    const route = (path: string, description: string, handle: (visit: Visit) => void): Route => ({
      method: 'GET',
      path,
      access: 'public',
      errors,
      description,
      handle,
    });
    return [
      route('/health', 'Status of the gateway and its servers', (visit) => this.summary(visit)),
      route('/_health/live', 'Liveness: the process answers', (visit) => this.live(visit)),
      route('/_health/ready', 'Readiness: the gateway accepts calls', (visit) => this.ready(visit)),
    ];
  }

  private live(visit: Visit): void {
    send(visit, 200, { status: 'alive', service: 'parley' });
  }

  private ready(visit: Visit): void {
    const servers = this.servers();
    const degraded = servers.some(({ status }) => status === 'down');
    const status = !this.accepting ? 'not_ready' : degraded ? 'degraded' : 'ready';
    send(visit, this.accepting ? 200 : 503, {
      status,
      service: 'parley',
      is_degraded: degraded,
      checks: {
        drain_status: { status: this.accepting ? 'accepting' : 'draining' },
        mcp_gateway: { status: 'ok', servers: servers.length },
      },
    });
  }

  private summary(visit: Visit): void {
    send(visit, this.accepting ? 200 : 503, {
      status: this.accepting ? 'ok' : 'stopping',
      version: this.version,
      transport: 'streamable-http',
      sessions: this.sessions(),
      servers: Object.fromEntries(this.servers().map(({ name, status }) => [name, status])),
    });
  }

  private servers(): { name: string; status: string }[] {
    return this.catalog.servers.map((name) => ({
      name,
      status: this.catalog.upstream(name)?.health().status ?? 'unknown',
    }));
  }
}

function send({ res, headers }: Visit, status: number, body: object): void {
  sendJson(res, status, headers, [Buffer.from(JSON.stringify(body))]);
}
