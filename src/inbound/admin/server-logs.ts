import type { Catalog } from '../../core/catalog/catalog.js';
import { ALONE } from '../../core/cluster.js';
import { ProtocolError } from '../../protocol/errors.js';
import { sendJson } from '../http/reply.js';
import type { Route, Router } from '../http/server.js';

const PATH = /^\/servers\/([^/]+)\/logs$/;

/**
 * `GET /servers/<name>/logs`: the last output of a server that is a process. It may hold whatever the server logs, so only
 * administrators read it.
 */
export class ServerLogs {
  constructor(private readonly catalog: Pick<Catalog, 'servers' | 'upstream'>) {}

  readonly router: Router = (path) => {
    const name = PATH.exec(path)?.[1];
    return name === undefined ? undefined : this.route(name.toLowerCase());
  };

  private route(name: string): Route {
    return {
      handle: async ({ req, res, headers }, principal) => {
        if (req.method !== 'GET') {
          throw new ProtocolError('http_method_not_allowed', `HTTP method ${req.method} not allowed`, {
            headers: { Allow: 'GET, OPTIONS' },
          });
        }
        if (!principal.admin)
          throw new ProtocolError('forbidden', 'Only callers whose token has "admin: true" read the output of servers');
        const upstream = this.catalog.upstream(name);
        if (!upstream) {
          const { servers } = this.catalog;
          const known = servers.length === 0 ? 'there are none' : `the servers are ${servers.join(', ')}`;
          throw new ProtocolError('not_found', `There is no server "${name}"; ${known}`);
        }
        const output = await upstream.output?.();
        if (!output)
          throw new ProtocolError(
            'not_found',
            `Server "${name}" is not a process of this gateway, so it has no output`,
          );
        const { replica, ...rest } = output;
        const body = { server: name, ...(replica !== ALONE.self && { replica }), ...rest };
        sendJson(res, 200, [...headers, 'Cache-Control', 'no-store'], [Buffer.from(JSON.stringify(body))]);
      },
    };
  }
}
