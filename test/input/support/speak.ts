/** Requests of both eras, written without an SDK. */
import type { Message } from './message.js';
import { ask, EventStream, type Reply } from './wire.js';

export const BOTH = 'application/json, text/event-stream';
export const MODERN = '2026-07-28';
export const LEGACY = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'] as const;

const PREFIX = 'io.modelcontextprotocol';

export interface ModernOptions {
  readonly id?: string | number;
  readonly version?: string;
  readonly meta?: Readonly<Record<string, unknown>>;
  /** Headers in addition to or instead of the mirrored ones; undefined removes one. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly capabilities?: object;
}

export function modernBody(method: string, params: object = {}, options: ModernOptions = {}): object {
  return {
    jsonrpc: '2.0',
    id: options.id ?? 1,
    method,
    params: {
      ...params,
      _meta: {
        [`${PREFIX}/protocolVersion`]: options.version ?? MODERN,
        [`${PREFIX}/clientCapabilities`]: options.capabilities ?? {},
        [`${PREFIX}/clientInfo`]: { name: 'by-hand', version: '1' },
        ...options.meta,
      },
    },
  };
}

export function modernHeaders(
  method: string,
  params: object = {},
  options: ModernOptions = {},
): Record<string, string> {
  const { name, uri } = params as { name?: string; uri?: string };
  const headers: Record<string, string | undefined> = {
    accept: BOTH,
    'mcp-protocol-version': options.version ?? MODERN,
    'mcp-method': method,
    ...(['tools/call', 'prompts/get'].includes(method) && { 'mcp-name': name }),
    ...(method === 'resources/read' && { 'mcp-name': uri }),
    ...options.headers,
  };
  return Object.fromEntries(Object.entries(headers).filter((pair): pair is [string, string] => pair[1] !== undefined));
}

export function modern(url: string, method: string, params: object = {}, options: ModernOptions = {}): Promise<Reply> {
  return ask(url, { headers: modernHeaders(method, params, options), body: modernBody(method, params, options) });
}

export const modernCall = (url: string, name: string, args: object = {}, options: ModernOptions = {}): Promise<Reply> =>
  modern(url, 'tools/call', { name, arguments: args }, options);

export const initializeBody = (version: unknown, id: string | number = 0, capabilities: object = {}): object => ({
  jsonrpc: '2.0',
  id,
  method: 'initialize',
  params: { protocolVersion: version, capabilities, clientInfo: { name: 'by-hand', version: '1' } },
});

/** A session of Streamable HTTP up to 2025-11-25. */
export class Session {
  private constructor(
    readonly url: string,
    readonly version: string,
    readonly id: string,
    readonly opening: Reply,
    private readonly extra: Readonly<Record<string, string>>,
  ) {}

  static async open(
    url: string,
    version: string,
    extra: Readonly<Record<string, string>> = {},
    capabilities: object = {},
  ): Promise<Session> {
    const opening = await ask(url, {
      headers: { accept: BOTH, ...extra },
      body: initializeBody(version, 0, capabilities),
    });
    const id = opening.headers['mcp-session-id'];
    if (typeof id !== 'string') throw new Error(`no session: ${opening.status} ${opening.body}`);
    const session = new Session(url, version, id, opening, extra);
    await session.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
    return session;
  }

  get headers(): Record<string, string> {
    return {
      accept: BOTH,
      'mcp-session-id': this.id,
      // The header exists since 2025-06-18.
      ...(this.version >= '2025-06-18' && { 'mcp-protocol-version': this.version }),
      ...this.extra,
    };
  }

  post(body: string | object, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return ask(this.url, { headers: { ...this.headers, ...headers }, body });
  }

  request(method: string, params?: object, id: string | number = 1): Promise<Reply> {
    return this.post({ jsonrpc: '2.0', id, method, ...(params && { params }) });
  }

  call(name: string, args: object = {}, id: string | number = 1, meta?: object): Promise<Reply> {
    return this.request('tools/call', { name, arguments: args, ...(meta && { _meta: meta }) }, id);
  }

  /** A request whose reply is read while it arrives. */
  stream(method: string, params: object, id: string | number = 1): Promise<EventStream> {
    return EventStream.open(this.url, {
      method: 'POST',
      headers: this.headers,
      body: { jsonrpc: '2.0', id, method, params },
    });
  }

  listen(headers: Readonly<Record<string, string>> = {}): Promise<EventStream> {
    return EventStream.open(this.url, { headers: { ...this.headers, accept: 'text/event-stream', ...headers } });
  }

  end(): Promise<Reply> {
    return ask(this.url, { method: 'DELETE', headers: this.headers });
  }
}

/** A client of HTTP+SSE. */
export class SseClient {
  private constructor(
    readonly stream: EventStream,
    readonly endpoint: string,
    private readonly headers: Readonly<Record<string, string>>,
  ) {}

  static async connect(url: string, headers: Readonly<Record<string, string>> = {}): Promise<SseClient> {
    const stream = await EventStream.open(url, { headers: { accept: 'text/event-stream', ...headers } });
    const { data } = await stream.until(({ events }) => events.find(({ event }) => event === 'endpoint'));
    return new SseClient(stream, new URL(data, url).href, headers);
  }

  post(body: string | object): Promise<Reply> {
    return ask(this.endpoint, { headers: this.headers, body });
  }

  /** Posts a request and waits for its response on the stream. */
  async request(method: string, params: object = {}, id: string | number = 1): Promise<Message> {
    const before = this.stream.messages.length;
    await this.post({ jsonrpc: '2.0', id, method, params });
    return this.stream.until<Message>(({ messages }) =>
      messages.slice(before).find((message) => message.id === id && !('method' in message)),
    );
  }

  async initialize(version: string, capabilities: object = {}): Promise<Message> {
    const answer = await this.request(
      'initialize',
      { protocolVersion: version, capabilities, clientInfo: { name: 'by-hand', version: '1' } },
      'init',
    );
    await this.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
    return answer;
  }

  close(): void {
    this.stream.close();
  }
}
