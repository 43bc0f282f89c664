/** HTTP APIs with OpenAPI documents as servers, before real HTTP services. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { type Log, SILENT } from '../../src/telemetry/log.js';
import type { Message } from '../input/support/message.js';
import { modern, modernCall, Session, SseClient } from '../input/support/speak.js';
import { eventually } from '../support/eventually.js';

const TOKEN = 'user-0123456789abcdef0123456789abcdef';
const ADMIN = 'admin-k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH';
const AS = { authorization: `Bearer ${TOKEN}` };

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

const seen: Seen[] = [];
let folder: string;
let service: Server;
let base: string;
let gateway: RunningGateway;
const warnings: string[] = [];
/** The document that the service publishes. */
let published: object;

const document = (more: object = {}, servers?: readonly object[]): object => ({
  openapi: '3.0.3',
  info: { title: 'Pets', version: '2.1' },
  ...(servers && { servers }),
  components: {
    schemas: {
      Pet: {
        type: 'object',
        required: ['name'],
        properties: { name: { type: 'string' }, tag: { type: 'string', nullable: true } },
      },
    },
  },
  paths: {
    '/pets': {
      get: {
        operationId: 'listPets',
        summary: 'Lists pets',
        parameters: [
          { name: 'tags', in: 'query', schema: { type: 'array', items: { type: 'string' } } },
          { name: 'X-Trace', in: 'header', schema: { type: 'string' } },
        ],
      },
      post: {
        operationId: 'createPet',
        summary: 'Creates a pet',
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Pet' } } },
        },
      },
    },
    '/pets/{id}': {
      parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
      get: { operationId: 'getPet', summary: 'One pet' },
      patch: {
        operationId: 'renamePet',
        summary: 'Renames a pet',
        requestBody: { content: { 'application/json': {} } },
      },
    },
    '/status/{code}': {
      get: {
        operationId: 'status',
        parameters: [{ name: 'code', in: 'path', required: true, schema: { type: 'integer' } }],
      },
    },
    '/large': { get: { operationId: 'large' } },
    '/slow': { get: { operationId: 'slow' } },
    ...more,
  },
});

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-openapi-'));
  service = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { pathname } = new URL(req.url!, 'http://service');
      const json = (status: number, value: unknown, headers = {}): void =>
        void res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
      if (pathname === '/openapi.json') return json(200, published);
      seen.push({ method: req.method!, url: req.url!, headers: req.headers, body: Buffer.concat(chunks).toString() });
      if (pathname === '/api/large')
        return void res.writeHead(200, { 'content-type': 'text/plain' }).end('x'.repeat(300_000));
      if (pathname === '/api/slow') return;
      if (pathname.startsWith('/api/status/'))
        return json(
          Number(pathname.slice(12)),
          { code: pathname.slice(12) },
          { location: 'http://169.254.169.254/', 'retry-after': '3' },
        );
      return json(200, { method: req.method, path: pathname, note: 'grüße 漢字' });
    });
  });
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
  published = document({}, [{ url: '/api' }]);
  await writeFile(join(folder, 'pets.json'), JSON.stringify(document({}, [{ url: `${base}/api` }])));
  await writeFile(
    join(folder, 'routeiq.yaml'),
    `openapi: 3.1.0
info: { title: Old server, version: '1' }
servers: [{ url: '${base}/old' }]
paths:
  /mcp/tools/call:
    post:
      operationId: call
      description: Calls a tool of a server with the format of RouteIQ
      requestBody:
        required: true
        content:
          application/json:
            schema: { type: object, required: [tool_name], properties: { tool_name: { type: string }, arguments: { type: object } } }
`,
  );
  const { config } = configFrom(
    {
      listen: '127.0.0.1:0',
      data: join(folder, 'data'),
      limits: { event: '16KB' },
      egress: { allow: ['127.0.0.1'], ports: [Number(new URL(base).port)] },
      auth: {
        tokens: [
          { name: 'ada', token: TOKEN },
          { name: 'root', token: ADMIN, admin: true },
        ],
      },
      servers: {
        pets: {
          openapi: join(folder, 'pets.json'),
          headers: { 'X-Api-Key': 'key-of-the-gateway' },
          validation: 'strict',
          timeouts: { call: '1s', callMax: '2s' },
        },
        remote: { openapi: `${base}/openapi.json` },
        old: { openapi: join(folder, 'routeiq.yaml') },
        absent: { openapi: join(folder, 'absent.json') },
      },
    },
    { env: {} },
  );
  const log = {
    ...SILENT,
    warn: (facts: object, text: string) => void warnings.push(`${text} ${JSON.stringify(facts)}`),
  };
  gateway = await startServe(config, { log: log as Log });
  await gateway.settled(10_000);
});
afterAll(async () => {
  await gateway?.close();
  service?.closeAllConnections();
  service?.close();
  await rm(folder, { recursive: true, force: true });
});

