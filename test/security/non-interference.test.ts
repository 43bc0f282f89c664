/**
 * S3: a caller with fewer rights gets the same answers from a gateway with hidden servers, agents, tools and busy other
 * callers as from a gateway without them. Every route is asked, with the names of hidden, absent and visible targets.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createApiKey } from '../../src/app/commands/api-keys.js';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { NEWEST } from '../../src/protocol/mcp/revisions/index.js';
import { SILENT } from '../../src/telemetry/log.js';
import { modernBody, modernHeaders } from '../input/support/speak.js';
import { type CountedUpstream, startCountedAgent } from '../pipeline/upstreams.js';
import { ADA, BOB, bearer, modern, RULES } from '../policy/world.js';
import { type Posted, sendJson, startLoose } from '../support/counting-server.js';

const TTL = { ttlMs: 3_600_000, cacheScope: 'public', resultType: 'complete' };

interface Described {
  readonly name: string;
  readonly description: string;
}

async function startTools(name: string, tools: readonly Described[]): Promise<CountedUpstream> {
  const contacts: string[] = [];
  const results: Record<string, object> = {
    'server/discover': {
      ...TTL,
      supportedVersions: [NEWEST.date],
      capabilities: { tools: {}, prompts: {}, resources: {}, completions: {} },
      instructions: `Use ${name}.`,
    },
    'tools/list': { ...TTL, tools: tools.map((tool) => ({ ...tool, inputSchema: { type: 'object' } })) },
    'prompts/list': { ...TTL, prompts: tools.map((tool) => ({ name: tool.name })) },
    'resources/list': { ...TTL, resources: tools.map((tool) => ({ name: tool.name, uri: `${name}://${tool.name}` })) },
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

const VISIBLE = [
  { name: 'forecast', description: 'The weather of a city for the next days' },
  { name: 'invoice', description: 'Writes an invoice for a customer' },
];
const HIDDEN = [
  { name: 'cloaked', description: `Merges every invoice of a customer ${'and a long text '.repeat(4_000)}` },
];
const SALARIES = [
  { name: 'salaries', description: 'Lists the salaries and every invoice of a city' },
  { name: 'forecast', description: 'The forecast of salaries' },
];

const closing: (() => Promise<unknown>)[] = [];
/** A gateway with hidden targets and other callers, and one without them. */
let full: RunningGateway;
let bare: RunningGateway;
let hidden: CountedUpstream[];
/** For each of the two, a key of an administrator that is restricted to the tools that bob sees. */
const restricted = new Map<RunningGateway, string>();

async function startWorld(withHidden: boolean): Promise<RunningGateway> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-interference-'));
  const open = await startTools('open', withHidden ? [...VISIBLE, ...HIDDEN] : VISIBLE);
  const openAgent = await startCountedAgent();
  const secret = withHidden ? [await startTools('secret', SALARIES), await startCountedAgent()] : [];
  if (withHidden) hidden = secret;
  const { config } = configFrom({
    listen: '127.0.0.1:0',
    egress: { allowPrivate: true },
    data: join(folder, 'data'),
    auth: {
      keys: true,
      tokens: [
        { name: 'ada', token: ADA, admin: true },
        { name: 'bob', token: BOB },
      ],
    },
    servers: { open: { url: open.url }, ...(withHidden && { secret: { url: secret[0]!.url } }) },
    agents: {
      openagent: { url: openAgent.url },
      openmade: { tools: withHidden ? ['open__*', 'secret__*'] : ['open__*'] },
      ...(withHidden && { secretagent: { url: secret[1]!.url }, secretmade: { tools: ['secret__*'] } }),
    },
    routing: { exposure: 'auto' },
    policy: { rules: RULES },
    timeouts: { drain: '1s' },
  });
  const gateway = await startServe(config, { log: SILENT });
  await gateway.settled(10_000);
  const scope = { roles: ['admin'], servers: ['open*'], tools: ['open__forecast', 'open__invoice'] };
  const { key } = await createApiKey(config, { name: 'carol', ...scope, tenant: undefined, expires: '1h' });
  restricted.set(gateway, key);
  closing.push(async () => {
    await gateway.close();
    for (const upstream of [open, openAgent, ...secret]) await upstream.close();
    await rm(folder, { recursive: true, force: true });
  });
  return gateway;
}

/** Ids of ada's state at the gateway with hidden targets, for bob to use. */
const stolen: Record<string, string> = {};

