/** The endpoints of a gateway, for its own assessment. */
import type { StdioCommand } from '../outbound/stdio/child-process.js';
import type { Target } from './assess.js';

export interface SelfEndpoints {
  /** Where the gateway listens. */
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** Whether the gateway serves each transport of MCP. */
  readonly mcp: { readonly http: boolean; readonly sse: boolean; readonly webSocket: boolean };
  /** Starts the gateway on stdin and stdout. */
  readonly stdio: StdioCommand;
  readonly servers: readonly string[];
  readonly views: readonly string[];
  /** Undefined if the gateway serves no A2A. */
  readonly agents: readonly string[] | undefined;
}

export const STDIO_NAME = 'parley stdio';

/**
 * All endpoints: those for all servers, those of each server, view and agent over HTTP and WebSocket, the older
 * HTTP+SSE, and stdio.
 */
export function selfTargets({ host, port, tls, mcp, stdio, servers, views, agents }: SelfEndpoints): Target[] {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  const address = `${name.includes(':') ? `[${name}]` : name}:${port}`;
  const web = (scheme: string, paths: readonly string[]): Target[] =>
    paths.map((each) => ({ kind: 'url', url: new URL(each, `${scheme}${tls ? 's' : ''}://${address}`) }));
  const below = (path: string, names: readonly string[]): string[] =>
    names.map((each) => `${path}/${encodeURIComponent(each)}`);
  const parts = [...servers, ...views];
  return [
    ...(mcp.http ? web('http', ['/mcp']) : []),
    ...(mcp.sse ? web('http', ['/sse']) : []),
    ...(mcp.http ? web('http', below('/mcp', parts)) : []),
    ...(mcp.webSocket ? web('ws', ['/ws', ...below('/ws', parts)]) : []),
    ...(mcp.http ? [{ kind: 'command', name: STDIO_NAME, command: stdio } as const] : []),
    ...web('http', below('/a2a', agents ?? [])),
    ...(agents !== undefined && agents.length > 0 ? web('http', ['/a2a']) : []),
  ];
}
