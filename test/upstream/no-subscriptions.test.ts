/** A modern server without subscriptions stays reachable after refused subscriptions. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { textOf } from '../input/support/message.js';
import { modernBody, modernCall, modernHeaders, Session } from '../input/support/speak.js';
import { EventStream } from '../input/support/wire.js';
import { startGateway } from '../support/gateway.js';

const serverInfo = { name: 'plain', version: '1' };
const complete = { resultType: 'complete', _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo } };
const cached = { ttlMs: 60_000, cacheScope: 'public' };
const RESULTS: Readonly<Record<string, object>> = {
  'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { tools: { listChanged: true } }, ...cached },
  'tools/list': { tools: [{ name: 'read', inputSchema: { type: 'object' } }], ...cached },
  'tools/call': { content: [{ type: 'text', text: 'read' }] },
};

test('refused subscriptions of sessions do not make its calls fail', async () => {
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    if (req.method !== 'POST') {
      res.writeHead(405).end();
      return;
    }
    const { id, method } = JSON.parse(Buffer.concat(chunks).toString()) as { id: number; method: string };
    const result = RESULTS[method];
    const error = { code: -32601, message: `Method not found: ${method}` };
    const body = { jsonrpc: '2.0', id, ...(result ? { result: { ...result, ...complete } } : { error }) };
    res.writeHead(result ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  try {
    await expectCalls({ url });
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test('the same over stdio', async () => {
  const program = `
    const results = ${JSON.stringify(RESULTS)};
    const complete = ${JSON.stringify(complete)};
    require('node:readline').createInterface(process.stdin).on('line', (line) => {
      const { id, method } = JSON.parse(line);
      if (id === undefined) return;
      const error = { code: -32601, message: 'Method not found: ' + method };
      const answer = results[method] ? { result: { ...results[method], ...complete } } : { error };
      console.log(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
    });`;
  await expectCalls({ command: process.execPath, args: ['-e', program] });
});

/** Opens sessions that want to hear of changes, and expects that the calls of each are answered. */
async function expectCalls(plain: object): Promise<void> {
  const gateway = await startGateway({ servers: { plain } });
  try {
    for (let i = 0; i < 8; i++) {
      const session = await Session.open(`${gateway.url}/mcp`, '2025-11-25');
      expect(textOf((await session.call('plain__read', {})).json)).toBe('read');
    }
    // Subscriptions without a call between them.
    const params = { notifications: { toolsListChanged: true } };
    const method = 'subscriptions/listen';
    for (let i = 0; i < 8; i++) {
      const [headers, body] = [modernHeaders(method), modernBody(method, params)];
      const stream = await EventStream.open(`${gateway.url}/mcp/plain`, { method: 'POST', headers, body });
      await stream.until(({ messages }) => messages[0]);
      stream.close();
    }
    expect(textOf((await modernCall(`${gateway.url}/mcp/plain`, 'read')).json)).toBe('read');
    const health = (await (await fetch(`${gateway.url}/health`)).json()) as { servers: Record<string, string> };
    expect(health.servers['plain']).toBe('up');
  } finally {
    await gateway.close();
  }
}
