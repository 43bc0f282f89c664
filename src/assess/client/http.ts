/** Serves the scripted server over Streamable HTTP and HTTP+SSE, for any client on this machine. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { asObject, type Json, parseJson } from '../json.js';
import { ScriptedServer } from './scripted-server.js';
import type { Heard, Transcript } from './transcript.js';

/** The largest body that is read, in bytes. */
const MAX_BODY = 4 * 1024 * 1024;
const MOST_STREAMS = 100;
const SSE = '/sse';
const MESSAGES = '/messages';

export interface ClientEndpoint {
  readonly url: string;
  /** The address for clients of HTTP+SSE. */
  readonly sse: string;
  close(): Promise<void>;
}

export interface ClientEndpointOptions {
  readonly transcript: Transcript;
  readonly host: string;
  readonly port: number;
  /** Called for every request. */
  readonly heard: () => void;
}

export async function serveClient({ transcript, host, port, heard }: ClientEndpointOptions): Promise<ClientEndpoint> {
  const script = new ScriptedServer(transcript);
  const streams = new Set<ServerResponse>();
  /** The streams of HTTP+SSE, by the session in the address for messages. */
  const channels = new Map<string, (message: Json) => void>();
  const server = createServer((request, response) => {
    heard();
    answer(request, response).catch(() => response.destroy());
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const http: Heard['http'] = { method: request.method ?? '', headers: headersOf(request) };
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    if (pathname === SSE && request.method === 'GET') {
      openChannel(response);
      return;
    }
    const channel = pathname === MESSAGES ? channels.get(searchParams.get('session') ?? '') : undefined;
    if (channel !== undefined && request.method === 'POST') {
      await take(request, response, http, channel);
      return;
    }
    if (pathname !== '/mcp') {
      // Not a part of the protocol: clients look for authorization servers, for example.
      response.writeHead(404).end();
      return;
    }
    if (request.method === 'GET') {
      transcript.hear(undefined, http);
      if (streams.size >= MOST_STREAMS || transcript.revision?.era !== 'legacy') {
        response.writeHead(405).end();
        return;
      }
      const send = stream(response);
      streams.add(response);
      response.on('close', () => streams.delete(response));
      script.ask(send);
      return;
    }
    if (request.method !== 'POST') {
      transcript.hear(undefined, http);
      response.writeHead(request.method === 'DELETE' ? 200 : 405).end();
      return;
    }
    const message = await messageOf(request, response);
    if (message === undefined) return;
    transcript.hear(message, http);
    let events: ((message: Json) => void) | undefined;
    const send = (each: Json): void => {
      events ??= stream(response);
      events(each);
    };
    const reply = await script.receive(message, send);
    if (reply === undefined) response.writeHead(202).end();
    else if (events) {
      events(reply);
      response.end();
    } else response.writeHead(200, headersFor(message)).end(JSON.stringify(reply));
  }

  function openChannel(response: ServerResponse): void {
    if (streams.size >= MOST_STREAMS) {
      response.writeHead(503).end();
      return;
    }
    const session = crypto.randomUUID();
    channels.set(session, stream(response));
    response.write(`event: endpoint\ndata: ${MESSAGES}?session=${session}\n\n`);
    streams.add(response);
    response.on('close', () => {
      streams.delete(response);
      channels.delete(session);
    });
  }

  /** Takes a message of HTTP+SSE. Its answer is sent on the stream. */
  async function take(
    request: IncomingMessage,
    response: ServerResponse,
    http: Heard['http'],
    send: (message: Json) => void,
  ): Promise<void> {
    transcript.transport = 'sse';
    const message = await messageOf(request, response);
    if (message === undefined) return;
    transcript.hear(message, http);
    response.writeHead(202).end();
    const reply = await script.receive(message, send);
    if (reply !== undefined) send(reply);
    if (asObject(message)['method'] === 'notifications/initialized') script.ask(send);
  }

  /** The message of a request; undefined after a refusal. */
  async function messageOf(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const text = await bodyOf(request);
    const message = text === undefined ? undefined : parseJson(text);
    if (message !== undefined) return message;
    if (transcript.garbage.length < 100) transcript.garbage.push((text ?? '').slice(0, 1_000));
    response.writeHead(400).end();
    return undefined;
  }

  function headersFor(message: unknown): Record<string, string> {
    const common = { 'Content-Type': 'application/json' };
    if (asObject(message)['method'] !== 'initialize') return common;
    const session = crypto.randomUUID();
    transcript.opened(session);
    return { ...common, 'Mcp-Session-Id': session };
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const { port: bound } = server.address() as AddressInfo;
  const origin = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`;
  return {
    url: `${origin}/mcp`,
    sse: `${origin}${SSE}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Begins an event stream. */
function stream(response: ServerResponse): (message: Json) => void {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  response.flushHeaders();
  return (message) => void response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
}

const headersOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));

/** The body as text; undefined if it is too long. */
async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