const post = (gateway: RunningGateway, path: string, token: string, body: object, headers = {}): Promise<Response> =>
  fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...bearer(token),
      ...headers,
    },
    body: JSON.stringify(body),
  });

/** Work of another caller: calls, a session, and a task that waits. */
async function adaWorks(): Promise<void> {
  for (const name of ['secret__salaries', 'open__forecast', 'open__cloaked', 'open__invoice'])
    await modern(full.url, 'tools/call', { name, arguments: {} }, { token: ADA });
  const initialize = {
    ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'ada', version: '1' } },
  };
  const session = await post(full, '/mcp', ADA, initialize);
  stolen['session'] = session.headers.get('mcp-session-id')!;
  await session.text();
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'wait' }] };
  for (const agent of ['openagent', 'secretagent']) {
    const body = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } };
    const answer = (await (await post(full, `/a2a/${agent}`, ADA, body, { 'a2a-version': '1.0' })).json()) as {
      result?: { task?: { id: string } };
    };
    stolen[agent] = answer.result!.task!.id;
  }
}

beforeAll(async () => {
  [full, bare] = [await startWorld(true), await startWorld(false)];
  await adaWorks();
});
afterAll(async () => {
  for (const close of closing.splice(0)) await close();
});

/**
 * An answer without the parts that differ between any two gateways: ids, times, ports, and whether a probe has ended.
 */
async function answered(gateway: RunningGateway, path: string, init: RequestInit, token = BOB): Promise<string> {
  const stop = new AbortController();
  const limit = setTimeout(() => stop.abort(), 10_000);
  const reply = await fetch(`${gateway.url}${path}`, {
    ...init,
    redirect: 'manual',
    signal: stop.signal,
    headers: { ...bearer(token), ...init.headers },
  });
  // A stream stays open: its first bytes are compared.
  const stream = (reply.headers.get('content-type') ?? '').startsWith('text/event-stream');
  const text = stream ? await firstOf(reply, stop) : await reply.text();
  clearTimeout(limit);
  const headers = [...reply.headers]
    .filter(([name]) => !/^(date|content-length|etag|x-request-id)$/.test(name))
    .map((h) => h.join(': '));
  return [reply.status, ...headers, text]
    .join('\n')
    .replaceAll(/127\.0\.0\.1:\d+/g, 'HOST')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll('"latency_ms":null', '"latency_ms":0')
    .replaceAll(/"(\w*(?:[mM]s|[sS]econds|[aA]t|uptime|pid|rss))":-?[\d.]+/g, '"$1":N')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'UUID')
    .replaceAll(/"kid":"[^"]*"/g, '"kid"')
    .replaceAll(/"request_?[iI]d":"[^"]*"/g, '"requestId"')
    .replaceAll(/[A-Za-z0-9_-]{40,}/g, 'SEALED')
    .replaceAll(/\b[0-9a-f]{8,32}\b/g, 'HEX');
}

async function firstOf(reply: Response, stop: AbortController): Promise<string> {
  const reader = reply.body!.getReader();
  const waited = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), 300));
  const chunk = await Promise.race([reader.read(), waited]);
  stop.abort();
  return chunk?.value ? Buffer.from(chunk.value).toString() : '';
}

/** A request in the newest revision. */
const modernParts = (method: string, params: object): { headers: Record<string, string>; body: string } => ({
  headers: { 'content-type': 'application/json', ...modernHeaders(method, params) },
  body: JSON.stringify(modernBody(method, params)),
});

const NAMES = ['secret', 'secretagent', 'secretmade', 'open', 'openagent', 'openmade', 'absent'];
const TOOLS = ['secret__salaries', 'open__cloaked', 'open__forecast', 'absent__add', 'salaries', 'cloaked'];
const BODIES: readonly object[] = [
  {},
  ...TOOLS.map((name) => ({ name, tool: name, tool_name: name, arguments: {} })),
  ...NAMES.map((name) => ({ name, server: name, server_id: name, server_name: name, agent: name, agent_name: name })),
];

const FORMS = ['application/json', 'text/html', 'text/event-stream'];

