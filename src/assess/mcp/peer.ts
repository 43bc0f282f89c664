/** A connection to an MCP server in one revision, over one transport, that sends right and wrong messages. */
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import type { Json } from '../json.js';
import type { Transport } from '../requirement.js';
import type { HttpWire } from '../wire/http-wire.js';
import type { Reply, StreamEvent } from '../wire/reply.js';

export interface CallOptions {
  readonly id?: string | number;
  /** Changes keys of the metadata of the modern era; undefined removes a key. */
  readonly meta?: Readonly<Record<string, unknown>>;
  /** False to send no metadata of the modern era at all. */
  readonly envelope?: boolean;
  /** Changes headers; undefined removes a header. HTTP only. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** False to send no credentials. HTTP only. */
  readonly credentials?: boolean;
  /** The time for the answer, in milliseconds. */
  readonly limit?: number;
  /** Ends the reading of a stream early. */
  readonly enough?: (messages: readonly unknown[]) => boolean;
}

export interface OpenOptions {
  /** The version that `initialize` requests, instead of that of the revision. */
  readonly version?: string;
  /** True to send nothing at first. */
  readonly bare?: boolean;
  /** The capabilities that the client declares. Default: none. */
  readonly capabilities?: Json;
}

/** The event stream of the HTTP+SSE transport. */
export interface SseStream {
  readonly events: readonly StreamEvent[];
  /** Whether the address for messages has the origin of the stream; messages are sent only then. */
  readonly sameOrigin: boolean;
}

/** Where WebSockets of the server are opened. */
export interface Dialer {
  readonly url: URL;
  readonly secrets: readonly string[];
  /** The reply to a handshake with further headers. A WebSocket that was opened is closed again. */
  attempt(headers: readonly (readonly [string, string])[]): Promise<Reply>;
}

export interface Peer {
  readonly transport: Transport;
  readonly revision: Revision;
  /** The reply to `initialize`, or to `server/discover`. */
  readonly opening: Reply;
  /** False after the end of the channel: the program ended, or the stream was closed. */
  readonly alive?: boolean;
  /** All replies of this peer, in order. */
  readonly log: Reply[];
  /** Messages that arrived before `notifications/initialized` was sent, apart from the response. */
  readonly early: readonly unknown[];
  /** The ids of all requests of the server. Undefined for Streamable HTTP: a request may come on another stream. */
  readonly asked?: ReadonlySet<unknown>;
  /** The session id, if the server gave one. */
  readonly session?: string | undefined;
  readonly sse?: SseStream;
  /** Raw HTTP below the peer; undefined for stdio and WebSocket. */
  readonly http?: HttpWire;
  /** WebSocket only. */
  readonly dialer?: Dialer;
  /** The headers that belong to a request of this peer, for raw requests. HTTP only. */
  headersFor?(method: string, params?: Json): Record<string, string>;
  call(method: string, params?: Json, options?: CallOptions): Promise<Reply>;
  /**
   * Sends a notification, and on a channel a harmless request after it. An answer to the notification, which would be
   * wrong, arrives before the answer to that request.
   */
  notify(method: string, params?: Json, options?: CallOptions): Promise<Reply>;
  /** Sends a message while a call waits, such as the answer to a request of the server. */
  aside(message: Json): Promise<void>;
  /** Sends bytes that need not be JSON. */
  send(text: string, options?: CallOptions): Promise<Reply>;
  /** What arrived and is no message: lines on stdout, or frames of a WebSocket that are not text. */
  stray?(): readonly string[];
  /** Closes the connection. For stdio: the time from the end of stdin to the exit, in milliseconds. */
  close(): Promise<number | undefined>;
}

export const META = {
  version: 'io.modelcontextprotocol/protocolVersion',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
  client: 'io.modelcontextprotocol/clientInfo',
  level: 'io.modelcontextprotocol/logLevel',
  server: 'io.modelcontextprotocol/serverInfo',
  subscription: 'io.modelcontextprotocol/subscriptionId',
} as const;

const CLIENT = { name: 'parley-assess', version: '1' };

/** A request in the form of a revision. */
export function messageOf(
  revision: Revision,
  method: string,
  params: Json | undefined,
  id: string | number | undefined,
  { meta, envelope = true }: CallOptions,
): Json {
  const head = { jsonrpc: '2.0', ...(id !== undefined && { id }), method };
  if (revision.era === 'legacy') {
    const own = meta === undefined ? params : { ...params, _meta: meta };
    return own === undefined ? head : { ...head, params: own };
  }
  if (!envelope) return params === undefined ? head : { ...head, params };
  const fields: Json = {
    [META.version]: revision.date,
    [META.capabilities]: {},
    [META.client]: CLIENT,
    ...meta,
  };
  for (const [key, value] of Object.entries(fields)) if (value === undefined) delete fields[key];
  return { ...head, params: { ...params, _meta: fields } };
}

export const initializeParams = (version: string, capabilities: Json = {}): Json => ({
  protocolVersion: version,
  capabilities,
  clientInfo: CLIENT,
});

/** The credentials that a peer sends, and their parts. */
export const credentialsOf = ({ http, dialer }: Peer): readonly string[] => (http ?? dialer)?.secrets ?? [];

/** The harmless request of each era. */
export const harmless = (revision: Revision): string => (revision.era === 'legacy' ? 'ping' : 'server/discover');
