import type { Version } from './dialect.js';

/**
 * The versions that a 1.0 card declares for every served binding (G-10). Older clients find their version at the old
 * card path.
 */
export const DECLARED_VERSIONS: readonly {
  readonly version: Version;
  /**
   * Whether a request of this version can name a tenant. Without a tenant, an endpoint shared by several agents cannot
   * tell which agent is meant.
   */
  readonly tenants: boolean;
}[] = [
  { version: '1.0', tenants: true },
  { version: '0.3', tenants: false },
];

/** The bindings that a card declares at an agent's URL, the preferred one first. */
export const HTTP_BINDINGS: readonly string[] = ['JSONRPC', 'HTTP+JSON'];
