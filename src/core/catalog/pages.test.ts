import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { callerNamed } from '../../../test/support/callers.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import { SILENT } from '../../telemetry/log.js';
import { ALL_SERVERS, complete, failed, type Outcome } from '../gateway.js';
import { Seal } from '../seal.js';
import type { Upstream, UpstreamCall } from '../upstream.js';
import { NO_CAPABILITIES } from './capability-set.js';
import { Catalog } from './catalog.js';
import type { NamingOptions } from './names.js';
import { Resolver } from './owner-resolver.js';
import { MISSING, Pages } from './pages.js';

interface Fake {
  tools: string[];
  ttlMs?: number;
  scope?: string;
  fail?: boolean;
  hang?: boolean;
  /** Whether the server announces changes. */
  announces?: boolean;
  /** The number of times its list was read. */
  lists?: number;
  /** Announces a change of its tools; set once the gateway watches it. */
  announce?: () => void;
}

/** A fake server whose tools have only names. */
function upstream(name: string, fake: Fake): Upstream {
  const answer = async (call: UpstreamCall): Promise<Outcome> => {
    if (fake.hang) return new Promise(() => {});
    if (fake.fail) return failed(new ProtocolError('upstream_unavailable', `Server "${name}" cannot be reached`));
    if (call.method !== 'tools/list') return complete(RawObject.from({}));
    fake.lists = (fake.lists ?? 0) + 1;
    const tools = fake.tools.map((tool) => ({ name: tool, inputSchema: { type: 'object' } }));
    return complete(RawObject.from({ tools, ttlMs: fake.ttlMs ?? 0, cacheScope: fake.scope ?? 'public' }));
  };
  return {
    name,
    describe: async () => {
      if (fake.hang) return new Promise(() => {});
      if (fake.fail) throw new ProtocolError('upstream_unavailable', `Server "${name}" cannot be reached`);
      return { capabilities: { tools: { listChanged: fake.announces === true } } };
    },
    request: (_, call) => answer(call),
    watch: async () => ({ honoured: {}, close: () => {} }),
    keepWatching: async (_, deliver) => {
      fake.announce = () => deliver({ kind: 'toolsListChanged' });
    },
    listNews: () => (fake.announces ? 'pushed' : 'polled'),
    rootsChanged: () => {},
    release: () => {},
    health: () => ({ status: fake.fail ? 'down' : 'up', speaks: [] }),
    close: async () => {},
  };
}

const ada = callerNamed('ada');
const bob = callerNamed('bob');
const key = randomBytes(32);
const seal = new Seal({ active: { id: 'k', key }, find: () => key });

const PREFIXED: NamingOptions = { separator: '__', prefix: 'always' };

function testbed(fakes: Record<string, Fake>, pageSize = 1_000, naming = PREFIXED, patience = 30_000) {
  const bridge = { roots: true, sampling: true, logging: true };
  const catalog = new Catalog({ naming, patience, bridge, log: SILENT });
  for (const [name, fake] of Object.entries(fakes)) catalog.put(upstream(name, fake));
  const pages = new Pages(catalog, seal, pageSize);
  const page = async (cursor?: string, caller = ada): Promise<JsonObject> =>
    (await pages.page(caller, ALL_SERVERS, 'tools/list', cursor)).value();
  const all = async (): Promise<string[]> => {
    const names: string[] = [];
    let cursor: string | undefined;
    do {
      const result = await page(cursor);
      names.push(...(result['tools'] as { name: string }[]).map((tool) => tool.name));
      cursor = result['nextCursor'] as string | undefined;
    } while (cursor !== undefined);
    return names;
  };
  return { catalog, page, all };
}

