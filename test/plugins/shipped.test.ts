/** The shipped plugins in a running gateway. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { modern, modernCall, Session } from '../input/support/speak.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

const TOKENS = { ada: 'ada-0123456789abcdef0123456789abcdef', bob: 'bob-0123456789abcdef0123456789abcdef' };
type Person = keyof typeof TOKENS;
const headersOf = (person: Person) => ({ authorization: `Bearer ${TOKENS[person]}` });

let calls = 0;
const LONG = `first line, mail ada@example.com\n${'row of data\n'.repeat(5_000)}`;

/** A server with tools only. */
function build(): McpServer {
  const server = new McpServer({ name: 'data', version: '1.0.0' });
  const reply = (text: string) => ({ content: [{ type: 'text' as const, text }] });
  server.registerTool(
    'count',
    { description: 'Counts', annotations: { readOnlyHint: true }, inputSchema: z.object({}) },
    async () => reply(String(++calls)),
  );
  server.registerTool(
    'account',
    { description: 'Names the account', annotations: { readOnlyHint: true }, inputSchema: z.object({}) },
    async (_, { http }) => reply(http?.req?.headers.get('x-account') ?? 'none'),
  );
  server.registerTool('reset', { description: 'Resets', inputSchema: z.object({}) }, async () => reply('done'));
  server.registerTool(
    'export',
    { description: 'Exports', inputSchema: z.object({}), outputSchema: z.object({ rows: z.string() }) },
    async () => ({ ...reply(LONG), structuredContent: { rows: LONG } }),
  );
  return server;
}

let close: () => Promise<unknown>;
let gateway: RunningGateway;

beforeAll(async () => {
  const server = createServer(toNodeHandler(createMcpHandler(build, { legacy: 'reject' })));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  gateway = await startGateway({
    servers: { data: { url, callerHeaders: ['X-Account'] } },
    auth: { tokens: Object.entries(TOKENS).map(([name, token]) => ({ name, token })) },
    plugins: [
      { use: 'descriptions', descriptions: [{ tool: 'data__count', description: 'Counts the calls.' }] },
      { use: 'size-governor', governor: { limit: '4KiB', preview: 100 } },
      { use: 'redaction' },
      { use: 'result-cache', tools: ['account', 'count', 'reset'] },
    ],
  });
});
afterAll(async () => {
  await gateway?.close();
  await close?.();
});

const call = async (person: Person, tool: string) =>
  (await modernCall(`${gateway.url}/mcp`, `data__${tool}`, {}, { headers: headersOf(person) })).json.result;
const read = async (person: Person, uri: string) =>
  (await modern(`${gateway.url}/mcp`, 'resources/read', { uri }, { headers: headersOf(person) })).json;

describe('a large result', () => {
  const exported = async (): Promise<{ text: string; uri: string; size: number }> => {
    const { content, ...rest } = await call('ada', 'export');
    expect(rest).not.toHaveProperty('structuredContent');
    expect(JSON.stringify(content).length).toBeLessThan(4_096);
    const [preview, link] = content as unknown as [{ text: string }, { type: string; uri: string }];
    expect(link).toMatchObject({ type: 'resource_link', mimeType: 'text/plain' });
    return { ...link, text: preview.text } as never;
  };

  it('becomes a preview and a link, both redacted', async () => {
    const { text, uri } = await exported();
    expect(text).toContain('first line, mail [redacted:email]');
    const { result } = await read('ada', uri);
    expect(result.contents[0]?.text).toBe(LONG.replace('ada@example.com', '[redacted:email]'));
  });

  it('is read by its caller only', async () => {
    const { uri } = await exported();
    expect((await read('bob', uri)).error?.data).toMatchObject({ reason: 'resource_not_found' });
    expect((await read('ada', `${uri}x`)).error?.data).toMatchObject({ reason: 'resource_not_found' });
  });

  it('is readable although no server has resources: the capability and an empty list exist', async () => {
    const options = { headers: headersOf('ada') };
    const { result } = (await modern(`${gateway.url}/mcp`, 'server/discover', {}, options)).json;
    expect(result.capabilities).toHaveProperty('resources');
    const listed = (await modern(`${gateway.url}/mcp`, 'resources/list', {}, options)).json;
    expect(listed.result).toMatchObject({ resources: [] });
  });

  it('is a link in the text for clients of revisions without links', async () => {
    const session = await Session.open(`${gateway.url}/mcp`, '2024-11-05', headersOf('ada'));
    const { content } = (await session.call('data__export')).json.result;
    const uri = /<(parley-result:[^>]+)>/.exec(content.at(-1)!.text)![1]!;
    const { contents } = (await session.request('resources/read', { uri })).json.result;
    expect(contents[0]?.text.length).toBeGreaterThan(50_000);
  });

  it('is promised in lists without structure', async () => {
    const { tools } = (await modern(`${gateway.url}/mcp`, 'tools/list', {}, { headers: headersOf('ada') })).json.result;
    const found = tools.find(({ name }) => name === 'data__export') as object;
    expect(found).not.toHaveProperty('outputSchema');
    expect(tools.find(({ name }) => name === 'data__count')).toMatchObject({ description: 'Counts the calls.' });
  });
});

it('results of read-only tools are reused for the same caller, until a tool may have changed something', async () => {
  const count = async (person: Person) => (await call(person, 'count')).content[0]?.text;
  const first = await count('ada');
  expect(await count('ada')).toBe(first);
  const other = await count('bob');
  expect(other).not.toBe(first);
  await call('bob', 'reset');
  expect(await count('ada')).not.toBe(first);
});

it('results are reused only for the account that the caller chose at the server', async () => {
  const asked = async (account?: string) => {
    const headers = { ...headersOf('ada'), ...(account !== undefined && { 'x-mcp-data-x-account': account }) };
    return (await modernCall(`${gateway.url}/mcp`, 'data__account', {}, { headers })).json.result.content[0]?.text;
  };
  expect([await asked('one'), await asked('two'), await asked(), await asked('one')]).toEqual([
    ...['one', 'two', 'none', 'one'],
  ]);
});
