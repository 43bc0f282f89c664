/**
 * A configured view over every transport that serves `/mcp/<server>`, and a change of it while clients are connected.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { startStdio } from '../../src/app/stdio.js';
import { configFrom } from '../../src/config/load.js';
import type { JsonObject } from '../../src/protocol/jsonrpc/raw.js';
import { NEWEST_LEGACY } from '../../src/protocol/mcp/revisions/index.js';
import { SILENT } from '../../src/telemetry/log.js';
import type { CountedUpstream } from '../pipeline/upstreams.js';
import { ADA, BOB, bearer, modern, startItems } from '../policy/world.js';

const VIEWS = {
  research: {
    groups: ['docs'],
    when: 'caller.subject == "ada"',
    tools: { deny: ['cloaked'], rename: { open__add: 'sum' } },
  },
  everyone: { servers: ['secret'], routing: { exposure: 'search' } },
};
let folder: string;
let upstreams: CountedUpstream[];
let gateway: RunningGateway;

const configOf = (views: object) =>
  configFrom({
    listen: '127.0.0.1:0',
    data: join(folder, 'data'),
    auth: {
      tokens: [
        { name: 'ada', token: ADA },
        { name: 'bob', token: BOB },
      ],
    },
    servers: { open: { url: upstreams[0]!.url, groups: ['docs'] }, secret: { url: upstreams[1]!.url } },
    policy: { rules: [{ name: 'open', when: 'server == "open" || caller.subject == "ada"', effect: 'allow' }] },
    views,
  }).config;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-views-'));
  upstreams = [await startItems('open'), await startItems('secret')];
  gateway = await startServe(configOf(VIEWS), { log: SILENT });
  await gateway.settled(10_000);
});
afterAll(async () => {
  await gateway.close();
  for (const upstream of upstreams) await upstream.close();
  await rm(folder, { recursive: true, force: true });
});

const ask = async (path: string, method: string, params: JsonObject = {}, token = ADA) => {
  const { status, text } = await modern(gateway.url, method, params, { token, path });
  return { status, ...(JSON.parse(text) as { result?: JsonObject; error?: JsonObject }) };
};
const toolsOf = (result: JsonObject | undefined): unknown[] =>
  (result!['tools'] as JsonObject[]).map(({ name }) => name);

test.each(['/mcp/research', '/mcp/Research', '/research/mcp'])('%s shows and calls its tools only', async (path) => {
  expect(toolsOf((await ask(path, 'tools/list')).result)).toEqual(['sum']);
  expect((await ask(path, 'tools/call', { name: 'sum', arguments: {} })).result).toMatchObject({
    content: [{ text: 'done by open' }],
  });
  for (const name of ['open__add', 'open__cloaked', 'secret__add', 'add', 'cloaked'])
    expect((await ask(path, 'tools/call', { name, arguments: {} })).error, name).toMatchObject({
      message: `Unknown tool: ${name}`,
    });
  const { result } = await ask(path, 'server/discover');
  expect(result).toMatchObject({ instructions: '[open] Use open.' });
});

test('a view that the caller may not use is answered like one that does not exist', async () => {
  const absent = await modern(gateway.url, 'tools/list', {}, { token: BOB, path: '/mcp/absent' });
  for (const name of ['research', 'everyone']) {
    const hidden = await modern(gateway.url, 'tools/list', {}, { token: BOB, path: `/mcp/${name}` });
    expect({ ...hidden, text: hidden.text.replaceAll(name, 'absent') }).toEqual(absent);
  }
  expect(absent.status).toBe(404);
});

test('a view has a search of its own', async () => {
  expect(toolsOf((await ask('/mcp/everyone', 'tools/list')).result)).toEqual(['search_tools', 'call_tool']);
  const found = await ask('/mcp/everyone', 'tools/call', { name: 'search_tools', arguments: { query: 'add' } });
  expect(JSON.stringify(found.result)).toContain('secret__add');
  expect(JSON.stringify(found.result)).not.toContain('open__');
  const wrapped = { name: 'call_tool', arguments: { name: 'open__add', arguments: {} } };
  expect((await ask('/mcp/everyone', 'tools/call', wrapped)).error).toMatchObject({
    data: { reason: 'tool_not_found' },
  });
  expect(toolsOf((await ask('/mcp', 'tools/list')).result)).toHaveLength(4);
});

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: NEWEST_LEGACY.date, capabilities: {}, clientInfo: { name: 't', version: '1' } },
};
const LIST = { jsonrpc: '2.0', id: 2, method: 'tools/list', params: {} };

test('the page of a view shows its servers', async () => {
  const page = await fetch(`${gateway.url}/mcp/research`, { headers: { ...bearer(ADA), accept: 'text/html' } });
  const text = await page.text();
  expect(text).toContain('<h1>research</h1>');
  expect(text).toContain('/mcp/open"');
  expect(text).not.toContain('secret');
});

test('a session and an HTTP+SSE stream of a view follow its changes', async () => {
  const headers = {
    ...bearer(ADA),
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  const post = (path: string, body: object, more: Record<string, string> = {}) =>
    fetch(gateway.url + path, { method: 'POST', headers: { ...headers, ...more }, body: JSON.stringify(body) });
  const opened = await post('/mcp/research', initialize);
  const session = { 'mcp-session-id': opened.headers.get('mcp-session-id')! };
  await opened.text();
  const listed = async (): Promise<string> => (await post('/mcp/research', LIST, session)).text();
  expect(await listed()).toContain('"sum"');
  expect((await post('/mcp', LIST, session)).status).toBe(404);

  const stream = await fetch(`${gateway.url}/mcp/research/sse`, { headers: bearer(ADA) });
  const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
  let seen = '';
  const until = async (part: string): Promise<void> => {
    while (!seen.includes(part)) {
      const { value, done } = await reader.read();
      if (done) throw new Error(`the stream ended without ${part}: ${seen}`);
      seen += value;
    }
  };
  await until('\n\n');
  const messages = /data: (\S+)/.exec(seen)![1]!;
  expect(messages).toMatch(/^\/mcp\/research\/messages\?/);
  await post(messages, initialize);
  await until('"id":1');
  // The condition of the view is checked for the path of the request, so the posts of a view must use its path.
  expect((await post(messages.replace('/mcp/research', ''), LIST)).status).toBe(404);
  await post(messages, { jsonrpc: '2.0', method: 'notifications/initialized' });
  await post(messages, LIST);
  await until('"sum"');

  await gateway.reload(configOf({ ...VIEWS, research: { servers: ['secret'], tools: { deny: ['add'] } } }));
  await until('notifications/tools/list_changed');
  expect(await listed()).toContain('secret__cloaked');
  await post(messages, { ...LIST, id: 3 });
  await until('secret__cloaked');
  await gateway.reload(configOf({ everyone: VIEWS.everyone }));
  expect((await post('/mcp/research', LIST, session)).status).toBe(404);
  await reader.cancel();
  await gateway.reload(configOf(VIEWS));
});

test('parley stdio serves a view', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const config = { ...configOf(VIEWS), data: join(folder, 'stdio') };
  const serving = startStdio(config, { log: SILENT, server: 'research', input, output });
  const lines: string[] = [];
  const done = new Promise<void>((resolve) => {
    output.setEncoding('utf8').on('data', (text: string) => {
      lines.push(text);
      if (lines.join('').includes('"id":2')) resolve();
    });
  });
  for (const message of [initialize, { jsonrpc: '2.0', method: 'notifications/initialized' }, LIST])
    input.write(`${JSON.stringify(message)}\n`);
  await done;
  input.end();
  await serving;
  expect(lines.join('')).toContain('"sum"');
  expect(lines.join('')).not.toContain('secret');
});
