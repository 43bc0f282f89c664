import type { Version } from './dialect.js';

/** The versions that a card in 1.0 words declares for every binding served (G-10); older clients find theirs by the old path. */
export const DECLARED_VERSIONS: readonly {
  readonly version: Version;
  /** Whether a request of this version can name a tenant: where it cannot, an endpoint shared by agents cannot be told apart. */
  readonly tenants: boolean;
}[] = [
  { version: '1.0', tenants: true },
  { version: '0.3', tenants: false },
];

/** The bindings that a card declares at the URL of an agent, the preferred one first. */
export const HTTP_BINDINGS: readonly string[] = ['JSONRPC', 'HTTP+JSON'];
