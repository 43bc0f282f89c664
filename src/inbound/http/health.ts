import type { Catalog } from '../../core/catalog/catalog.js';
import { ProtocolError } from '../../protocol/errors.js';
import { sendJson } from './reply.js';
import type { Route, Visit } from './server.js';

/** What is asked before traffic is sent here. */
export class Health {
  /** Loaded and listening; false again as soon as the gateway is told to stop. */
  accepting = false;

  constructor(
    private readonly catalog: Catalog,
    private readonly version: string,
    private readonly sessions: () => number,
  ) {}

  readonly live: Route = {
    open: true,
    handle: (visit) => send(visit, 200, { status: 'alive', service: 'parley' }),
  };

  readonly ready: Route = {
    open: true,
    handle: (visit) => {
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
    },
  };

  readonly summary: Route = {
    open: true,
    handle: (visit) =>
      send(visit, this.accepting ? 200 : 503, {
        status: this.accepting ? 'ok' : 'stopping',
        version: this.version,
        transport: 'streamable-http',
        sessions: this.sessions(),
        servers: Object.fromEntries(this.servers().map(({ name, status }) => [name, status])),
      }),
  };

  private servers(): { name: string; status: string }[] {
    return this.catalog.servers.map((name) => ({
      name,
      status: this.catalog.upstream(name)?.health().status ?? 'unknown',
    }));
  }
}

function send({ req, res, headers }: Visit, status: number, body: object): void {
  if (req.method !== 'GET' && req.method !== 'HEAD') {
    throw new ProtocolError('http_method_not_allowed', `HTTP method ${req.method} not allowed`, {
      headers: { Allow: 'GET, HEAD, OPTIONS' },
    });
  }
  sendJson(res, status, headers, [Buffer.from(JSON.stringify(body))]);
}
