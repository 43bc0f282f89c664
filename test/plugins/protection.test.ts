/** Plugins that protect data, in a running gateway: errors of servers, and links to results. */

import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer, ProtocolError } from '@modelcontextprotocol/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { createApiKey, revokeApiKeys } from '../../src/app/commands/api-keys.js';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import type { Config } from '../../src/config/schema.js';
import { SILENT } from '../../src/telemetry/log.js';
import { modern, modernCall, Session } from '../input/support/speak.js';
import { card, json, Stage } from '../support/remote-agents.js';

const TOKEN = 'ada-0123456789abcdef0123456789abcdef';
const SECRET = 'signs-0123456789abcdef0123456789abcdef';
const ADDRESS = 'postgres://u:hunter2@db.example/x';
const HIDDEN = 'postgres://[redacted:secret]@db.example/x';
const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

function build(): McpServer {
  const server = new McpServer({ name: 'data', version: '1.0.0' });
  server.registerPrompt('broken', {}, () => {
    throw new ProtocolError(1234, `no ${ADDRESS}`, { at: ADDRESS });
  });
  server.registerTool('export', { inputSchema: z.object({}) }, async () => ({
    content: [{ type: 'text' as const, text: 'row of data\n'.repeat(1_000) }],
  }));
  server.registerTool('other', { inputSchema: z.object({}) }, async () => ({ content: [] }));
  return server;
}

const stage = new Stage();
const received: Record<string, unknown>[] = [];
let folder: string;
let config: Config;
let gateway: RunningGateway;
let close: () => Promise<unknown>;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'parley-protection-'));
  const server = createServer(toNodeHandler(createMcpHandler(build, { legacy: 'reject' })));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const agent = await stage.server(({ path: at, body }, response, { url: own }) => {
    if (at.includes('/.well-known/')) json(response, card([{ url: own }]));
    else json(response, { jsonrpc: '2.0', id: body['id'], error: { code: -32000, message: ADDRESS, data: ADDRESS } });
  });
  const receiver = await stage.server(({ body }, response) => {
    received.push(body as Record<string, unknown>);
    json(response, { error: { message: 'Something failed' } });
  });
  ({ config } = configFrom({
    listen: '127.0.0.1:0',
    data: path.join(folder, 'data'),
    egress: { allowPrivate: true },
    servers: { data: { url }, remote: { url }, plain: { url } },
    agents: { helper: { url: agent.url } },
    auth: { tokens: [{ name: 'ada', token: TOKEN }], keys: true },
    plugins: [
      { use: 'size-governor', governor: { limit: '2KiB', preview: 100 } },
      { use: 'redaction', servers: ['data', 'helper'] },
      {
        ...{ name: 'elsewhere', url: receiver.url, secret: SECRET, hooks: ['onError'], body: 'full' },
        ...{ servers: ['remote'], timeout: '30s' },
      },
    ],
  }));
  gateway = await startServe(config, { log: SILENT });
  await gateway.settled(10_000);
});
afterAll(async () => {
  await gateway?.close();
  await stage.close();
  await close?.();
  await rm(folder, { recursive: true, force: true });
});

describe('the error of a server', () => {
  const broken = async (server: string) =>
    (await modern(`${gateway.url}/mcp`, 'prompts/get', { name: `${server}__broken` }, as(TOKEN))).json.error;

  it('is redacted, for clients of every revision', async () => {
    expect(await broken('data')).toMatchObject({ message: `no ${HIDDEN}`, data: { at: HIDDEN } });
    const session = await Session.open(`${gateway.url}/mcp`, '2025-06-18', as(TOKEN).headers);
    const { error } = (await session.request('prompts/get', { name: 'data__broken' })).json;
    expect(error).toMatchObject({ message: `no ${HIDDEN}`, data: { at: HIDDEN } });
  });

  it('passes unchanged where no plugin wants errors', async () => {
    expect(await broken('plain')).toMatchObject({ message: `no ${ADDRESS}`, data: { at: ADDRESS } });
  });

  it('reaches a plugin over HTTP, which replaces its message and its data', async () => {
    const error = await broken('remote');
    expect(error?.message).toBe('Something failed');
    expect(JSON.stringify(error)).not.toContain('hunter2');
    expect(received).toHaveLength(1);
    expect(received[0]).toMatchObject({
      hook: 'onError',
      call: { method: 'prompts/get', server: 'remote', name: 'broken' },
      error: { message: `no ${ADDRESS}`, data: { at: ADDRESS } },
    });
  });

  it('is redacted if it is the error of an A2A agent', async () => {
    const message = { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: 'hi' }] };
    const response = await fetch(`${gateway.url}/a2a/helper`, {
      method: 'POST',
      headers: { ...as(TOKEN).headers, 'content-type': 'application/json', 'a2a-version': '1.0' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }),
    });
    const text = await response.text();
    expect(text).toContain(HIDDEN);
    expect(text).not.toContain('hunter2');
  });
});

it('a link to a result is not readable with a narrower key of the same caller', async () => {
  const key = async (tools: string[]) => {
    const wanted = { name: 'ci', roles: [], servers: [], tools, tenant: undefined, expires: '1h' };
    return (await createApiKey(config, wanted)).key;
  };
  const at = `${gateway.url}/mcp`;
  const read = async (uri: string, token: string) => (await modern(at, 'resources/read', { uri }, as(token))).json;
  const wide = await key([]);
  const { content } = (await modernCall(at, 'plain__export', {}, as(wide))).json.result;
  const { uri } = content.at(-1) as unknown as { uri: string };
  expect((await read(uri, wide)).result.contents[0]?.text).toHaveLength(12_000);
  await revokeApiKeys(config, 'ci');
  const narrow = await key(['plain__other']);
  expect((await read(uri, narrow)).error?.data).toMatchObject({ reason: 'resource_not_found' });
  await revokeApiKeys(config, 'ci');
  const fitting = await key(['plain__export']);
  expect((await read(uri, fitting)).result.contents[0]?.text).toHaveLength(12_000);
});