describe('lists of many servers', () => {
  it('show a tool without prefix again when the other tool of its name is gone', async () => {
    const { catalog, all } = testbed({ a: { tools: ['x'] }, b: { tools: ['x'] } }, 1_000, {
      ...PREFIXED,
      prefix: 'conflict',
    });
    expect(await all()).toEqual(['a__x', 'b__x']);
    catalog.remove('b');
    expect(await all()).toEqual(['x']);
  });

  it.each([
    [1, 3],
    [2, 2],
    [3, 1],
    [4, 1],
  ])('S0-33: with page size %i take %i pages and contain each item once, in order', async (size, pages) => {
    const { page, all } = testbed({ a: { tools: ['x'] }, b: { tools: [] }, c: { tools: ['y', 'z'] } }, size);
    expect(await all()).toEqual(['a__x', 'c__y', 'c__z']);
    let count = 0;
    for (let cursor: string | undefined, first = true; first || cursor !== undefined; first = false) {
      cursor = (await page(cursor))['nextCursor'] as string | undefined;
      count++;
    }
    expect(count).toBe(pages);
  });

  it('continue where a page ended, even if the list has changed', async () => {
    const fake: Fake = { tools: ['a', 'b', 'c', 'd'], announces: true };
    const { page } = testbed({ s: fake }, 2);
    const first = await page();
    fake.tools = ['new', 'a', 'b', 'c', 'd', 'e'];
    fake.announce?.();
    const second = await page(first['nextCursor'] as string);
    expect((second['tools'] as { name: string }[]).map((tool) => tool.name)).toEqual(['s__c', 's__d']);
    fake.tools = ['e'];
    fake.announce?.();
    await expect(page(second['nextCursor'] as string)).resolves.toMatchObject({ tools: expect.any(Array) });
  });

  it('PAG-02 S0-33: refuse a forged cursor and a cursor of another caller', async () => {
    const { page } = testbed({ s: { tools: ['a', 'b'] } }, 1);
    const { nextCursor } = await page();
    await expect(page('garbage')).rejects.toMatchObject({ reason: 'invalid_cursor' });
    await expect(page(nextCursor as string, bob)).rejects.toMatchObject({ reason: 'invalid_cursor' });
    await expect(page(nextCursor as string, ada)).resolves.toMatchObject({ tools: [{ name: 's__b' }] });
  });

  it('name the failing and silent servers whose items are missing', async () => {
    const fakes = { bad: { tools: [], fail: true }, good: { tools: ['x'] }, mute: { tools: [], hang: true } };
    const { page } = testbed(fakes, 10, PREFIXED, 1_000);
    const result = await page();
    expect((result['tools'] as { name: string }[]).map((tool) => tool.name)).toEqual(['good__x']);
    const missing = (result['_meta'] as JsonObject)[MISSING] as { server: string; reason: string }[];
    expect(missing.map(({ server }) => server).sort()).toEqual(['bad', 'mute']);
    expect(result['ttlMs']).toBe(0);
  });

  it('GW-05: have the shortest TTL of their parts, and are private if one part is', async () => {
    const shared = testbed({ a: { tools: ['x'], ttlMs: 5_000 }, b: { tools: ['y'], ttlMs: 60_000 } });
    const result = await shared.page();
    expect(result['ttlMs']).toBeGreaterThan(0);
    expect(result['ttlMs']).toBeLessThanOrEqual(5_000);
    expect(result['cacheScope']).toBe('public');
    const mixed = testbed({ a: { tools: ['x'], ttlMs: 5_000, scope: 'private' }, b: { tools: ['y'] } });
    expect((await mixed.page())['cacheScope']).toBe('private');
  });

  it('cover 50 servers of 200 tools without blocking the event loop for long', async () => {
    const names = Array.from({ length: 200 }, (_, i) => `tool_${i}`);
    const fakes = Object.fromEntries(
      Array.from({ length: 50 }, (_, i) => [`server-${i}`, { tools: names, ttlMs: 60_000 }]),
    );
    const { all } = testbed(fakes);
    expect(await all()).toHaveLength(10_000);
    let longest = 0;
    let last = performance.now();
    const watch = setInterval(() => {
      const now = performance.now();
      longest = Math.max(longest, now - last);
      last = now;
    }, 1);
    const started = performance.now();
    await all();
    const took = performance.now() - started;
    clearInterval(watch);
    expect(longest).toBeLessThanOrEqual(Math.max(took, 5));
  });
});

describe('cached lists', () => {
  const countOf = (fakes: Record<string, Fake>): number =>
    Object.values(fakes).reduce((sum, { lists = 0 }) => sum + lists, 0);
  const twenty = (fake: Omit<Fake, 'tools'>): Record<string, Fake> =>
    Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`s${i}`, { ...fake, tools: ['a', 'b', 'c'] }]));

  it.each<[string, Omit<Fake, 'tools'>]>([
    ['announce changes', { announces: true }],
    ['give a TTL', { ttlMs: 60_000 }],
    ['do neither', {}],
  ])('of 20 servers that %s cost 20 reads, for any number of pages', async (_, fake) => {
    const fakes = twenty(fake);
    const { all } = testbed(fakes, 7);
    expect(await all()).toHaveLength(60);
    expect(countOf(fakes)).toBe(20);
  });

  it('a second list costs no read, a change costs one read, and 100 callers share one read', async () => {
    const fakes = twenty({ announces: true });
    const { all } = testbed(fakes);
    const names = await Promise.all(Array.from({ length: 100 }, () => all()));
    expect(names.every((each) => each.length === 60)).toBe(true);
    expect(countOf(fakes)).toBe(20);
    await all();
    expect(countOf(fakes)).toBe(20);
    fakes['s3']!.tools = ['new'];
    fakes['s3']!.announce?.();
    expect((await Promise.all(Array.from({ length: 100 }, () => all())))[99]).toHaveLength(58);
    expect(countOf(fakes)).toBe(21);
  });
});

describe('names', () => {
  it('have a prefix only on conflict, or never', async () => {
    const fakes = { a: { tools: ['x', 'y'] }, b: { tools: ['y', 'z'] } };
    expect(await testbed(fakes, 10, { separator: '__', prefix: 'conflict' }).all()).toEqual(['x', 'a__y', 'b__y', 'z']);
    expect(await testbed(fakes, 10, { separator: '__', prefix: 'never' }).all()).toEqual(['x', 'y', 'z']);
  });

  it('resolve with a prefix, with a dot, and bare if only one server has them', async () => {
    const { catalog } = testbed({ a: { tools: ['x', 'y'] }, b: { tools: ['y'] } });
    const resolve = (name: string) =>
      new Resolver(catalog).resolve(ada, ALL_SERVERS, name, 'tools/list', NO_CAPABILITIES);
    expect(await resolve('a__x')).toEqual({ server: 'a', name: 'x' });
    expect(await resolve('a.x')).toEqual({ server: 'a', name: 'x' });
    expect(await resolve('x')).toEqual({ server: 'a', name: 'x' });
    await expect(resolve('y')).rejects.toMatchObject({
      reason: 'ambiguous_name',
      detail: { data: { candidates: ['a__y', 'b__y'] } },
    });
    await expect(resolve('nothing')).rejects.toMatchObject({ reason: 'tool_not_found' });
  });

  it('resolve in their shortened form', async () => {
    const long = `read_${'very_'.repeat(20)}long`;
    const { catalog, all } = testbed({ files: { tools: [long] } });
    const [shown] = await all();
    expect(shown!.length).toBeLessThanOrEqual(64);
    expect(await new Resolver(catalog).resolve(ada, ALL_SERVERS, shown!, 'tools/list', NO_CAPABILITIES)).toEqual({
      server: 'files',
      name: long,
    });
  });
});
