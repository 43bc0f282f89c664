/** S6: 200 clients at the same time, all with the id 0: each receives its own answers, in 20,000 calls. */
import { Agent, request } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type LooseServer, sendJson, startLoose } from '../support/counting-server.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

const CLIENTS = 200;
const CALLS = 100;
const PREFIX = 'io.modelcontextprotocol';
const KEPT = { ttlMs: 3_600_000, cacheScope: 'public', resultType: 'complete' };

let server: LooseServer;
let gateway: RunningGateway;
const seen = new Set<unknown>();
const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });

beforeAll(async () => {
  server = await startLoose(({ id, method, params = {} }, res) => {
    if (id === undefined) return void res.writeHead(202).end();
    const reply = (result: object): void => sendJson(res, { jsonrpc: '2.0', id, result });
    if (method === 'server/discover')
      return reply({ ...KEPT, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } });
    if (method === 'tools/list') return reply({ ...KEPT, tools: [{ name: 'echo', inputSchema: { type: 'object' } }] });
    seen.add(id);
    const { text } = params['arguments'] as { text: string };
    // Answers leave in another order than the requests came.
    setTimeout(() => reply({ resultType: 'complete', content: [{ type: 'text', text }] }), Math.random() * 10);
  });
  gateway = await startGateway({ servers: { one: { url: server.url } } });
});
afterAll(async () => {
  agent.destroy();
  await gateway.close();
  await server.close();
});

const call = (text: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 0,
      method: 'tools/call',
      params: {
        name: 'one__echo',
        arguments: { text },
        _meta: { [`${PREFIX}/protocolVersion`]: '2026-07-28', [`${PREFIX}/clientCapabilities`]: {} },
      },
    });
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'content-length': Buffer.byteLength(body),
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'one__echo',
    };
    const sent = request(`${gateway.url}/mcp`, { method: 'POST', headers, agent }, (response) => {
      let answer = '';
      response.setEncoding('utf8').on('data', (chunk) => (answer += chunk));
      response.on('end', () => resolve(answer)).on('error', reject);
    });
    sent.on('error', reject).end(body);
  });

test('S6: 200 clients with the id 0 and 20,000 calls: no answer reaches another client', async () => {
  const wrong: string[] = [];
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, client) => {
      for (let at = 0; at < CALLS; at++) {
        const marker = `<client-${client}-call-${at}>`;
        const answer = await call(marker);
        const markers = answer.match(/<client-\d+-call-\d+>/g) ?? [];
        if (markers.length !== 1 || markers[0] !== marker || JSON.parse(answer).id !== 0) wrong.push(answer);
      }
    }),
  );
  expect(wrong).toEqual([]);
  // The gateway gives each call its own id at the server.
  expect(seen.size).toBe(CLIENTS * CALLS);
});
