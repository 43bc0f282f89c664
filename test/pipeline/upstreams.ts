/** A server and an agent that record every request they receive. */
import { type LooseServer, type Posted, sendJson, startLoose } from '../support/counting-server.js';

export interface CountedUpstream {
  readonly url: string;
  /** The methods and paths of its requests, in order. */
  readonly contacts: string[];
  close(): Promise<void>;
}

const TTL = { ttlMs: 3_600_000, cacheScope: 'public', resultType: 'complete' };
const TASKS = 'io.modelcontextprotocol/tasks';

const AT = '2026-01-01T00:00:00Z';
const TASK = { taskId: 'own', createdAt: AT, lastUpdatedAt: AT, ttlMs: 60_000, pollIntervalMs: 10 };

function resultOf({ method, params = {} }: Posted): object | undefined {
  switch (method) {
    case 'server/discover':
      return {
        ...TTL,
        supportedVersions: ['2026-07-28'],
        capabilities: {
          tools: {},
          prompts: {},
          resources: { subscribe: true },
          completions: {},
          extensions: { [TASKS]: {} },
        },
      };
    case 'tools/list':
      return { ...TTL, tools: [{ name: 'add', inputSchema: { type: 'object' } }] };
    case 'prompts/list':
      return { ...TTL, prompts: [{ name: 'ask' }] };
    case 'resources/list':
      return { ...TTL, resources: [{ name: 'one', uri: 'counted://one' }] };
    case 'resources/templates/list':
      return { ...TTL, resourceTemplates: [] };
    case 'tools/call': {
      const meta = params['_meta'] as Record<string, { extensions?: object }>;
      const declared = meta['io.modelcontextprotocol/clientCapabilities']?.extensions ?? {};
      const done = { resultType: 'complete', content: [] };
      return TASKS in declared ? { ...TASK, resultType: 'task', status: 'working' } : done;
    }
    case 'tasks/get':
      return { ...TASK, resultType: 'complete', status: 'completed', result: { content: [] } };
    default:
      return undefined;
  }
}

export async function startCountedServer(): Promise<CountedUpstream> {
  const contacts: string[] = [];
  const server: LooseServer = await startLoose((message, res) => {
    contacts.push(String(message.method));
    const result = resultOf(message);
    if (message.id === undefined) res.writeHead(202).end();
    else if (result) sendJson(res, { jsonrpc: '2.0', id: message.id, result });
    else {
      const error = { code: -32601, message: 'Method not found' };
      sendJson(res, { jsonrpc: '2.0', id: message.id, error });
    }
  });
  return { url: server.url, contacts, close: () => server.close() };
}

/** Its only task waits for its client, so the gateway has no reason to follow it. */
export async function startCountedAgent(): Promise<CountedUpstream> {
  const contacts: string[] = [];
  const server: LooseServer = await startLoose((message, res, req) => {
    contacts.push(message.method ?? `${req.method} ${req.url}`);
    const url = server.url;
    if (req.method === 'GET')
      sendJson(res, {
        name: 'Counted',
        description: 'Counts',
        version: '1',
        supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
        capabilities: { streaming: true, pushNotifications: false },
        defaultInputModes: ['text/plain'],
        defaultOutputModes: ['text/plain'],
        skills: [{ id: 'count', name: 'Count', description: 'Counts', tags: ['count'] }],
      });
    else {
      const task = { id: 'waiting', contextId: 'c', status: { state: 'TASK_STATE_INPUT_REQUIRED' } };
      sendJson(res, { jsonrpc: '2.0', id: message.id, result: message.method === 'SendMessage' ? { task } : task });
    }
  });
  return { url: server.url, contacts, close: () => server.close() };
}
