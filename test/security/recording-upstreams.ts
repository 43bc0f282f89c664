/** Servers and agents of every transport and binding that record all that they receive: lines, headers and bodies. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  Server as GrpcServer,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { SERVICE_1_0 } from '../../src/protocol/a2a/proto/services.js';

type Json = Record<string, unknown>;

export interface Recording {
  readonly url: string;
  readonly grpc: string;
  /**
   * Everything that arrived, by the first segment of the path: `modern`, `legacy`, `events`, `jsonrpc`, `rest`, `grpc`.
   */
  readonly heard: ReadonlyMap<string, string[]>;
  close(): Promise<void>;
}

const TOOLS = { tools: [{ name: 'keep', inputSchema: { type: 'object' } }] };
const DONE = { content: [{ type: 'text', text: 'kept' }] };
const CACHED = { ttlMs: 3_600_000, cacheScope: 'public' };

function mcpResult(kind: string, { method, params }: { method?: string; params?: Json }): Json | undefined {
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: params?.['protocolVersion'],
        capabilities: { tools: {} },
        serverInfo: { name: kind, version: '1' },
      };
    case 'server/discover':
      if (kind !== 'modern') return undefined;
      return { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, ...CACHED };
    case 'tools/list':
      return kind === 'modern' ? { resultType: 'complete', ...TOOLS, ...CACHED } : TOOLS;
    case 'tools/call':
      return kind === 'modern' ? { resultType: 'complete', ...DONE } : DONE;
    case 'ping':
      return {};
    default:
      return undefined;
  }
}

const card = (url: string, protocolBinding: string): Json => ({
  name: protocolBinding,
  description: 'Records',
  version: '1',
  supportedInterfaces: [{ url, protocolBinding, protocolVersion: '1.0' }],
  capabilities: { streaming: false, pushNotifications: false },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [{ id: 'keep', name: 'Keep', description: 'Keeps', tags: ['keep'] }],
});

/** A task that is not over, so that its push configuration stays. */
const TASK = { task: { id: 'own', contextId: 'c', status: { state: 'TASK_STATE_INPUT_REQUIRED' } } };

export async function startRecording(): Promise<Recording> {
  const heard = new Map<string, string[]>();
  const record = (kind: string, ...texts: string[]): void => {
    heard.set(kind, [...(heard.get(kind) ?? []), ...texts]);
  };
  let stream: ServerResponse | undefined;
  const server = createServer(async (req: IncomingMessage, res: ServerResponse) => {
    const body = Buffer.concat(await req.toArray()).toString();
    const kind = new URL(req.url!, 'http://x').pathname.split('/')[1]!;
    record(kind, `${req.method} ${req.url}`, JSON.stringify(req.rawHeaders), body);
    const json = (value: unknown, headers = {}): void =>
      void res.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
    const own = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    if (req.url!.includes('/.well-known/')) {
      if (kind === 'jsonrpc') return json(card(`${own}/jsonrpc`, 'JSONRPC'));
      if (kind === 'rest') return json(card(`${own}/rest`, 'HTTP+JSON'));
      if (kind === 'grpc') return json(card(grpc, 'GRPC'));
      return void res.writeHead(404).end();
    }
    if (kind === 'rest') return json(TASK);
    if (kind === 'events' && req.method === 'GET') {
      stream = res.writeHead(200, { 'content-type': 'text/event-stream' });
      return void res.write('event: endpoint\ndata: /events/messages\n\n');
    }
    if (req.method !== 'POST' || req.url === '/events') return void res.writeHead(405).end();
    const message = JSON.parse(body) as { id?: number; method?: string; params?: Json };
    if (message.id === undefined) return void res.writeHead(202).end();
    const result = kind === 'jsonrpc' ? TASK : mcpResult(kind, message);
    const answer = {
      jsonrpc: '2.0',
      id: message.id,
      ...(result ? { result } : { error: { code: -32601, message: 'Method not found' } }),
    };
    if (kind !== 'events') return json(answer, kind === 'legacy' ? { 'mcp-session-id': 'session-of-the-server' } : {});
    res.writeHead(202).end();
    stream?.write(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const grpcServer = new GrpcServer();
  grpcServer.addService(...recordingService((text) => record('grpc', text)));
  const port = await new Promise<number>((resolve, reject) =>
    grpcServer.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  const grpc = `127.0.0.1:${port}`;
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    grpc,
    heard,
    close: async () => {
      grpcServer.forceShutdown();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const asIs = (bytes: Buffer): Buffer => bytes;

function recordingService(record: (text: string) => void): [ServiceDefinition, UntypedServiceImplementation] {
  const definition: Record<string, ServiceDefinition[string]> = {};
  const implementation: UntypedServiceImplementation = {};
  for (const { path, response, streams } of SERVICE_1_0.methods) {
    if (streams) continue;
    definition[path] = {
      ...{ path, requestStream: false, responseStream: false },
      ...{ requestSerialize: asIs, requestDeserialize: asIs, responseSerialize: asIs, responseDeserialize: asIs },
    };
    implementation[path] = (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) => {
      record(`${path} ${JSON.stringify(call.metadata.getMap())} ${call.request.toString('latin1')}`);
      done(null, SERVICE_1_0.codec.encode(response, response === 'Task' ? TASK.task : TASK));
    };
  }
  return [definition, implementation];
}
