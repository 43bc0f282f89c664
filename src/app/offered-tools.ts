import { GATEWAY } from '../core/caller.js';
import type { Catalog } from '../core/catalog/catalog.js';
import { ALL_SERVERS } from '../core/gateway.js';
import type { Offer } from './running-gateway.js';

/** The tools of every server, under the names callers see. */
export async function offeredTools(catalog: Catalog): Promise<Offer> {
  const { parts, missing } = await catalog.parts(GATEWAY, ALL_SERVERS, 'tools/list');
  const clashes = catalog.clashes(ALL_SERVERS, 'tools/list', parts);
  const naming = catalog.namingOf(ALL_SERVERS);
  const servers = parts.map(({ server: name, snapshot }) => ({
    name,
    tools: snapshot.items.map(({ key }) => naming.exposed(name, key, clashes)),
  }));
  return { servers, missing };
}
