/** Vectors from an endpoint of the operator: fused with words, and words alone when the endpoint is unavailable. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ShownServer, startShown } from '../catalog/support.js';
import { connectClient, type EraClient, type Json } from '../eras/peers.js';
import { eventually } from '../support/eventually.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

let endpoint: Server;
let server: ShownServer;
let gateway: RunningGateway;
let client: EraClient;
const keys: (string | undefined)[] = [];
let broken = false;

beforeAll(async () => {
  endpoint = createServer(async (request, response) => {
    keys.push(request.headers.authorization);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { input } = JSON.parse(Buffer.concat(chunks).toString()) as { input: string[] };
    // "ordinary" and the tool "plain" have the same vector.
    const data = input.map((text, index) => ({ index, embedding: /plain|ordinary/.test(text) ? [1, 0] : [0, 1] }));
    response.writeHead(broken ? 503 : 200, { 'content-type': 'application/json' }).end(JSON.stringify({ data }));
  });
  endpoint.listen(0, '127.0.0.1');
  await once(endpoint, 'listening');
  const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/v1/embeddings`;
  server = await startShown('modern', 'http');
  gateway = await startGateway({
    log: { level: 'warn' },
    servers: { modern: server.settings },
    routing: { exposure: 'search', vectors: { url, key: 'key-of-the-endpoint', timeout: '5s' } },
  });
  const at = { transport: 'http', url: `${gateway.url}/mcp`, config: '' } as const;
  client = await connectClient('2026-07-28', at, { capabilities: {}, answer: () => ({}) });
});
afterAll(async () => {
  await client?.close();
  await gateway?.close();
  await server?.close();
  endpoint?.closeAllConnections();
  endpoint?.close();
});

async function first(query: string): Promise<string | undefined> {
  const [{ text }] = (await client.call('search_tools', { query }))['content'] as [{ text: string }];
  return text.startsWith('{') ? ((JSON.parse(text) as { tools: Json[] }).tools[0]?.['name'] as string) : undefined;
}

test('a query without a common word finds its tool by vectors; without the endpoint words decide', async () => {
  await eventually(
    () => first('ordinary'),
    (name) => name === 'modern__plain',
  );
  expect(new Set(keys)).toEqual(new Set(['Bearer key-of-the-endpoint']));
  broken = true;
  expect(await first('something ordinary')).toBeUndefined();
  expect(await first('plain')).toBe('modern__plain');
  await eventually(gateway.log, (log) => log.includes('ranking by words only'));
  expect(gateway.log()).not.toContain('key-of-the-endpoint');
});