/** All paths of a route, with each name in each place. */
function pathsOf(path: string): string[] {
  if (!path.includes('{')) return [path];
  const values = [...NAMES, ...(path.includes('{tool}') ? TOOLS : [])];
  const ids = Object.values(stolen);
  return values.flatMap((value) => {
    const named = path.replace(/\{(?:server|name|agent|card|tool|id|of)\}/g, encodeURIComponent(value));
    if (!named.includes('{')) return [named];
    return [...ids, 'absent'].map((id) => named.replace(/\{\w+\}/g, encodeURIComponent(id)));
  });
}

/** The requests for one path of a route: with each body, and for each form of the answer. */
function requestsOf(method: string, path: string, url: string): { url: string; init: RequestInit; what: string }[] {
  const withBody = method === 'POST' || method === 'PUT' || method === 'PATCH';
  const bodies = !withBody ? [undefined] : url === path ? BODIES : BODIES.slice(0, 2);
  const forms = method !== 'GET' ? ['*/*'] : /mcp|sse|tail|^\/$/.test(path) ? FORMS : FORMS.slice(0, 1);
  return bodies.flatMap((body) =>
    forms.map((accept) => ({
      url,
      init: {
        method,
        headers: { accept, ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
      },
      what: `${method} ${url} ${accept} ${JSON.stringify(body ?? '')}`,
    })),
  );
}

describe('S3: a caller with fewer rights', () => {
  test('gets the same answer of every route, whether or not there is anything hidden', async () => {
    const requests = full.routes
      // The aliases of a route have the same handler, so one of them is enough.
      .filter(({ path }) => !/^\/v1\/a2a\/|\{tenant\}|\/v1\/task\/|pushNotifications(?!Configs)/.test(path))
      .flatMap(({ method, path }) => pathsOf(path).flatMap((url) => requestsOf(method, path, url)));
    expect(requests.length).toBeGreaterThan(1_000);
    const left = requests.values();
    const compare = async (): Promise<void> => {
      for (const { url, init, what } of left)
        expect.soft(await answered(full, url, init), what).toBe(await answered(bare, url, init));
    };
    await Promise.all(Array.from({ length: 12 }, compare));
    expect(
      hidden.flatMap(({ contacts }) => contacts).filter((method) => /call|read|get$|Message/.test(method)),
    ).toEqual(['tools/call', 'SendMessage']);
  }, 120_000);

  test.each([
    'server/discover',
    'tools/list',
    'prompts/list',
    'resources/list',
    'resources/templates/list',
    'tools/call',
    'prompts/get',
    'resources/read',
    'completion/complete',
    'subscriptions/listen',
    'tasks/get',
    'logging/setLevel',
    'foreign/method',
  ])('gets the same answers to %s, with hidden names and without', async (method) => {
    for (const path of ['/mcp', ...NAMES.map((name) => `/mcp/${name}`)]) {
      for (const name of ['', ...TOOLS, 'secret://salaries', 'open://cloaked']) {
        const params = {
          ...(name !== '' && { name, uri: name, taskId: name }),
          ...{ ref: { type: 'ref/prompt', name }, argument: { name: 'a', value: '' }, notifications: {} },
        };
        const init = { method: 'POST', ...modernParts(method, params) };
        const what = `${method} ${path} ${name}`;
        expect.soft(await answered(full, path, init), what).toBe(await answered(bare, path, init));
      }
    }
  });

  test.each([
    'weather',
    'invoice',
    'weather invoice',
    'salaries',
    'salaries weather',
    'city customer',
    'merges invoice',
    'forecast of a city',
  ])('finds the same tools with the same scores for "%s"', async (query) => {
    const search = { name: 'search_tools', arguments: { query, detail: 'brief' } };
    const [one, other] = await Promise.all(
      [full, bare].map(({ url }) => modern(url, 'tools/call', search, { token: BOB })),
    );
    expect(one!.text).toBe(other!.text);
    expect(one!.text).not.toMatch(/secret|cloaked|tool_not_found/);
  });
});

test('S26: an administrator with a restricted credential reads nothing about hidden tools in /health and in outputs', async () => {
  const [one, other] = await Promise.all(
    [full, bare].map(async (gateway) =>
      (await answered(gateway, '/health', {}, restricted.get(gateway))).replace(/"waiting":\d+/, '"waiting":N'),
    ),
  );
  expect(one).toBe(other);
  expect(one).toContain('"pins":{"count":0');
  expect(await answered(full, '/health', {}, ADA)).toContain('"name":"cloaked","state":"flagged"');
  const output = await answered(full, '/servers/open/logs', {}, restricted.get(full));
  expect(output).toMatch(/^403\n/);
});
