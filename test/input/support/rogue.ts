/** A server that behaves correctly in both eras until a tool is called; the script decides the rest. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Message } from './message.js';

export interface Called {
  readonly era: 'modern' | 'legacy';
  readonly id: string | number;
  readonly args: Readonly<Record<string, unknown>>;
  readonly progressToken: string | number | undefined;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** The number of calls of this tool, including this call. */
  readonly times: number;
}

export type Script = Readonly<Record<string, (called: Called) => void>>;

export interface Rogue {
  readonly url: string;
  /** Every message that was posted. */
  readonly posted: (Message & { readonly session: string | undefined })[];
  /** HTTP methods that arrived. */
  readonly methods: string[];
  /** Calls whose connection the gateway closed before they were answered. */
  readonly abandoned: string[];
  /** Responds to a GET; 405 by default. */
  onGet: ((req: IncomingMessage, res: ServerResponse) => void) | undefined;
  initializations: number;
  close(): Promise<void>;
}

export const json = (res: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void => {
  res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
};

export const answer = (id: string | number, text: string, era: 'modern' | 'legacy'): object => ({
  jsonrpc: '2.0',
  id,
  result: { content: [{ type: 'text', text }], ...(era === 'modern' && { resultType: 'complete' }) },
});

export const event = (message: object, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(message)}\n\n`;

export const stream = (res: ServerResponse, headers: Record<string, string> = {}): ServerResponse =>
  res.writeHead(200, { 'content-type': 'text/event-stream', ...headers });

export async function startRogue(script: Script, protocolVersion = '2025-11-25'): Promise<Rogue> {
  const times: Record<string, number> = {};
  const tools = Object.keys(script).map((name) => ({ name, inputSchema: { type: 'object' } }));

  const server = createServer(async (req, res) => {
    rogue.methods.push(req.method!);
    if (req.method === 'GET' && rogue.onGet) return rogue.onGet(req, res);
    if (req.method === 'DELETE') return res.writeHead(200).end();
    if (req.method !== 'POST') return res.writeHead(405).end();
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const message = JSON.parse(Buffer.concat(chunks).toString()) as Message;
    rogue.posted.push({ ...message, session: req.headers['mcp-session-id'] as string | undefined });
    const era = req.headers['mcp-method'] === undefined ? 'legacy' : 'modern';
    const { id, method, params } = message;
    if (id === undefined || id === null || method === undefined) return res.writeHead(202).end();
    const lasting = era === 'modern' ? { resultType: 'complete', ttlMs: 60_000, cacheScope: 'public' } : {};
    const capabilities = { tools: {} };
    switch (method) {
      case 'initialize':
        return json(
          res,
          200,
          {
            jsonrpc: '2.0',
            id,
            result: { protocolVersion, capabilities, serverInfo: { name: 'rogue', version: '1' } },
          },
          { 'mcp-session-id': `rogue-${++rogue.initializations}` },
        );
      case 'server/discover':
        return json(res, 200, {
          jsonrpc: '2.0',
          id,
          result: { ...lasting, supportedVersions: ['2026-07-28'], capabilities },
        });
      case 'tools/list':
        return json(res, 200, { jsonrpc: '2.0', id, result: { ...lasting, tools } });
      case 'tools/call': {
        const { name } = params;
        times[`${era} ${name}`] = (times[`${era} ${name}`] ?? 0) + 1;
        res.on('close', () => {
          if (!res.writableFinished) rogue.abandoned.push(`${era} ${name}`);
        });
        const progressToken = params._meta?.['progressToken'] as string | number | undefined;
        script[name]!({
          era,
          id,
          args: params.arguments ?? {},
          progressToken,
          req,
          res,
          times: times[`${era} ${name}`]!,
        });
        return;
      }
      default:
        return json(res, era === 'modern' ? 404 : 200, {
          jsonrpc: '2.0',
          id,
          error: { code: -32601, message: 'Method not found' },
        });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const rogue: Rogue = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    posted: [],
    methods: [],
    abandoned: [],
    onGet: undefined,
    initializations: 0,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return rogue;
}
