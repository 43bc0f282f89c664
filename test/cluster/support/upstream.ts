/** A server of 2025-11-25 over Streamable HTTP, separate from the replicas, that counts its calls. */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

interface Rpc {
  readonly id?: string | number;
  readonly method?: string;
  // biome-ignore lint/suspicious/noExplicitAny: whatever was sent
  readonly params?: any;
}

const TOOL = (name: string): object => ({ name, inputSchema: { type: 'object' } });

export class CountedServer {
  readonly runs: string[] = [];
  /** The keys of answered calls. */
  readonly over: string[] = [];
  readonly cancelled: unknown[] = [];
  readonly subscribed: string[] = [];
  /** The calls of `ticks` that no longer pause between their progress reports. */
  hurried: (key: string) => boolean = () => false;
  private readonly general = new Map<string, ServerResponse>();
  private readonly http: Server = createServer((req, res) => {
    this.handle(req, res).catch(() => res.destroy());
  });

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.http.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.http.address() as AddressInfo).port}/mcp`;
  }

  close(): Promise<unknown> {
    this.http.closeAllConnections();
    return new Promise((resolve) => this.http.close(resolve));
  }

  /** How many sessions had their GET stream opened so far. */
  listening = 0;

  announce(method: string, params?: object): void {
    for (const res of this.general.values())
      res.write(`data: ${JSON.stringify({ jsonrpc: '2.0', method, ...(params && { params }) })}\n\n`);
  }

  private async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const session = req.headers['mcp-session-id'];
    if (req.method === 'DELETE') return void res.writeHead(200).end();
    if (req.method === 'GET') {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      this.general.set(String(session), res);
      this.listening++;
      res.on('close', () => this.general.delete(String(session)));
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const message = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Rpc;
    if (message.id === undefined || message.method === undefined) {
      if (message.method === 'notifications/cancelled') this.cancelled.push(message.params.requestId);
      return void res.writeHead(202).end();
    }
    const answer = (result: object): string => JSON.stringify({ jsonrpc: '2.0', id: message.id, result });
    if (message.method === 'tools/call') {
      await this.call(message, res, answer);
      return;
    }
    res.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': session ?? randomUUID() });
    res.end(answer(this.own(message)));
  }

  private own({ method, params }: Rpc): object {
    switch (method) {
      case 'initialize':
        return {
          protocolVersion: '2025-11-25',
          capabilities: {
            tools: { listChanged: true },
            resources: { subscribe: true, listChanged: true },
            logging: {},
          },
          serverInfo: { name: 'counted', version: '1' },
        };
      case 'tools/list':
        return { tools: [TOOL('ticks'), TOOL('quick')] };
      case 'resources/list':
        return { resources: [{ uri: 'test://one', name: 'one' }] };
      case 'resources/templates/list':
        return { resourceTemplates: [] };
      case 'resources/subscribe':
        this.subscribed.push(params.uri);
        return {};
      default:
        return {};
    }
  }

  /** `ticks` reports progress with the given count and interval, and a debug log message before its end. */
  private async call({ params }: Rpc, res: ServerResponse, answer: (result: object) => string): Promise<void> {
    const { count = 0, every = 10, key = '', size = 0 } = params.arguments ?? {};
    this.runs.push(key);
    const text = { content: [{ type: 'text', text: `${key} done` }] };
    if (params.name === 'quick') {
      res.writeHead(200, { 'content-type': 'application/json' }).end(answer(text));
      return;
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    const send = (message: object): void => void res.write(`data: ${JSON.stringify(message)}\n\n`);
    const progressToken = params._meta?.progressToken;
    const message = key + 'x'.repeat(size);
    for (let progress = 1; progress <= count && !res.destroyed; progress++) {
      if (progressToken !== undefined)
        send({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress, message } });
      await sleep(this.hurried(key) ? 0 : every);
    }
    send({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'debug', logger: 'ticks', data: key } });
    res.end(`data: ${answer(text)}\n\n`);
    this.over.push(key);
  }
}