const call = async (name: string, args: object = {}): Promise<Message> =>
  (await modernCall(`${gateway.url}/mcp`, name, args, { headers: AS })).json;
const names = async (): Promise<string[]> => {
  const { json } = await modern(`${gateway.url}/mcp`, 'tools/list', {}, { headers: AS });
  return json.result.tools.map(({ name }) => name);
};

describe('an HTTP API with an OpenAPI document', () => {
  test('has its operations as tools, with schemas and hints', async () => {
    const { json } = await modern(`${gateway.url}/mcp/pets`, 'tools/list', {}, { headers: AS });
    const tools = json.result.tools as unknown as { name: string; inputSchema: object; annotations: object }[];
    expect(tools.map(({ name }) => name)).toEqual([
      ...['listPets', 'createPet', 'getPet', 'renamePet', 'status', 'large', 'slow'],
    ]);
    expect(tools[0]).toMatchObject({ title: 'Lists pets', annotations: { readOnlyHint: true } });
    expect(tools[1]!.inputSchema).toMatchObject({ properties: { body: { $ref: '#/$defs/Pet' } }, required: ['body'] });
    expect(await names()).toEqual(expect.arrayContaining(['pets__listPets', 'remote__listPets', 'old__call']));
  });

  test('is called with encoded arguments and the credential of the gateway', async () => {
    const { result } = await call('pets__getPet', { id: 'a b?x=1&y' });
    expect(result).toMatchObject({
      content: [{ type: 'text', text: expect.stringContaining('grüße 漢字') }],
      structuredContent: { method: 'GET', path: '/api/pets/a%20b%3Fx%3D1%26y' },
    });
    expect(seen.at(-1)).toMatchObject({
      url: '/api/pets/a%20b%3Fx%3D1%26y',
      headers: { 'x-api-key': 'key-of-the-gateway', accept: expect.stringContaining('application/json') },
    });
    await call('pets__listPets', { tags: ['a', 'b&c'], 'X-Trace': 't1' });
    expect(seen.at(-1)).toMatchObject({ url: '/api/pets?tags=a&tags=b%26c', headers: { 'x-trace': 't1' } });
    await call('pets__createPet', { body: { name: 'Rex', tag: null } });
    expect(seen.at(-1)).toMatchObject({
      method: 'POST',
      body: '{"name":"Rex","tag":null}',
      headers: { 'content-type': 'application/json' },
    });
    await call('pets__renamePet', { id: '7', body: { name: 'Max' } });
    expect(seen.at(-1)).toMatchObject({ method: 'PATCH', url: '/api/pets/7' });
    for (const { headers } of seen) expect(headers.authorization).toBeUndefined();
  });

  test('gets no request for arguments that lead elsewhere, or that the schema refuses', async () => {
    const before = seen.length;
    for (const id of ['..', '.', '../../admin', 'a/b'])
      expect((await call('pets__getPet', { id })).result).toMatchObject({ isError: true });
    expect((await call('pets__listPets', { 'X-Trace': 'a\r\nX-Api-Key: mine' })).result).toMatchObject({
      isError: true,
    });
    expect((await call('pets__createPet', { body: {} })).result).toMatchObject({ isError: true });
    expect((await call('pets__listPets', { other: 1 })).result).toMatchObject({ isError: true });
    expect(seen).toHaveLength(before);
  });

  test('reports its errors, and no redirect is followed', async () => {
    expect((await call('pets__status', { code: 404 })).result).toMatchObject({
      isError: true,
      content: [{ text: 'The server answered HTTP 404:\n{"code":"404"}' }],
    });
    expect(JSON.stringify(await call('pets__status', { code: 302 }))).toContain('does not follow');
    expect(JSON.stringify(await call('pets__status', { code: 401 }))).toContain('refused the credential');
    expect(JSON.stringify(await call('pets__status', { code: 429 }))).toContain('is limiting requests');
  });

  test('is limited in size and time', async () => {
    expect(JSON.stringify(await call('pets__large'))).toMatch(/more than \d+ bytes/);
    expect(JSON.stringify(await call('pets__slow'))).toContain('did not answer within');
    expect((await call('pets__getPet', { id: '1' })).result).toMatchObject({ structuredContent: { method: 'GET' } });
  });

  test('serves clients of every revision, over HTTP and HTTP+SSE', async () => {
    for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
      const session = await Session.open(`${gateway.url}/mcp`, version, AS);
      const { json } = await session.call('pets__getPet', { id: version });
      expect(json.result.content[0]?.text).toContain(version);
      expect('structuredContent' in json.result).toBe(version >= '2025-06-18');
    }
    const sse = await SseClient.connect(`${gateway.url}/sse`, AS);
    await sse.initialize('2024-11-05');
    const answer = await sse.request('tools/call', { name: 'pets__getPet', arguments: { id: 'sse' } });
    expect(answer.result.content[0]?.text).toContain('/api/pets/sse');
    sse.close();
  });
});

