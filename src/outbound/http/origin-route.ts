/** The route to one origin: connections to the origin, or to its proxy. */
import { type buildConnector, Pool } from 'undici';
import { HttpError } from './client-types.js';
import type { Connector } from './connector.js';
import { Connection } from './pooled-connection.js';
import type { ForwardProxy } from './proxy.js';
import { SlashRedirects } from './redirects.js';

export interface Route {
  readonly pool: Pool;
  /** The text before the path in a request line: the origin if a proxy reads the request, otherwise empty. */
  readonly prefix: string;
  /** The remembered redirects. Undefined if the route follows no redirects. */
  readonly moved: SlashRedirects | undefined;
  /** Adds headers that the route needs, such as credentials for a proxy. */
  headers?(given: readonly string[]): readonly string[];
}

/**
 * Milliseconds that an idle connection is kept, unless the server names a longer time. Many servers close after 5 s.
 */
const KEEP_ALIVE = 4_000;
const KEEP_ALIVE_MAX = 600_000;
/** Maximum size of a reply's head, so that a head without end cannot fill the memory. */
const HEAD_LIMIT = 32 * 1024;

function poolOf(origin: string, connect: buildConnector.connector): Pool {
  return new Pool(origin, {
    connect,
    factory: (url, options) => new Connection(url, options),
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE,
    keepAliveMaxTimeout: KEEP_ALIVE_MAX,
    maxHeaderSize: HEAD_LIMIT,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

/**
 * Creates the route. Through a proxy, http requests carry the whole URL, and https uses a tunnel. A `stranger` is an
 * origin that a caller or a card named. Requests to a stranger always use a tunnel, so that the gateway and not the
 * proxy chooses the address. They follow no redirects.
 */
export function routeTo(
  origin: string,
  connector: Connector,
  proxy: ForwardProxy | undefined,
  stranger: boolean,
): Route {
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw new HttpError('HTTP_UNSENDABLE', 'the URL is neither http nor https');
  const moved = stranger ? undefined : new SlashRedirects(origin);
  const whole = proxy !== undefined && !stranger && url.protocol === 'http:';
  if (whole) {
    const pool = poolOf(proxy.origin, connector.toProxy(proxy));
    const headers: Route['headers'] = (given) => [
      ...given,
      ...proxy.headers,
      ...(namesHost(given) ? [] : ['host', url.host]),
    ];
    return { pool, prefix: origin, moved, headers };
  }
  return { pool: poolOf(origin, proxy ? connector.through(proxy) : connector.direct), prefix: '', moved };
}

function namesHost(headers: readonly string[]): boolean {
  for (let i = 0; i < headers.length; i += 2) if (headers[i]!.toLowerCase() === 'host') return true;
  return false;
}
