import type { Principal } from '../../core/caller.js';
import type { Catalog } from '../../core/catalog/catalog.js';
import { ALONE } from '../../core/cluster.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { ErrorFormat, RequestContext, Route } from '../http/route.js';
import { sendJson } from '../http/send-body.js';

/**
 * The latest output of a server that runs as a process. It may contain anything the server logs, so only administrators
 * may read it.
 */
export class ServerLogs {
  constructor(
    private readonly catalog: Pick<Catalog, 'servers' | 'upstream'>,
    /** Whether the credential of an administrator is for this server. */
    private readonly reaches: (principal: Principal, server: string) => boolean,
  ) {}

  routes(errors: ErrorFormat): Route[] {
    return [
      {
        method: 'GET',
        path: '/servers/{name}/logs',
        access: 'admin',
        errors,
        description: 'The latest output of a server that runs as a process of the gateway',
        handle: (context) => this.show(context),
      },
    ];
  }

  private async show({ res, headers, params, principal }: RequestContext): Promise<void> {
    const name = params['name']!.toLowerCase();
    // The output of a process contains the work of every tenant.
    if (principal.tenant !== undefined)
      throw new ProtocolError('forbidden', 'This needs an administrator without a tenant');
    // The output does not say to which tool a line belongs, so it cannot be limited to some tools.
    if ((principal.restriction?.tools.length ?? 0) > 0)
      throw new ProtocolError('forbidden', 'This credential is for some tools only, and the output is of all tools');
    const upstream = this.reaches(principal, name) ? this.catalog.upstream(name) : undefined;
    if (!upstream) {
      const servers = this.catalog.servers.filter((each) => this.reaches(principal, each));
      const known = servers.length === 0 ? 'there are none' : `the servers are ${servers.join(', ')}`;
      throw new ProtocolError('not_found', `There is no server "${name}"; ${known}`);
    }
    const output = await upstream.output?.();
    if (!output)
      throw new ProtocolError('not_found', `Server "${name}" is not a process of this gateway, so it has no output`);
    const { replica, ...rest } = output;
    const body = { server: name, ...(replica !== ALONE.self && { replica }), ...rest };
    sendJson(res, 200, [...headers, 'Cache-Control', 'no-store'], [Buffer.from(JSON.stringify(body))]);
  }
}
