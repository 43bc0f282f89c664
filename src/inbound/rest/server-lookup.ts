import { type Admission, serverTarget, visible } from '../../core/admission.js';
import type { Catalog } from '../../core/catalog/catalog.js';
import { oneServer, type View } from '../../core/gateway.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { RequestContext } from '../http/route.js';
import { restCaller } from './rest-request.js';
import { selectedView } from './selected-view.js';

/** The error for a server that does not exist. A server that the caller may not see gets the same error. */
export const noServer = (id: string): ProtocolError =>
  new ProtocolError('server_not_found', `MCP Server with id ${id} not found`, { outcome: 'not_executed' });

/** Finds the servers of requests, as their callers see them. */
export class ServerLookup {
  constructor(
    private readonly catalog: Pick<Catalog, 'servers' | 'has' | 'inView'>,
    private readonly admission: Pick<Admission, 'sees'>,
  ) {}

  /** The names of the servers that the caller sees, within the selection of the request. */
  async seen(context: RequestContext): Promise<readonly string[]> {
    const view = selectedView(context.req);
    const selected = this.catalog.servers.filter((server) => this.catalog.inView(view, server));
    return visible(this.admission, restCaller(context), selected, serverTarget);
  }

  /** The server of this id. Throws `server_not_found`. */
  async named(context: RequestContext, id: string): Promise<string> {
    const name = id.toLowerCase();
    const view = selectedView(context.req);
    if (this.catalog.has(name) && this.catalog.inView(view, name)) {
      const [found] = await visible(this.admission, restCaller(context), [name], serverTarget);
      if (found !== undefined) return found;
    }
    throw noServer(id);
  }

  /** The view of one server if the request names one, otherwise the selection of the request. */
  async view(context: RequestContext, id: string | null): Promise<View> {
    return id === null ? selectedView(context.req) : oneServer(await this.named(context, id));
  }
}
