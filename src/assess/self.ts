/** The endpoints of a gateway, for its own assessment. */

export interface SelfEndpoints {
  /** Where the gateway listens. */
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly servers: readonly string[];
  readonly views: readonly string[];
  /** Undefined if the gateway serves no A2A. */
  readonly agents: readonly string[] | undefined;
}

/** The URLs of all endpoints: for all servers, for the older transport, for each server, view and agent. */
export function selfUrls({ host, port, tls, servers, views, agents }: SelfEndpoints): URL[] {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  const origin = `${tls ? 'https' : 'http'}://${name.includes(':') ? `[${name}]` : name}:${port}`;
  const paths = [
    '/mcp',
    '/sse',
    ...[...servers, ...views].map((each) => `/mcp/${encodeURIComponent(each)}`),
    ...(agents ?? []).map((each) => `/a2a/${encodeURIComponent(each)}`),
    ...(agents !== undefined && agents.length > 0 ? ['/a2a'] : []),
  ];
  return paths.map((each) => new URL(each, origin));
}
