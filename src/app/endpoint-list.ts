/** The endpoints by which clients reach the gateway, for the terminal and the HTML page. */
import { isIP } from 'node:net';
import type { Config } from '../config/schema.js';
import type { SseOff } from '../inbound/http/routes.js';
import { type ClientSnippet, clientSnippets, TOKEN_PLACEHOLDER } from '../inbound/mcp/client-snippets.js';
import type { Endpoint, Paste, Summary } from './running-gateway.js';
import type { Runtime } from './runtime.js';
import type { UpstreamStates } from './upstream-states.js';

/** Limit on the views in the startup summary. */
const SHOWN_VIEWS = 10;

/** The endpoints that are open, and the startup summary that lists them. */
export class EndpointList {
  /** The address of the gRPC endpoint, once it is open. */
  grpc: string | undefined;

  constructor(
    private readonly runtime: Runtime,
    private readonly states: Pick<UpstreamStates, 'all'>,
  ) {}

  endpoints(base: string): Endpoint[] {
    const { config, a2a } = this.runtime;
    const agents = a2a.directory.names().length > 0;
    return endpointsOf({ base, mcp: config.mcp.enabled, sse: servesSse(config), agents, grpc: this.grpc });
  }

  /** For the operator only: a caller may not know every view. */
  private viewEndpoints(base: string): Endpoint[] {
    const { config, mcp } = this.runtime;
    const names = config.mcp.enabled ? mcp.views.names.slice(0, SHOWN_VIEWS) : [];
    return names.map((name) => ({ label: `View ${name}`, address: `${base}/mcp/${name}` }));
  }

  summary(base: string): Summary {
    const { config, authenticator } = this.runtime;
    const guarded = authenticator.enabled;
    return {
      upstreams: this.states.all(),
      endpoints: [...this.endpoints(base), ...this.viewEndpoints(base)],
      paste: config.mcp.enabled ? shortSnippets(`${base}/mcp`, guarded) : [],
      page: config.mcp.enabled && !guarded ? `${base}/` : undefined,
    };
  }
}

/** Why HTTP+SSE is not served. Undefined if MCP is off: the gateway then reports the reason for that instead. */
export const sseOff = ({ mcp }: Pick<Config, 'mcp'>): SseOff | undefined => {
  if (!mcp.enabled) return undefined;
  return mcp.sse ? 'sse_legacy_mode' : 'sse_transport_disabled';
};
/** Whether the HTTP+SSE endpoints are open. */
export const servesSse = ({ mcp }: Pick<Config, 'mcp'>): boolean => mcp.enabled && mcp.sse && !mcp.legacyMode;

/** The URL at which clients reach the gateway. An unspecified address such as 0.0.0.0 becomes loopback. */
export function baseUrl({ publicUrl, tls }: Pick<Config, 'publicUrl' | 'tls'>, host: string, port: number): string {
  if (publicUrl !== undefined) return publicUrl.replace(/\/+$/, '');
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${tls.cert === undefined ? 'http' : 'https'}://${isIP(reached) === 6 ? `[${reached}]` : reached}:${port}`;
}

export interface Served {
  readonly base: string;
  readonly mcp: boolean;
  readonly sse: boolean;
  /** Whether the gateway has agents. */
  readonly agents: boolean;
  readonly grpc: string | undefined;
}

export function endpointsOf({ base, mcp, sse, agents, grpc }: Served): Endpoint[] {
  const endpoint = (there: boolean, label: string, address: string): Endpoint[] => (there ? [{ label, address }] : []);
  return [
    ...endpoint(mcp, 'MCP', `${base}/mcp`),
    ...endpoint(mcp, 'MCP, one server', `${base}/mcp/<server>`),
    ...endpoint(sse, 'HTTP+SSE', `${base}/sse`),
    ...endpoint(agents, 'A2A', `${base}/a2a`),
    ...endpoint(agents, 'A2A, one agent', `${base}/a2a/<agent>`),
    ...(grpc === undefined ? [] : endpoint(true, 'A2A gRPC', grpc)),
  ];
}

/** The client snippets that fit on one line. */
export function shortSnippets(url: string, guarded: boolean): Paste[] {
  return clientSnippets(url, guarded ? { token: TOKEN_PLACEHOLDER } : {})
    .filter(({ id }) => id === 'claude-code' || id === 'cursor')
    .map(({ title, language, text }: ClientSnippet) => ({
      title,
      text: language === 'json' ? JSON.stringify(JSON.parse(text)) : text,
    }));
}
