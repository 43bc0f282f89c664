/** A loopback server that counts its connections, and the context for an upstream of it. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { configuredCredential } from '../../src/identity/upstream-credentials.js';
import { HttpClient } from '../../src/outbound/http/index.js';
import { ServerTraffic } from '../../src/outbound/mcp/server-traffic-limits.js';
import type { UpstreamContext } from '../../src/outbound/mcp/upstream-context.js';
import { SILENT } from '../../src/telemetry/log.js';

export interface Posted {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

export interface LooseServer {
  readonly url: string;
  /** Open connections. */
  readonly connections: ReadonlySet<Socket>;
  /** Number of all connections so far. */
  readonly opened: number;
  context(timeouts?: Partial<UpstreamContext['timeouts']>): UpstreamContext;
  close(): Promise<void>;
}

export async function startLoose(
  answer: (message: Posted, res: ServerResponse, req: IncomingMessage) => void,
): Promise<LooseServer> {
  const connections = new Set<Socket>();
  const clients: HttpClient[] = [];
  let opened = 0;
  const server = createServer({ keepAliveTimeout: 600_000 }, (req, res) => {
    const body: Buffer[] = [];
    req.on('data', (chunk: Buffer) => body.push(chunk));
    req.on('end', () => answer(JSON.parse(Buffer.concat(body).toString() || '{}') as Posted, res, req));
  });
  server.on('connection', (socket: Socket) => {
    opened++;
    connections.add(socket);
    socket.on('close', () => connections.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    connections,
    get opened() {
      return opened;
    },
    context: (timeouts) => {
      const http = new HttpClient({ connectTimeout: 10_000 });
      clients.push(http);
      return {
        name: 'loose',
        http,
        credential: () => NONE,
        timeouts: { connect: 10_000, call: 60_000, callMax: 60_000, ...timeouts },
        limits: { event: 1_000_000, reply: 1_000_000 },
        traffic: new ServerTraffic(),
        explains: false,
        clientInfo: { name: 'test', version: '1' },
        log: SILENT,
      };
    },
    close: async () => {
      for (const http of clients) await http.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const NONE = configuredCredential({});

export const sendJson = (res: ServerResponse, body: object, headers: Record<string, string> = {}): void =>
  void res.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

/** Sends the head and the first events of an event stream and keeps it open. */
export const beginStream = (res: ServerResponse, text: string): boolean =>
  res.writeHead(200, { 'content-type': 'text/event-stream' }).write(text);
