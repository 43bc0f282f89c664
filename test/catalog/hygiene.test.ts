/**
 * S4-16, S4-17: tools without description are reported, strict mode does not offer them, and wrong arguments are
 * refused.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { lintTools } from '../../src/app/commands/lint.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import type { JsonObject } from '../../src/protocol/jsonrpc/raw.js';
import { NEWEST } from '../../src/protocol/mcp/revisions/index.js';
import { SILENT } from '../../src/telemetry/log.js';
import { modern } from '../policy/world.js';
import { type LooseServer, type Posted, sendJson, startLoose } from '../support/counting-server.js';

let folder: string;
let server: LooseServer;
const called: unknown[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-hygiene-'));
  const fresh = { ttlMs: 3_600_000, cacheScope: 'public', resultType: 'complete' };
  const inputSchema = { type: 'object', properties: { at: { $ref: '#/$defs/p' } }, $defs: { p: { type: 'integer' } } };
  const results: Record<string, object> = {
    'server/discover': { ...fresh, supportedVersions: [NEWEST.date], capabilities: { tools: {} } },
    'tools/list': {
      ...fresh,
      tools: [
        { name: 'good', description: 'Good.', inputSchema },
        { name: 'bare', inputSchema },
      ],
    },
    'tools/call': { resultType: 'complete', content: [] },
  };
  server = await startLoose(({ method = '', id, params }: Posted, res) => {
    if (method === 'tools/call') called.push(params?.['arguments']);
    const result = results[method];
    sendJson(res, { jsonrpc: '2.0', id, ...(result ? { result } : { error: { code: -32601, message: 'no' } }) });
  });
});
afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

const configOf = (settings: object) =>
  configFrom({ listen: '127.0.0.1:0', data: join(folder, 'data'), servers: { s: { url: server.url, ...settings } } })
    .config;

test('S4-16: the lint command reports a tool without a description, also where the gateway does not check', async () => {
  const { findings, missing } = await lintTools(configOf({ lint: 'off' }), { log: SILENT });
  expect([missing, findings]).toEqual([
    [],
    [expect.objectContaining({ server: 's', tool: 'bare', rule: 'description_missing', withheld: false })],
  ]);
});

test('S4-17: strict mode does not offer the tool, and strict validation refuses wrong arguments with their place', async () => {
  const gateway = await startServe(configOf({ lint: 'strict', validation: 'strict' }), { log: SILENT });
  try {
    await gateway.settled(10_000);
    const ask = async (method: string, params: JsonObject) => {
      const { text } = await modern(gateway.url, method, params, { token: 'none' });
      return (JSON.parse(text) as { result?: JsonObject }).result;
    };
    const { tools } = (await ask('tools/list', {})) as { tools: JsonObject[] };
    expect(tools.map(({ name }) => name)).toEqual(['s__good']);
    expect(await ask('tools/call', { name: 's__good', arguments: { at: 'x' } })).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/do not match its input schema.*\/at: /) }],
    });
    expect(called).toEqual([]);
    await ask('tools/call', { name: 's__good', arguments: { at: 1 } });
    expect(called).toEqual([{ at: 1 }]);
    expect(await ask('tools/call', { name: 's__bare', arguments: {} })).toBeUndefined();
  } finally {
    await gateway.close();
  }
});
