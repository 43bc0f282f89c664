/** A2A agents and clients made of plain requests, so that tests see the bytes on both sides. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Json } from './wire.js';

/** A request as it reached an agent. */
export interface Heard {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly method: string;
  readonly params: Json;
}

/** The answer of an agent: the text of a result, or the events of a stream; a number among them is a pause. */
export interface Said {
  readonly result?: string | Json;
  readonly events?: readonly (Json | number)[];
  readonly headers?: Record<string, string>;
  readonly status?: number;
}

export interface WireAgent {
  readonly url: string;
  readonly heard: Heard[];
  /** Makes the answer to messages and other configured methods; the agent also has the webhook methods. */
  says: (heard: Heard) => Said;
  close(): Promise<void>;
}

const SENDS = /send|stream/i;

export async function startAgent(card: (url: string) => Json, says = SENDS): Promise<WireAgent> {
  const server = createServer(async (req, res) => {
    const text = Buffer.concat(await req.toArray()).toString();
    if (req.method === 'GET' && req.url?.includes('/.well-known/')) {
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(card(agent.url)));
      return;
    }
    const body = (text === '' ? {} : JSON.parse(text)) as Json;
    const rpc = body['jsonrpc'] === '2.0';
    const heard: Heard = {
      path: req.url ?? '',
      headers: req.headers,
      text,
      method: rpc ? String(body['method']) : (req.url ?? ''),
      params: (rpc ? body['params'] : body) as Json,
    };
    agent.heard.push(heard);
    await answer(res, heard, rpc ? body['id'] : undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const agent: WireAgent = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    heard: [],
    says: () => ({}),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };

  async function answer(res: ServerResponse, heard: Heard, id: unknown): Promise<void> {
    const wrap = (result: string): string =>
      id === undefined ? result : `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
    if (/push/i.test(heard.method)) {
      res.writeHead(200, { 'content-type': 'application/json' }).end(wrap(JSON.stringify(heard.params)));
      return;
    }
    if (!says.test(heard.method)) {
      const error = { code: -32601, message: 'Method not found' };
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, error }));
      return;
    }
    const { result = {}, events, headers, status = 200 } = agent.says(heard);
    if (!events) {
      res.writeHead(status, { 'content-type': 'application/json', ...headers });
      res.end(wrap(typeof result === 'string' ? result : JSON.stringify(result)));
      return;
    }
    res.writeHead(status, { 'content-type': 'text/event-stream', ...headers });
    const gone = once(res, 'close');
    for (const event of events) {
      if (typeof event === 'number') await delay(event);
      else if (!res.write(`data: ${wrap(JSON.stringify(event))}\n\n`)) {
        await Promise.race([gone, once(res, 'drain')]);
      }
    }
    res.end();
  }
  return agent;
}

const ABOUT = {
  name: 'Wire',
  description: 'Answers as the test configures it.',
  version: '1',
  defaultInputModes: ['text/plain', 'application/json', 'application/pdf'],
  defaultOutputModes: ['text/plain', 'application/json'],
  skills: [{ id: 'talk', name: 'Talk', description: 'Talks.', tags: ['talk'] }],
};

/** Cards, by version and binding. */
export const CARDS = {
  '1.0': (url: string): Json => ({
    ...ABOUT,
    supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: { streaming: true, pushNotifications: true },
  }),
  '0.3': (url: string): Json => ({
    ...ABOUT,
    protocolVersion: '0.3.0',
    url,
    preferredTransport: 'JSONRPC',
    capabilities: { streaming: true, pushNotifications: true, stateTransitionHistory: true },
  }),
  '0.3 REST': (url: string): Json => ({ ...CARDS['0.3'](url), preferredTransport: 'HTTP+JSON' }),
  '0.1': (url: string): Json => ({
    ...ABOUT,
    url,
    capabilities: { streaming: true, pushNotifications: true, stateTransitionHistory: false },
    authentication: { schemes: [] },
  }),
} as const;

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly result: Json | undefined;
  readonly error: { code: number; message: string } | undefined;
  /** The results of a stream, in order. */
  readonly events: Json[];
}

let lastId = 0;

/** One JSON-RPC request of A2A. */
export async function rpc(
  url: string,
  method: string,
  params: Json,
  headers: Record<string, string> = {},
): Promise<Reply> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: ++lastId, method, params }),
  });
  const text = await response.text();
  const streamed = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const messages = (streamed ? [...text.matchAll(/^data: ?(.+)$/gm)].map((match) => match[1]!) : [text])
    .filter((part) => part.startsWith('{'))
    .map((part) => JSON.parse(part) as Json);
  return {
    status: response.status,
    headers: response.headers,
    text,
    result: messages[0]?.['result'] as Json | undefined,
    error: messages.find((message) => 'error' in message)?.['error'] as Reply['error'],
    events: messages.flatMap((message) => ('result' in message ? [message['result'] as Json] : [])),
  };
}

let lastMessage = 0;

/** A message of 1.0. */
export const message = (text: string, more: Json = {}): Json => ({
  messageId: `message-${++lastMessage}`,
  role: 'ROLE_USER',
  parts: [{ text }],
  ...more,
});

/** A task of 1.0. */
export const task = (id: string, state: string, more: Json = {}): Json => ({
  id,
  contextId: `context-of-${id}`,
  status: { state: `TASK_STATE_${state}`, timestamp: '2026-01-01T00:00:00Z' },
  ...more,
});
