/** S27: what the gateway keeps for one caller never reaches another, unless it is the same for everybody. */
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Admission } from '../../src/core/admission.js';
import { Catalog } from '../../src/core/catalog/catalog.js';
import { Pages } from '../../src/core/catalog/pages.js';
import { ALL_SERVERS, complete } from '../../src/core/gateway.js';
import { Seal } from '../../src/core/seal.js';
import type { Upstream } from '../../src/core/upstream.js';
import { RawObject } from '../../src/protocol/jsonrpc/raw.js';
import { SILENT } from '../../src/telemetry/log.js';
import { modern } from '../newcomer/peers/wire.js';
import { callerNamed } from '../support/callers.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

describe('S27: a cached list', () => {
  const TOOLS = ['open', 'of_ada', 'of_bob', 'hidden'];
  let reads = 0;
  const server: Upstream = {
    name: 's',
    describe: async () => ({ capabilities: { tools: {} } }),
    request: async () => {
      reads++;
      const tools = TOOLS.map((name) => ({ name, inputSchema: { type: 'object' } }));
      return complete(RawObject.from({ tools, ttlMs: 3_600_000, cacheScope: 'public' }));
    },
    watch: async () => ({ honoured: {}, close: () => {} }),
    keepWatching: async () => {},
    listNews: () => 'pushed',
    rootsChanged: () => {},
    release: () => {},
    health: () => ({ status: 'up', speaks: [] }),
    close: async () => {},
  };
  const admission: Admission = {
    sees: ({ principal }, { kind, name }) =>
      kind !== 'tool' || name === 'open' || name === `of_${principal.key.replace('https://other#', '')}`,
    admit: () => {},
  };
  const key = randomBytes(32);
  const seal = new Seal({ active: { id: 'k', key }, find: () => key });
  const catalog = new Catalog({
    naming: { separator: '__', prefix: 'always' },
    patience: 10_000,
    bridge: { roots: true, sampling: true, logging: true },
    admission,
    log: SILENT,
  });
  catalog.put(server);
  const [ada, bob] = [callerNamed('ada'), callerNamed('bob')];

  const listed = async (caller: typeof ada, size = 100, cursor?: string) => {
    const page = (await new Pages(catalog, seal, size).page(caller, ALL_SERVERS, 'tools/list', cursor)).value();
    return { ...page, names: (page['tools'] as { name: string }[]).map(({ name }) => name) };
  };

  test("of A is never served to B: each caller sees its own part of the server's one list, and the answer is marked private", async () => {
    for (let round = 0; round < 50; round++) {
      const [one, two] = await Promise.all([listed(ada), listed(bob)]);
      expect(one).toMatchObject({ names: ['s__open', 's__of_ada'], cacheScope: 'private' });
      expect(two).toMatchObject({ names: ['s__open', 's__of_bob'], cacheScope: 'private' });
    }
    // The list was cached: the server was asked once.
    expect(reads).toBe(1);
  });

  test('continues with the cursor of its own caller only', async () => {
    const first = await listed(ada, 1);
    const cursor = String(first['nextCursor' as keyof typeof first]);
    expect((await listed(ada, 1, cursor)).names).toEqual(['s__of_ada']);
    await expect(listed(bob, 1, cursor)).rejects.toMatchObject({ reason: 'invalid_cursor' });
  });
});

describe('S27: a gateway with two callers', () => {
  const TOKENS = { ada: randomBytes(16).toString('hex'), bob: randomBytes(16).toString('hex') };
  const heard: { method: string; headers: string }[] = [];
  let count = 0;
  const upstream = createServer(async (req, res) => {
    const { id, method } = JSON.parse(Buffer.concat(await req.toArray()).toString() || '{}') as {
      id?: number;
      method: string;
    };
    heard.push({ method, headers: JSON.stringify(req.rawHeaders) });
    if (id === undefined) return void res.writeHead(202).end();
    // A careless server: it marks everything as public, also results that it makes for one request.
    const fresh = { resultType: 'complete', ttlMs: 3_600_000, cacheScope: 'public' };
    const results: Record<string, object> = {
      'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { tools: {}, resources: {} } },
      'tools/list': { tools: [{ name: 'mine', inputSchema: { type: 'object' } }] },
      'resources/list': { resources: [{ uri: 'own://me', name: 'me' }] },
      'resources/read': { contents: [{ uri: 'own://me', text: `made for request ${++count}` }] },
      'tools/call': { content: [{ type: 'text', text: `made for request ${++count}` }] },
    };
    const result = results[method];
    const answer = result
      ? { result: { ...fresh, ...result } }
      : { error: { code: -32601, message: 'Method not found' } };
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
  });
  let gateway: RunningGateway;

  beforeAll(async () => {
    await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
    gateway = await startGateway({
      servers: { s: { url: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/mcp`, revision: 'modern' } },
      auth: { tokens: Object.entries(TOKENS).map(([name, token]) => ({ name, token })) },
    });
  });
  afterAll(async () => {
    await gateway?.close();
    upstream.closeAllConnections();
    upstream.close();
  });

  const as = (name: keyof typeof TOKENS) => ({ headers: { authorization: `Bearer ${TOKENS[name]}` } });

  test.each([
    ['resources/read', { uri: 'own://me' }],
    ['tools/call', { name: 's__mine', arguments: {} }],
  ])('the result of %s is never cached, even if its server marks it as public', async (method, params) => {
    const texts: string[] = [];
    for (const name of ['ada', 'bob', 'ada', 'bob'] as const)
      texts.push(JSON.stringify((await modern(`${gateway.url}/mcp`, method, params, as(name))).result));
    expect(new Set(texts).size).toBe(4);
  });

  test('a list is read as the gateway, not as the caller that asked first', async () => {
    for (const name of ['ada', 'bob'] as const) await modern(`${gateway.url}/mcp`, 'tools/list', {}, as(name));
    const lists = heard.filter(({ method }) => method.endsWith('/list'));
    expect(lists.length).toBeGreaterThan(0);
    for (const { headers } of lists) expect(headers).not.toMatch(/authorization|ada|bob/i);
  });
});
