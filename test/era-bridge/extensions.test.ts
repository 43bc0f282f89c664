/**
 * Extensions: data of extensions passes at every endpoint. Methods of extensions pass only at the endpoint of a single
 * server.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ModernFixture } from '../fixtures/era-bridge/modern.mjs';
import { LegacyClient, ModernClient } from './support/clients.js';
import { startWorld, type World } from './support/world.js';

const SAY = 'example.test/say';
const UI = 'io.modelcontextprotocol/ui';
const APP = { resourceUri: 'ui://fixture/view.html', visibility: ['model', 'app'] };
let world: World;
let modern: ModernFixture;

beforeAll(async () => {
  modern = await new ModernFixture({ extensions: { [SAY]: { loud: true }, [UI]: {} } }).start();
  world = await startWorld({
    http: { legacy: { capabilities: { extensions: { [SAY]: { loud: false } } } }, without: {} },
    servers: { modern: { url: modern.url } },
  });
});
afterAll(async () => {
  await world?.close();
  await modern?.close();
});

const extensionsAt = async (url: string): Promise<Record<string, unknown>> =>
  (await new ModernClient(url).request('server/discover')).result.capabilities.extensions;

describe('S1-08: an extension the gateway does not know', () => {
  test('is advertised only at the endpoint of its server', async () => {
    expect((await extensionsAt(world.at('modern')))[SAY]).toEqual({ loud: true });
    expect((await extensionsAt(world.at('legacy')))[SAY]).toEqual({ loud: false });
    expect((await extensionsAt(world.at('without')))[SAY]).toBeUndefined();
    expect((await extensionsAt(world.mcp))[SAY]).toBeUndefined();
  });

  test('its methods pass there, with parameters and result unchanged', async () => {
    for (const server of ['modern', 'legacy']) {
      const words = { text: ['a', { b: null }] };
      const { result } = await new ModernClient(world.at(server)).request('x-fixture/say', { words });
      expect(result.said).toEqual(words);
      expect(result.resultType).toBe('complete');
    }
  });

  test('its methods are unknown at other endpoints', async () => {
    for (const url of [world.mcp, world.at('without')]) {
      const exchange = new ModernClient(url).start('x-fixture/say', { words: 1 });
      const [answer] = await exchange.ended;
      expect(answer?.error?.code).toBe(-32601);
      expect(exchange.status).toBe(404);
    }
  });

  test('S0-53: the declaration of a client reaches the server of the extension only', async () => {
    const capabilities = { extensions: { [SAY]: { mine: 1 } } };
    await new ModernClient(world.at('modern'), capabilities).call('echo', { text: 'alone' });
    expect(modern.entries.at(-1)?.capabilities['extensions']).toEqual({ [SAY]: { mine: 1 } });
    await new ModernClient(world.mcp, capabilities).call('modern__echo', { text: 'among others' });
    expect(modern.entries.at(-1)?.capabilities['extensions']).toBeUndefined();
  });

  test('a legacy client sees only the extensions that it can use', async () => {
    for (const server of ['modern', 'legacy']) {
      const client = await LegacyClient.open(world.at(server), '2025-11-25', { extensions: { [SAY]: {} } });
      const advertised = client.initialized.result.capabilities.extensions?.[SAY] !== undefined;
      const { result, error } = await client.request('x-fixture/say', { words: 'hello' });
      if (advertised) expect(result).toMatchObject({ said: 'hello' });
      else expect(error?.code).toBe(-32601);
      await client.end();
    }
    const all = await LegacyClient.open(world.mcp, '2025-11-25');
    expect(all.initialized.result.capabilities.extensions?.[SAY]).toBeUndefined();
    expect((await all.request('x-fixture/say', { words: 'hello' })).error?.code).toBe(-32601);
    await all.end();
  });
});

describe('MCP Apps', () => {
  test('is advertised at the endpoint of the server and at the endpoint for all, and a client’s declaration reaches the server', async () => {
    expect((await extensionsAt(world.mcp))[UI]).toEqual({});
    expect((await extensionsAt(world.at('modern')))[UI]).toEqual({});
    const capabilities = { extensions: { [UI]: { mimeTypes: ['text/html;profile=mcp-app'] } } };
    await new ModernClient(world.mcp, capabilities).call('modern__echo', { text: 'x' });
    expect(modern.entries.at(-1)?.capabilities).toEqual(capabilities);
  });

  test('the page of a tool and all other members of its _meta pass through lists', async () => {
    for (const [url, name] of [
      [world.mcp, 'modern__app'],
      [world.at('modern'), 'app'],
    ] as const) {
      const listed = (await new ModernClient(url).request('tools/list')).result.tools as {
        name: string;
        _meta?: object;
      }[];
      expect(listed.find((tool) => tool.name === name)?._meta).toEqual({ ui: APP, 'example.test/own': [1] });
      const legacy = await LegacyClient.open(url, '2025-11-25');
      const old = (await legacy.request('tools/list')).result.tools as { name: string; _meta?: object }[];
      expect(old.find((tool) => tool.name === name)?._meta).toEqual({ ui: APP, 'example.test/own': [1] });
      await legacy.end();
    }
  });

  test('ui:// resources keep their URI, their type and their policy', async () => {
    const contents = [
      {
        uri: APP.resourceUri,
        mimeType: 'text/html;profile=mcp-app',
        text: '<html></html>',
        _meta: { ui: { csp: { connectDomains: ['https://example.test'] } } },
      },
    ];
    for (const url of [world.mcp, world.at('modern')]) {
      expect((await new ModernClient(url).request('resources/read', { uri: APP.resourceUri })).result.contents).toEqual(
        contents,
      );
      const legacy = await LegacyClient.open(url, '2025-11-25');
      expect((await legacy.request('resources/read', { uri: APP.resourceUri })).result.contents).toEqual(contents);
      await legacy.end();
    }
  });

  test('_meta of a result passes unchanged', async () => {
    const { result } = await new ModernClient(world.mcp).call('modern__app', {});
    expect(result._meta.ui).toEqual({ prefersBorder: true });
    const legacy = await LegacyClient.open(world.mcp, '2025-11-25');
    expect((await legacy.call('modern__app', {})).result._meta).toEqual({ ui: { prefersBorder: true } });
    await legacy.end();
  });
});
