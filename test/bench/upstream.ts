/**
 * The server of the bench. It answers from prepared bytes on bare sockets, so that the process in front of it is the
 * limit.
 *
 *   upstream.ts modern|legacy
 */
import { randomUUID } from 'node:crypto';
import type { AddressInfo, Server, Socket } from 'node:net';
import { rawHttpServer } from './raw-http.js';
import { type Era, fillerOf, LEGACY_DATE, MODERN_DATE, SIZES, TOOL, textOf } from './wire.js';

const [, , givenEra] = process.argv;
const era = givenEra as Era;

interface Request {
  readonly id?: number | string;
  readonly method: string;
  readonly params?: { readonly name?: string; readonly arguments?: { readonly size: number; readonly mark: string } };
}

interface Answer {
  readonly status: number;
  readonly body?: object;
  readonly session?: string;
}

const serverInfo = { name: 'bench-upstream', version: '1.0.0' };
const modernMembers = { resultType: 'complete', _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo } };
const envelope = era === 'modern' ? modernMembers : {};
const fillers = new Map<number, string>(SIZES.map((size) => [size, fillerOf(size)]));
const sessions = new Set<string>();

const tools = [
  {
    name: TOOL,
    description: 'Reads a text of the given size.',
    inputSchema: {
      type: 'object',
      properties: { size: { type: 'integer' }, mark: { type: 'string' } },
      required: ['size', 'mark'],
    },
  },
];

function resultOf({ method, params }: Request): object | undefined {
  switch (method) {
    case 'tools/call': {
      const { size, mark } = params!.arguments!;
      return { content: [{ type: 'text', text: textOf(mark, fillers.get(size)!) }], ...envelope };
    }
    case 'tools/list':
      return { tools, ...(era === 'modern' && { ...envelope, ttlMs: 3_600_000, cacheScope: 'public' }) };
    case 'server/discover':
      if (era === 'legacy') return undefined;
      return {
        supportedVersions: [MODERN_DATE],
        capabilities: { tools: {} },
        ttlMs: 3_600_000,
        cacheScope: 'public',
        ...envelope,
      };
    case 'initialize':
      return era === 'legacy' ? { protocolVersion: LEGACY_DATE, capabilities: { tools: {} }, serverInfo } : undefined;
    case 'ping':
      return era === 'legacy' ? {} : undefined;
    default:
      return undefined;
  }
}

function answer(request: Request, session: string | undefined): Answer {
  const { id, method } = request;
  if (id === undefined) return { status: 202 };
  if (era === 'legacy' && method !== 'initialize' && (session === undefined || !sessions.has(session)))
    return { status: session === undefined ? 400 : 404, body: failure(id, -32600, 'no such session') };
  const result = resultOf(request);
  if (!result)
    return { status: era === 'modern' ? 404 : 200, body: failure(id, -32601, `Method not found: ${method}`) };
  const body = { jsonrpc: '2.0', id, result };
  if (method !== 'initialize') return { status: 200, body };
  const opened = randomUUID();
  sessions.add(opened);
  return { status: 200, body, session: opened };
}

const failure = (id: number | string | null, code: number, message: string): object => ({
  jsonrpc: '2.0',
  id,
  error: { code, message },
});

function rawServer(): Server {
  const after = JSON.stringify(envelope).slice(1, -1);
  const tails = new Map<number, Buffer>(
    SIZES.map((size) => [
      size,
      Buffer.from(`${JSON.stringify(fillers.get(size)).slice(1)}}]${after && ','}${after}}}`),
    ]),
  );
  const call = (socket: Socket, { id, params }: Request): void => {
    const { size, mark } = params!.arguments!;
    const start = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"type":"text","text":"${mark}`;
    const tail = tails.get(size)!;
    const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${start.length + tail.length}\r\n\r\n`;
    if (tail.length < 4_096) socket.write(head + start + tail.toString('latin1'), 'latin1');
    else {
      socket.cork();
      socket.write(head + start, 'latin1');
      socket.write(tail);
      socket.uncork();
    }
  };
  const other = (socket: Socket, { status, body, session }: Answer): void => {
    const text = body ? JSON.stringify(body) : '';
    socket.write(
      `HTTP/1.1 ${status} Status\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n${
        session === undefined ? '' : `mcp-session-id: ${session}\r\n`
      }\r\n${text}`,
    );
  };
  return rawHttpServer((socket, head, body) => {
    if (!head.startsWith('POST')) {
      other(socket, { status: head.startsWith('DELETE') ? 200 : 405 });
      return;
    }
    const request = JSON.parse(body.toString()) as Request;
    if (request.method === 'tools/call') call(socket, request);
    else other(socket, answer(request, /mcp-session-id: *(\S+)/i.exec(head)?.[1]));
  });
}

const server = rawServer();
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
process.on('disconnect', () => process.exit(0));
