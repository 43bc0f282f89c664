import { randomUUID } from 'node:crypto';
import type { SseOff } from '../inbound/http/routes.js';
import { type HttpCarrier, McpHttpEndpoint } from '../inbound/mcp/http-endpoint.js';
import { InfoPage } from '../inbound/mcp/info-page.js';
import { ModernRequestHandler } from '../inbound/mcp/modern-requests.js';
import { type Carrier, Sessions } from '../inbound/mcp/session/sessions.js';
import { type SseCarrier, SseEndpoint } from '../inbound/mcp/sse-endpoint.js';
import { WebSocketEndpoint } from '../inbound/mcp/websocket/websocket-endpoint.js';
import { type EndpointList, servesSse, sseOff } from './endpoint-list.js';
import { sessionRecords } from './mcp-records.js';
import type { Runtime } from './runtime.js';
import type { UpstreamStates } from './upstream-states.js';

/** The inbound adapters of MCP over HTTP. */
export class McpEndpoints {
  readonly http: McpHttpEndpoint;
  /** Undefined if the HTTP+SSE endpoints are closed. */
  /** The endpoint, or the reason for its absence; undefined if MCP is off. */
  readonly sse: SseEndpoint | SseOff | undefined;
  /** Undefined if the WebSocket endpoints are closed. */
  readonly webSocket: WebSocketEndpoint | undefined;
  private readonly modern: ModernRequestHandler;
  private readonly httpSessions: Sessions<HttpCarrier>;
  private readonly sseSessions: Sessions<SseCarrier>;
  private readonly webSocketSessions: Sessions<Carrier>;

  constructor(
    runtime: Runtime,
    upstreamStates: UpstreamStates,
    endpoints: EndpointList,
    failed: (error: unknown, path: string) => void,
  ) {
    const { config, info, seal, state, replica, authenticator, mcp } = runtime;
    const { limits, session, publicUrl } = config;
    const { cluster, streams } = replica;
    const refused = (error: unknown): void => runtime.telemetry.refused(error, 'mcp');
    const sessions = { ...mcp.sessionsOptions(), refused };
    this.modern = new ModernRequestHandler(mcp.gateway, info, mcp.states, refused);
    this.httpSessions = new Sessions({ ...sessions, records: sessionRecords(state, cluster) });
    this.sseSessions = new Sessions(sessions);
    this.webSocketSessions = new Sessions(sessions);
    const page = new InfoPage({
      gateway: mcp.gateway,
      info,
      states: (caller) => upstreamStates.statesFor(caller),
      endpoints: (base) => endpoints.endpoints(base),
      inView: (view, server) => mcp.catalog.inView(view, server),
      publicUrl,
      guarded: authenticator.enabled,
    });
    this.http = new McpHttpEndpoint({
      modern: this.modern,
      sessions: this.httpSessions,
      info: page,
      limits,
      ...(streams && { shared: streams, cluster }),
      resumeWindow: session.resumeWindow,
      strictAccept: config.mcp.strictAccept,
      refused,
      clientTermination: session.clientTermination,
      anonymous: runtime.authentication.anonymous,
    });
    this.sse = servesSse(config)
      ? new SseEndpoint({
          sessions: this.sseSessions,
          info: page,
          limits,
          refused,
          mintId: (principal) => seal.close('session', principal.key, randomUUID(), session.idle),
        })
      : sseOff(config);
    this.webSocket =
      config.mcp.enabled && config.mcp.webSocket
        ? new WebSocketEndpoint({
            modern: this.modern,
            sessions: this.webSocketSessions,
            authenticator,
            limits,
            ping: config.timeouts.webSocketPing,
            refused,
            failed: (error) => failed(error, '/ws'),
          })
        : undefined;
  }

  /** The number of open sessions. */
  get sessions(): number {
    return this.httpSessions.size + this.sseSessions.size + this.webSocketSessions.size;
  }

  /** The number of open sessions of one caller. */
  sessionsOf(caller: string): number {
    const all = [this.httpSessions, this.sseSessions, this.webSocketSessions];
    return all.reduce((sum, sessions) => sum + sessions.sizeFor(caller), 0);
  }

  /** Ends a stored session, at every replica. */
  endSession(key: string): Promise<void> {
    return this.httpSessions.end({ key }, 'The session was ended');
  }

  /** The number of open streams that wait for messages. */
  get streams(): number {
    return this.modern.listens + this.httpSessions.connected + this.sseSessions.connected;
  }

  /** The number of calls under way. */
  get busy(): number {
    return this.modern.busy + this.httpSessions.busy + this.sseSessions.busy + this.webSocketSessions.busy;
  }

  /** Ends streams that wait for events, so that clients reopen them at another replica. */
  endStreams(): void {
    this.modern.endListens();
    this.httpSessions.requestReconnect();
    this.webSocket?.leave();
  }

  close(): void {
    this.httpSessions.close();
    this.sseSessions.close();
    this.webSocket?.close();
    this.webSocketSessions.close();
  }
}
