/** The gateway samples live traffic and counts the violations of each server, in its state and in the metrics. */
import { expect, test } from 'vitest';
import { closeHttp, listen } from '../fixtures/a2a/agent.js';
import { ask } from '../security/modern-client.js';
import { startGateway } from '../support/gateway.js';

const REVISION = '2026-07-28';

/** A server whose only tool answers without content. */
async function careless(): Promise<{ url: string; close(): Promise<void> }> {
  const { server, url } = await listen(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const { id, method } = JSON.parse(text || '{}') as { id?: unknown; method?: string };
    const common = { resultType: 'complete', ttlMs: 60_000, cacheScope: 'public' };
    const results: Record<string, object> = {
      'server/discover': {
        ...common,
        supportedVersions: [REVISION],
        capabilities: { tools: {} },
        serverInfo: { name: 'careless', version: '1' },
      },
      'tools/list': { ...common, tools: [{ name: 'empty', inputSchema: { type: 'object' } }] },
      'tools/call': { resultType: 'complete' },
    };
    const result = results[method ?? ''];
    const error = { code: -32601, message: 'Method not found' };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id: id ?? null, ...(result ? { result } : { error }) }));
  });
  return { url: `${url}/mcp`, close: () => closeHttp(server) };
}

test('sampled violations are in the state of the server and in the metrics; without samples there are none', async () => {
  const server = await careless();
  try {
    for (const samplePercent of [100, 0]) {
      const gateway = await startGateway({ servers: { careless: { url: server.url } }, assess: { samplePercent } });
      try {
        for (let i = 0; i < 3; i++) await ask(gateway.url, 'tools/call', { name: 'careless__empty', arguments: {} });
        const state = (await (await fetch(`${gateway.url}/api/v1/servers/careless`)).json()) as object;
        const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
        const line = 'parley_upstream_violations_total{upstream="careless",kind="content_missing"} 3';
        if (samplePercent === 0) {
          expect(state).not.toHaveProperty('violations');
          expect(metrics).not.toContain('parley_upstream_violations_total{');
          continue;
        }
        expect(state).toMatchObject({ violations: { sampled: 3, kinds: { content_missing: 3 } } });
        expect(metrics).toContain(line);
      } finally {
        await gateway.close();
      }
    }
  } finally {
    await server.close();
  }
});