test('S0-17: a server with RouteIQ’s own format gets tool_name and arguments', async () => {
  await call('old__call', { body: { tool_name: 'search', arguments: { query: 'ferries' } } });
  expect(seen.at(-1)).toMatchObject({
    method: 'POST',
    url: '/old/mcp/tools/call',
    body: '{"tool_name":"search","arguments":{"query":"ferries"}}',
  });
});

test('a changed document changes the list, and clients are notified; a broken document leaves the last one in use', async () => {
  const session = await Session.open(`${gateway.url}/mcp`, '2025-06-18', AS);
  const stream = await session.listen();
  const file = join(folder, 'pets.json');
  await writeFile(
    file,
    JSON.stringify(document({ '/new': { get: { operationId: 'added', summary: 'New' } } }, [{ url: `${base}/api` }])),
  );
  await eventually(names, (all) => all.includes('pets__added'));
  await stream.until(({ messages }) => messages.some(({ method }) => method === 'notifications/tools/list_changed'));
  stream.close();
  await writeFile(file, '{ broken');
  await eventually(
    () => warnings.filter((line) => line.includes('kept the last OpenAPI document')),
    (lines) => lines.length === 1 && lines[0]!.includes('neither JSON nor YAML'),
  );
  expect((await call('pets__added')).result).toMatchObject({ structuredContent: { path: '/api/new' } });
});

test('an API that cannot be reached refuses calls at once after some failures', async () => {
  const before = published;
  published = document({}, [{ url: '/api' }]);
  const gone = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => gone.once('listening', resolve));
  const { port } = gone.address() as AddressInfo;
  gone.close();
  const { config } = configFrom(
    {
      listen: '127.0.0.1:0',
      data: join(folder, 'gone'),
      servers: {
        gone: {
          openapi: `${base}/openapi.json`,
          url: `http://127.0.0.1:${port}`,
          breaker: { failures: 2, pause: '1h' },
        },
      },
    },
    { env: {} },
  );
  const other = await startServe(config, { log: SILENT });
  await other.settled(10_000);
  const answers: string[] = [];
  for (let i = 0; i < 3; i++)
    answers.push(JSON.stringify((await modernCall(`${other.url}/mcp`, 'gone__getPet', { id: '1' })).json));
  expect(answers[1]).toContain('connection refused');
  expect(answers[2]).toContain('could not be reached; try again later');
  await other.close();
  published = before;
});

test('a document that cannot be read makes only its own server fail, and callers do not see its path', async () => {
  const { json } = await modern(`${gateway.url}/mcp/absent`, 'tools/list', {}, { headers: AS });
  const text = JSON.stringify(json);
  expect(text).toContain('its OpenAPI document cannot be read (ENOENT)');
  expect(text).not.toContain(folder);
});

describe('registered over the API', () => {
  const register = async (name: string, settings: object): Promise<{ status: number; text: string }> => {
    const reply = await fetch(`${gateway.url}/api/v1/servers`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name, settings }),
    });
    return { status: reply.status, text: await reply.text() };
  };

  test('a document is a URL that egress allows, never a file', async () => {
    expect((await register('made', { openapi: `${base}/openapi.json` })).status).toBe(201);
    await eventually(names, (all) => all.includes('made__listPets'));
    expect((await call('made__getPet', { id: '1' })).result).toMatchObject({
      structuredContent: { path: '/api/pets/1' },
    });
    const file = await register('file', { openapi: join(folder, 'pets.json') });
    expect([file.status, file.text]).toEqual([422, expect.stringContaining('cannot name files')]);
    expect((await register('blocked', { openapi: 'http://169.254.169.254/openapi.json' })).status).toBe(422);
  });

  test('a document cannot lead requests to another origin', async () => {
    published = document({}, [{ url: 'http://169.254.169.254/latest' }]);
    expect((await register('lying', { openapi: `${base}/openapi.json` })).status).toBe(201);
    const { json } = await modern(`${gateway.url}/mcp/lying`, 'tools/list', {}, { headers: AS });
    expect(JSON.stringify(json)).toContain('names a base URL at another origin');
  });
});
