/** A server in this process that counts requests, can delay its answers, and announces changes. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface CountedOptions {
  readonly era: 'legacy' | 'modern';
  readonly tools?: readonly string[];
  /** Whether it declares `listChanged` and keeps a stream open for notifications. */
  readonly announces?: boolean;
  /** The lifetime that the server gives for modern lists; default: 0. */
  readonly ttlMs?: number;
  readonly pageSize?: number;
}

interface Rpc {
  readonly id?: string | number;
  readonly method?: string;
  // biome-ignore lint/suspicious/noExplicitAny: whatever was sent
  readonly params?: any;
}

const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';

export class CountedServer {
  tools: readonly string[];
  /** The number of requests per method. */
  readonly asked = new Map<string, number>();
  /** The number of requests that arrived while the server did not answer. */
  held = 0;
  private readonly server: Server;
  private readonly streams = new Map<ServerResponse, string | number | undefined>();
  private silence: Promise<void> | undefined;
  private release = (): void => {};
  private sessions = 0;

  private constructor(private readonly options: CountedOptions) {
    this.tools = options.tools ?? ['one', 'two'];
    this.server = createServer((req, res) => void this.handle(req, res));
  }

  static async start(options: CountedOptions): Promise<CountedServer> {
    const counted = new CountedServer(options);
    await new Promise<void>((resolve) => counted.server.listen(0, '127.0.0.1', resolve));
    return counted;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/mcp`;
  }

  get lists(): number {
    return this.asked.get('tools/list') ?? 0;
  }

  /** Accepts requests from now on without answering them. */
  hang(): void {
    this.silence ??= new Promise((resolve) => {
      this.release = resolve;
    });
  }

  /** Answers again, including the waiting requests. */
  wake(): void {
    this.silence = undefined;
    this.release();
  }

  /** Whether a client listens for notifications. */
  get watched(): boolean {
    return this.streams.size > 0;
  }

  announce(): void {
    const method = 'notifications/tools/list_changed';
    for (const [stream, id] of this.streams) {
      const params = id === undefined ? undefined : { _meta: { [SUBSCRIPTION]: id } };
      stream.write(`data: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`);
    }
  }

  /** Ends all streams and removes all sessions. */
  forget(): void {
    this.sessions++;
    for (const stream of this.streams.keys()) stream.end();
  }

  private get session(): string {
    return `session-${this.sessions}`;
  }

  private async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    if (this.silence) this.held++;
    await this.silence;
    const given = req.headers['mcp-session-id'];
    if (given !== undefined && given !== this.session) return void res.writeHead(404).end();
    if (req.method === 'DELETE') return void res.writeHead(200).end();
    if (req.method === 'GET') {
      if (this.options.announces && given !== undefined) this.stream(res, undefined);
      else res.writeHead(405).end();
      return;
    }
    const { id, method = '', params } = JSON.parse(Buffer.concat(chunks).toString()) as Rpc;
    this.asked.set(method, (this.asked.get(method) ?? 0) + 1);
    if (id === undefined) return void res.writeHead(202).end();
    if (method === 'subscriptions/listen' && this.options.era === 'modern') {
      this.stream(res, id);
      const acknowledged = { notifications: params.notifications, _meta: { [SUBSCRIPTION]: id } };
      const message = { jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params: acknowledged };
      res.write(`data: ${JSON.stringify(message)}\n\n`);
      return;
    }
    const result = this.answer(method, params);
    const body = result ? { result } : { error: { code: -32601, message: `Method not found: ${method}` } };
    const head = {
      'content-type': 'application/json',
      ...(method === 'initialize' && { 'mcp-session-id': this.session }),
    };
    const status = !result && this.options.era === 'modern' ? 404 : 200;
    res.writeHead(status, head).end(JSON.stringify({ jsonrpc: '2.0', id, ...body }));
  }

  private stream(res: ServerResponse, id: string | number | undefined): void {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.flushHeaders();
    this.streams.set(res, id);
    res.on('close', () => this.streams.delete(res));
  }

  private answer(method: string, params: Rpc['params']): object | undefined {
    const { era, announces = false, ttlMs = 0, pageSize = 100 } = this.options;
    const capabilities = { tools: { listChanged: announces } };
    const kept = era === 'modern' && { resultType: 'complete', ttlMs, cacheScope: 'public' };
    switch (method) {
      case 'initialize':
        if (era === 'modern') return undefined;
        return { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'counted', version: '1' } };
      case 'server/discover':
        if (era === 'legacy') return undefined;
        return { ...kept, ttlMs: 600_000, supportedVersions: ['2026-07-28'], capabilities };
      case 'tools/list': {
        const from = Number(params?.cursor ?? 0);
        const tools = this.tools
          .slice(from, from + pageSize)
          .map((name) => ({ name, inputSchema: { type: 'object' } }));
        return { ...kept, tools, ...(from + pageSize < this.tools.length && { nextCursor: String(from + pageSize) }) };
      }
      case 'tools/call':
        return { ...(era === 'modern' && { resultType: 'complete' }), content: [{ type: 'text', text: params.name }] };
      default:
        return undefined;
    }
  }

  async close(): Promise<void> {
    this.wake();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
