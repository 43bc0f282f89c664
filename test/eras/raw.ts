/** Plain HTTP, for requests that an SDK client cannot send. */
import { createParser } from 'eventsource-parser';
import type { Json, Message } from './peers.js';

export const MODERN = '2026-07-28';
const NAME_PARAMETER: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly messages: readonly Message[];
  /** The answer to the request. */
  readonly answer: Message | undefined;
}

export interface ModernOptions {
  readonly capabilities?: Json;
  readonly headers?: Readonly<Record<string, string>>;
  readonly meta?: Json;
  readonly id?: string | number;
  readonly signal?: AbortSignal;
}

/** A request of 2026-07-28 with its envelope and headers. */
export function modern(url: string, method: string, params: Json = {}, options: ModernOptions = {}): Promise<Reply> {
  const { capabilities = {}, headers = {}, meta = {}, id = 1, signal } = options;
  const name = NAME_PARAMETER[method];
  return send(
    url,
    {
      jsonrpc: '2.0',
      id,
      method,
      params: {
        ...params,
        _meta: {
          'io.modelcontextprotocol/protocolVersion': MODERN,
          'io.modelcontextprotocol/clientCapabilities': capabilities,
          'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
          ...meta,
        },
      },
    },
    {
      'mcp-protocol-version': MODERN,
      'mcp-method': method,
      ...(name !== undefined && { 'mcp-name': String(params[name]) }),
      ...headers,
    },
    signal,
  );
}

/** Posts a message and reads the whole reply, JSON or an event stream. */
export async function send(
  url: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): Promise<Reply> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
  const text = await response.text();
  const messages = response.headers.get('content-type')?.startsWith('text/event-stream')
    ? events(text).flatMap(({ data }) => (data === '' ? [] : [JSON.parse(data) as Message]))
    : text === ''
      ? []
      : ([JSON.parse(text)].flat() as Message[]);
  return {
    status: response.status,
    headers: response.headers,
    messages,
    answer: messages.findLast((message) => message.method === undefined),
  };
}

export interface SseEvent {
  readonly id: string | undefined;
  readonly data: string;
}

function events(text: string): SseEvent[] {
  const seen: SseEvent[] = [];
  createParser({ onEvent: ({ id, data }) => seen.push({ id, data }) }).feed(text);
  return seen;
}

/** An event stream that can be read while it arrives. */
export interface Stream {
  readonly status: number;
  readonly events: readonly SseEvent[];
  messages(): Message[];
  close(): void;
}

export async function openStream(url: string, init: RequestInit): Promise<Stream> {
  const abort = new AbortController();
  const response = await fetch(url, { ...init, signal: abort.signal });
  const seen: SseEvent[] = [];
  const parser = createParser({ onEvent: ({ id, data }) => seen.push({ id, data }) });
  const decoder = new TextDecoder();
  void (async () => {
    try {
      for await (const chunk of response.body!) parser.feed(decoder.decode(chunk as Uint8Array, { stream: true }));
    } catch {
      // The reader stopped reading.
    }
  })();
  return {
    status: response.status,
    events: seen,
    messages: () => seen.flatMap(({ data }) => (data === '' ? [] : [JSON.parse(data) as Message])),
    close: () => abort.abort(),
  };
}

/** A legacy session, opened without an SDK. */
export async function openSession(
  url: string,
  revision: string,
  capabilities: Json = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly headers: Record<string, string>; readonly result: Json }> {
  const reply = await send(
    url,
    {
      jsonrpc: '2.0',
      id: 'init',
      method: 'initialize',
      params: { protocolVersion: revision, capabilities, clientInfo: { name: 'raw', version: '1' } },
    },
    headers,
  );
  const own = {
    ...headers,
    'mcp-session-id': reply.headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': String(reply.answer?.result?.['protocolVersion']),
  };
  await send(url, { jsonrpc: '2.0', method: 'notifications/initialized' }, own);
  return { headers: own, result: reply.answer?.result ?? {} };
}
