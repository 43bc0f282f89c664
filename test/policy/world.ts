/** Two servers and two agents behind a gateway with a policy: `secret…` is hidden from bob, `open…` is not. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import type { JsonObject } from '../../src/protocol/jsonrpc/raw.js';
import { encodeHeaderValue, nameParameter } from '../../src/protocol/mcp/mirrored-headers.js';
import { NEWEST } from '../../src/protocol/mcp/revisions/index.js';
import { type Log, SILENT } from '../../src/telemetry/log.js';
import { type CountedUpstream, startCountedAgent } from '../pipeline/upstreams.js';
import { type Posted, sendJson, startLoose } from '../support/counting-server.js';

export const ADA = 'ada-0123456789-Kj8sLq2vXz7mNw4pRt6y';
export const BOB = 'bob-9270-Hf3dGk5bVc1nMq8wZx0eT7yU';
const PREFIX = 'io.modelcontextprotocol';
const TTL = { ttlMs: 3_600_000, cacheScope: 'public', resultType: 'complete' };

/** A server with visible and cloaked items, whose names begin with the name of the server. */
export async function startItems(name: string): Promise<CountedUpstream> {
  const contacts: string[] = [];
  const schema = { inputSchema: { type: 'object' } };
  const results: Record<string, object> = {
    'server/discover': {
      ...TTL,
      supportedVersions: [NEWEST.date],
      capabilities: { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {} },
      instructions: `Use ${name}.`,
    },
    'tools/list': {
      ...TTL,
      tools: [
        { name: 'add', ...schema },
        { name: 'cloaked', ...schema },
      ],
    },
    'prompts/list': { ...TTL, prompts: [{ name: 'ask' }, { name: 'cloaked' }] },
    'resources/list': {
      ...TTL,
      resources: ['one', 'cloaked'].map((path) => ({ name: path, uri: `${name}://${path}` })),
    },
    'resources/templates/list': { ...TTL, resourceTemplates: [] },
    'tools/call': { resultType: 'complete', content: [{ type: 'text', text: `done by ${name}` }] },
    'prompts/get': { resultType: 'complete', messages: [] },
    'resources/read': { ...TTL, contents: [] },
    'completion/complete': { resultType: 'complete', completion: { values: [] } },
  };
  const server = await startLoose(({ method = '', id }: Posted, res) => {
    contacts.push(method);
    const result = results[method];
    if (id === undefined) res.writeHead(202).end();
    else if (result) sendJson(res, { jsonrpc: '2.0', id, result });
    else sendJson(res, { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
  });
  return { url: server.url, contacts, close: () => server.close() };
}

export const RULES = [
  { name: 'ada', when: 'caller.subject == "ada"', effect: 'allow' },
  { name: 'cloaked', when: 'tool == "cloaked"', effect: 'deny' },
  { name: 'cloaked prompts', when: 'mcp.prompt == "cloaked"', effect: 'deny' },
  { name: 'cloaked resources', when: 'mcp.resource.endsWith("/cloaked")', effect: 'deny' },
  { name: 'open', when: 'server.startsWith("open")', effect: 'allow' },
];

export interface PolicyWorld {
  readonly gateway: RunningGateway;
  /** Requests that reached a hidden upstream. */
  hidden(): readonly string[];
  /** Requests that reached any upstream. */
  contacts(): readonly string[];
  reload(changes: object): Promise<void>;
  close(): Promise<void>;
}

export async function startPolicyWorld(more: object = {}, log: Log = SILENT): Promise<PolicyWorld> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-policy-'));
  const [secret, open] = [await startItems('secret'), await startItems('open')];
  const [secretAgent, openAgent] = [await startCountedAgent(), await startCountedAgent()];
  const settings = (changes: object) => ({
    listen: '127.0.0.1:0',
    grpc: { listen: '127.0.0.1:0' },
    egress: { allowPrivate: true },
    // The tests count the contacts that callers cause.
    health: { interval: '1h' },
    data: join(folder, 'data'),
    auth: {
      tokens: [
        { name: 'ada', token: ADA, admin: true },
        { name: 'bob', token: BOB },
      ],
    },
    servers: { secret: { url: secret.url }, open: { url: open.url } },
    agents: {
      secretagent: { url: secretAgent.url },
      openagent: { url: openAgent.url },
      openmade: { tools: ['open__*', 'secret__*'] },
      secretmade: { tools: ['open__*'] },
    },
    policy: { rules: RULES },
    ...more,
    ...changes,
  });
  const gateway = await startServe(configFrom(settings({})).config, { log });
  await gateway.settled(10_000);
  const all = [secret, open, secretAgent, openAgent];
  return {
    gateway,
    hidden: () => [...secret.contacts, ...secretAgent.contacts],
    contacts: () => all.flatMap(({ contacts }) => contacts),
    reload: async (changes) => {
      await gateway.reload(configFrom(settings(changes)).config);
    },
    close: async () => {
      await gateway.close();
      for (const upstream of all) await upstream.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface Answer {
  readonly status: number;
  readonly headers: readonly string[];
  readonly text: string;
}

export async function answerOf(reply: Response): Promise<Answer> {
  const text = await reply.text();
  const headers = [...reply.headers].filter(([name]) => !/^(date|content-length|x-request-id)$/.test(name));
  return { status: reply.status, headers: headers.map(([name, value]) => `${name}: ${value}`), text };
}

export const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

export const meta = (capabilities: JsonObject = {}): JsonObject => ({
  [`${PREFIX}/protocolVersion`]: NEWEST.date,
  [`${PREFIX}/clientCapabilities`]: capabilities,
});

export interface ModernRequest {
  readonly token: string;
  readonly path?: string;
  readonly capabilities?: JsonObject;
  readonly headers?: Record<string, string>;
}

/** A request in the newest revision. */
export async function modern(
  url: string,
  method: string,
  params: JsonObject,
  { token, path = '/mcp', capabilities = {}, headers = {} }: ModernRequest,
): Promise<Answer> {
  const named = params[nameParameter(method) ?? ''];
  const reply = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': NEWEST.date,
      'mcp-method': method,
      ...(typeof named === 'string' && { 'mcp-name': encodeHeaderValue(named) }),
      ...bearer(token),
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta(capabilities) } }),
  });
  return answerOf(reply);
}
