import type { Catalog } from '../core/catalog/catalog.js';
import { ALL_SERVERS } from '../core/gateway.js';
import type { Offer } from './running.js';

/** The tools of every server, under the names callers see. */
export async function offerOf(catalog: Catalog): Promise<Offer> {
  const { parts, missing } = await catalog.parts(ALL_SERVERS, 'tools/list');
  const clashes = catalog.clashes(parts);
  const servers = parts.map(({ server: name, snapshot }) => ({
    name,
    tools: snapshot.items.map(({ key }) => catalog.exposedName(ALL_SERVERS, name, key, clashes)),
  }));
  return { servers, missing };
}
