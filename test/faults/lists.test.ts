/** Case 30: a server with far too many tools, and one with schema patterns that would run forever. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ModernClient, textOf } from '../era-bridge/support/clients.js';
import { eventually } from '../era-bridge/support/wire.js';
import { startWorld, type World } from '../input/support/world.js';

/** The number of tools that the gateway keeps per server. */
const KEPT = 50_000;
const EVIL = '^(([a-z])+.)+[A-Z]([a-z])+$';

interface Rpc {
  readonly id?: string | number;
  readonly method?: string;
  // biome-ignore lint/suspicious/noExplicitAny: whatever was sent
  readonly params?: any;
}

interface Shelf {
  /** The number of tools in all and per page. */
  readonly count: number;
  readonly page: number;
  readonly schema?: object;
}

/** A modern server with a list of any length. */
async function startListServer({
  count,
  page,
  schema = { type: 'object' },
}: Shelf): Promise<{ url: string; server: Server }> {
  const reply = (res: ServerResponse, id: Rpc['id'], result: object): void => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } }));
  };
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString()) as Rpc;
    if (method === 'server/discover')
      return reply(res, id, {
        ttlMs: 60_000,
        cacheScope: 'public',
        supportedVersions: ['2026-07-28'],
        capabilities: { tools: {} },
      });
    if (method === 'tools/call') return reply(res, id, { content: [{ type: 'text', text: params.name }] });
    if (method !== 'tools/list') return void res.writeHead(404).end();
    const from = Number(params.cursor ?? 0);
    const tools = Array.from({ length: Math.min(page, count - from) }, (_, i) => ({
      name: `tool-${from + i}`,
      description: 'One of very many tools',
      inputSchema: schema,
    }));
    reply(res, id, {
      ttlMs: 600_000,
      cacheScope: 'public',
      tools,
      ...(from + page < count && { nextCursor: String(from + page) }),
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, server };
}

describe('case 30: lists', () => {
  const shelves: Server[] = [];
  let world: World;
  let before: number;

  beforeAll(async () => {
    const evil = {
      type: 'object',
      properties: { text: { type: 'string', pattern: EVIL, format: 'regex' } },
      patternProperties: { [EVIL]: { type: 'string', pattern: EVIL } },
      additionalProperties: { pattern: EVIL },
    };
    const [paged, whole, more, pattern] = await Promise.all([
      startListServer({ count: KEPT, page: 5_000 }),
      // One page that is just within the size limit of a message.
      startListServer({ count: 30_000, page: 30_000 }),
      startListServer({ count: KEPT + 7_000, page: 10_000 }),
      startListServer({ count: 3, page: 3, schema: evil }),
    ]);
    shelves.push(paged.server, whole.server, more.server, pattern.server);
    world = await startWorld({ log: { level: 'warn' }, limits: { pageSize: 1_000 } });
    before = world.memory();
    await world.close();
    world = await startWorld({
      log: { level: 'warn' },
      limits: { pageSize: 1_000 },
      servers: {
        paged: { url: paged.url, revision: 'modern' },
        whole: { url: whole.url, revision: 'modern' },
        more: { url: more.url, revision: 'modern' },
        evil: { url: pattern.url, revision: 'modern' },
      },
    });
  });
  afterEach(() => world.wellBehaved());
  afterAll(async () => {
    await world?.close();
    for (const server of shelves) {
      server.closeAllConnections();
      server.close();
    }
  });

  const client = (): ModernClient => new ModernClient(world.mcp, {});

  async function readAll(at: string): Promise<{ names: string[]; pages: number; largest: number }> {
    const reader = new ModernClient(at, {});
    const names: string[] = [];
    let [pages, largest] = [0, 0];
    let cursor: string | undefined;
    do {
      const { result, error } = await reader.request('tools/list', cursor === undefined ? {} : { cursor });
      if (error) throw new Error(error.message);
      names.push(...result.tools.map(({ name }: { name: string }) => name));
      largest = Math.max(largest, result.tools.length);
      cursor = result.nextCursor;
      pages++;
    } while (cursor !== undefined && pages < 1_000);
    return { names, pages, largest };
  }

  test('50,000 tools are listed in pages, each once, and other calls are served at once', async () => {
    await eventually(
      () => client().call('paged__tool-49999', {}).then(textOf),
      (text) => text === 'tool-49999',
      30_000,
    );
    let [calls, worst] = [0, 0];
    let going = true;
    const bystander = (async () => {
      while (going) {
        const began = performance.now();
        expect(textOf(await client().call('echo__echo', { text: 'beside' }))).toBe('beside');
        worst = Math.max(worst, performance.now() - began);
        calls++;
      }
    })();
    const start = performance.now();
    const { names, pages, largest } = await readAll(`${world.url}/mcp/paged`);
    const took = performance.now() - start;
    going = false;
    await bystander;
    const [all, longest] = [Math.round(took), Math.round(worst)];
    console.log(
      `${names.length} tools in ${pages} pages, ${all} ms; ${calls} calls beside them, at most ${longest} ms`,
    );
    expect(names).toHaveLength(KEPT);
    expect(new Set(names).size).toBe(KEPT);
    expect(largest).toBeLessThanOrEqual(1_000);
    // No call waits for the whole list: a call takes about as long as a page.
    expect(worst).toBeLessThan(took);
    expect(calls).toBeGreaterThan(pages / 8);
    expect(textOf(await client().call('whole__tool-29999', {}))).toBe('tool-29999');
  });

  test('longer lists are truncated with a log line, and memory is bounded', async () => {
    const { names } = await readAll(`${world.url}/mcp/more`);
    expect(names).toHaveLength(KEPT);
    expect(world.gateway.log()).toMatch(/"more\\" exceeds 50000 entries/);
    const all = await readAll(world.mcp);
    expect(all.names.length).toBeGreaterThan(2 * KEPT);
    const grown = world.memory() - before;
    console.log(`${all.names.length} tools of 5 servers: ${Math.round(grown)} MiB more than none`);
    // About 130,000 tools are kept, at 1.5 KB each with requests under way.
    expect(grown).toBeLessThan(400);
    expect(textOf(await client().call('echo__echo', { text: 'still' }))).toBe('still');
  });

  test('a pattern with exponential cost is passed on and never run', async () => {
    const { result } = await new ModernClient(`${world.url}/mcp/evil`, {}).request('tools/list');
    expect(result.tools[0].inputSchema.properties.text.pattern).toBe(EVIL);
    const victim = 'a'.repeat(50_000);
    const began = performance.now();
    for (const text of [victim, `${victim}!`, 'a'.repeat(40)])
      expect(textOf(await client().call('evil__tool-0', { text, [text.slice(0, 100)]: text }))).toBe('tool-0');
    const took = performance.now() - began;
    console.log(`three calls with arguments made for the pattern took ${Math.round(took)} ms`);
    expect(took).toBeLessThan(3_000);
  });
});
