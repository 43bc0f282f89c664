/** MCP over REST, and the headers with which a request selects servers. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readEvents } from '../input/support/wire.js';
import { meta, modern } from '../policy/world.js';
import { ADA, BOB, type RestWorld, rest, startRestWorld } from './world.js';

let world: RestWorld;
beforeAll(async () => {
  world = await startRestWorld();
});
afterAll(() => world?.close());

interface Listed {
  readonly name: string;
  readonly inputSchema: { readonly type: string };
  readonly mcp_info: { readonly server_id: string; readonly server_name: string; readonly alias: string };
}
const servers = (tools: readonly Listed[]): string[] => [...new Set(tools.map(({ mcp_info }) => mcp_info.server_id))];
const open = { server_id: 'open', server_name: 'open', alias: 'open' };

describe('S0-06: GET /mcp-rest/tools/list', () => {
  test('lists the tools that the caller may use, with the names of their own server', async () => {
    const { status, body, headers } = await rest(world, '/mcp-rest/tools/list?server_id=open');
    expect(status).toBe(200);
    expect(body).toEqual({
      tools: [{ name: 'add', inputSchema: { type: 'object' }, mcp_info: open }],
      error: null,
      message: 'Successfully retrieved tools',
    });
    expect(headers.get('cache-control')).toBe('no-store');
  });

  test('lists the tools of all servers, and names the servers without an answer', async () => {
    const { body } = await rest(world, '/mcp-rest/tools/list', { token: ADA });
    expect(servers(body.tools).sort()).toEqual(['echo', 'login', 'open', 'quiet', 'secret']);
    expect(body.error).toBe('partial_failure');
    expect(body.message).toContain('broken');
  });

  test('shows nothing of servers and tools that the caller may not use', async () => {
    const all = await rest(world, '/mcp-rest/tools/list');
    expect(servers(all.body.tools).sort()).toEqual(['open', 'quiet']);
    expect(JSON.stringify(all.body)).not.toMatch(/secret|echo|broken|cloaked/);
    const [hidden, absent] = [
      await rest(world, '/mcp-rest/tools/list?server_id=secret'),
      await rest(world, '/mcp-rest/tools/list?server_id=nobody'),
    ];
    expect([hidden.status, hidden.body.detail.error]).toEqual([404, 'server_not_found']);
    expect(hidden.body.detail.message.replace('secret', 'nobody')).toBe(absent.body.detail.message);
  });

  test('is refused without a key, and the failure of a single server is an error status', async () => {
    const refused = await rest(world, '/mcp-rest/tools/list', { token: '' });
    expect([refused.status, refused.body.detail.error]).toEqual([401, 'unauthorized']);
    expect(refused.headers.get('www-authenticate')).toContain('Bearer');
    const failed = await rest(world, '/mcp-rest/tools/list?server_id=broken', { token: ADA });
    expect(failed.status).toBe(503);
    expect(failed.body.detail).toMatchObject({ error: 'upstream_unavailable', request_id: expect.any(String) });
  });

  test('refuses parameters that it cannot honour', async () => {
    const { status, body } = await rest(world, '/mcp-rest/tools/list?toolset_name=x');
    expect([status, body.detail.error]).toEqual([501, 'unsupported_operation']);
  });
});

describe('S0-06: POST /mcp-rest/tools/call', () => {
  const call = (body: object | string, token = BOB, headers = {}) =>
    rest(world, '/mcp-rest/tools/call', { token, body, headers });

  test('answers with the result of the tool, and the members that older clients read', async () => {
    const { status, body } = await call({ server_id: 'open', name: 'add', arguments: {} });
    const content = [{ type: 'text', text: 'done by open' }];
    expect(status).toBe(200);
    expect(body).toEqual({
      content,
      isError: false,
      status: 'success',
      tool_name: 'add',
      server_id: 'open',
      result: content,
    });
  });

  test('S0-14: the pair of server and tool decides, not the bare name of the tool', async () => {
    const before = world.secret.contacts.length;
    expect((await call({ server_id: 'secret', name: 'add' }, ADA)).body.result[0].text).toBe('done by secret');
    expect((await call({ server_id: 'OPEN', name: 'add' }, ADA)).body.result[0].text).toBe('done by open');
    expect(world.secret.contacts.slice(before)).toEqual(['tools/call']);
  });

  test('S0-35, S4-07: passes arguments and content on as they are', async () => {
    const text = 'grüße 漢字 🎈';
    const { body } = await call({ server_id: 'echo', name: 'echo', arguments: { text, more: [1.5] } }, ADA);
    expect(body.content).toEqual([{ type: 'text', text }]);
    expect(world.echo.calls.at(-1)).toMatchObject({ name: 'echo', args: { text } });
  });

  test.each([
    [{ name: 'add' }, 400, 'missing_parameter', 'server_id is required in request body'],
    [{ server_id: 'open' }, 400, 'missing_parameter', 'name is required in request body'],
    [{ server_id: 7, name: 'add' }, 400, 'invalid_request', '"server_id" must be a string'],
    [{ server_id: 'open', name: 'add', arguments: [] }, 400, 'invalid_request', '"arguments" must be an object'],
    ['{"server_id":', 400, 'invalid_json', 'The body is not valid JSON'],
    ['[]', 400, 'invalid_request', 'The body must be a JSON object'],
    ['{"name":"a","name":"b"}', 400, 'invalid_request', 'The member "name" appears twice'],
    [{ server_id: 'nobody', name: 'add' }, 404, 'server_not_found', 'MCP Server with id nobody not found'],
    [{ server_id: 'secret', name: 'add' }, 404, 'server_not_found', 'MCP Server with id secret not found'],
    [{ server_id: 'open', name: 'cloaked' }, 404, 'tool_not_found', 'Unknown tool: cloaked'],
    [{ server_id: 'open', name: 'absent' }, 404, 'tool_not_found', 'Unknown tool: absent'],
    [
      { server_id: 'quiet', name: 'add' },
      501,
      'tool_invocation_disabled',
      'Calls to tools of server "quiet" are disabled by the configuration of this gateway',
    ],
  ])('S0-15, S4-15: %j is an error with status %i', async (body, status, error, message) => {
    const before = world.secret.contacts.length;
    const answer = await call(body);
    expect([answer.status, answer.body.detail.error, answer.body.detail.message]).toEqual([status, error, message]);
    expect(answer.headers.get('x-request-id')).toBe(answer.body.detail.request_id);
    expect(world.secret.contacts).toHaveLength(before);
  });

  test('S0-36: the failure of a tool is a result, and the refusal of a server is an error', async () => {
    const wrong = await call({ server_id: 'echo', name: 'echo', arguments: { text: 5 } }, ADA);
    const failed =
      wrong.status === 200 ? wrong.body.isError === true : wrong.body.detail.error === 'tool_invocation_failed';
    expect(failed).toBe(true);
  });

  test('needs a JSON body', async () => {
    const { status, body } = await call('server_id=open', BOB, { 'content-type': 'text/plain' });
    expect([status, body.detail.error]).toEqual([415, 'unsupported_media_type']);
  });
});

describe('S0-09, S3-19: selection by headers', () => {
  const names = async (headers: Record<string, string>, token = ADA): Promise<string[]> => {
    const { text } = await modern(world.url, 'tools/list', {}, { token, headers });
    const { result } = JSON.parse(text) as { result: { tools: { name: string }[] } };
    return result.tools.map(({ name }) => name);
  };

  test('x-mcp-servers limits the tools of /mcp and of /mcp-rest', async () => {
    expect(await names({ 'x-mcp-servers': 'open, Secret' })).toEqual([
      'open__add',
      'open__cloaked',
      'secret__add',
      'secret__cloaked',
    ]);
    expect(await names({ 'x-mcp-servers': 'secret,nobody' }, BOB)).toEqual([]);
    const { body } = await rest(world, '/mcp-rest/tools/list', { token: ADA, headers: { 'x-mcp-servers': 'echo' } });
    expect(servers(body.tools)).toEqual(['echo']);
  });

  test('a call outside of the selection finds no tool', async () => {
    const headers = { 'x-mcp-servers': 'echo' };
    const { text } = await modern(world.url, 'tools/call', { name: 'open__add' }, { token: ADA, headers });
    expect(text).toContain('tool_not_found');
    const body = { server_id: 'open', name: 'add' };
    const reply = await rest(world, '/mcp-rest/tools/call', { token: ADA, body, headers });
    expect([reply.status, reply.body.detail.error]).toEqual([404, 'server_not_found']);
  });

  test('too many names are refused', async () => {
    const headers = { 'x-mcp-servers': Array.from({ length: 201 }, (_, n) => `s${n}`).join(',') };
    expect((await rest(world, '/mcp-rest/tools/list', { headers })).status).toBe(400);
  });

  test('S3-09, S4-10: a client that only reads JSON gets JSON at /mcp', async () => {
    const params = { _meta: meta() };
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params };
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list', 'x-mcp-servers': 'open' };
    const reply = await rest(world, '/mcp', { body, headers });
    expect(reply.body.result.tools.map(({ name }: Listed) => name)).toEqual(['open__add']);
    expect(reply.headers.get('content-type')).toBe('application/json');
  });
});

test('S0-09: x-mcp-<server>-<header> sets a header for one server, if the operator allows it', async () => {
  const headers = {
    'x-mcp-echo-authorization': 'Bearer callers-own-3311',
    'x-mcp-echo-x-own': 'callers-value-88',
    'x-mcp-echo-cookie': 'callers-cookie-55',
    'x-mcp-open-x-api-key': 'callers-key-99',
  };
  const before = world.echo.seenHeaders.length;
  const body = { server_id: 'echo', name: 'echo', arguments: { text: 'hi' } };
  const reply = await rest(world, '/mcp-rest/tools/call', { token: ADA, body, headers });
  expect(reply.status).toBe(200);
  const seen = world.echo.seenHeaders.slice(before);
  expect(seen).toEqual(expect.arrayContaining(['Bearer callers-own-3311', 'callers-value-88']));
  expect(seen.join()).not.toMatch(/own-value-77|callers-cookie-55|callers-key-99|x-mcp-/);
  await rest(world, '/mcp-rest/tools/call', { token: ADA, body });
  expect(world.echo.seenHeaders.slice(before + seen.length)).toContain('own-value-77');
});

test('S3-04, S3-05: /sse?view=catalog streams the catalog of the caller as events', async () => {
  const abort = new AbortController();
  const reply = await fetch(`${world.url}/sse?view=catalog`, {
    headers: { authorization: `Bearer ${BOB}`, accept: 'text/event-stream' },
    signal: abort.signal,
  });
  expect(reply.headers.get('content-type')).toContain('text/event-stream');
  let text = '';
  for await (const chunk of reply.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (text.includes('event: endpoint') && text.endsWith('\n\n')) break;
  }
  abort.abort();
  const [connection, endpoint] = readEvents(text);
  expect([connection?.event, JSON.parse(connection!.data).name]).toEqual(['connection', 'parley']);
  expect(endpoint?.event).toBe('endpoint');
  const { endpoints } = JSON.parse(endpoint!.data) as { endpoints: { name: string; inputSchema: object }[] };
  expect(endpoints.map(({ name }) => name).sort()).toEqual(['open__add', 'quiet__add']);
});
