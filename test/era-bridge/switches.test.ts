/**
 * `bridge: { roots, sampling, logging }`: a feature that is switched off is not declared, not asked for and not passed
 * on (BR-30).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ModernFixture } from '../fixtures/era-bridge/modern.mjs';
import { ALL_QUESTIONS, accept, answerOf, LegacyClient, ModernClient, textOf } from './support/clients.js';
import { startWorld, type World } from './support/world.js';

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const PARTS = ['roots', 'sampling', 'logging'] as const;

describe.each(PARTS)('%s: false', (off) => {
  let world: World;
  let modern: ModernFixture;

  beforeAll(async () => {
    modern = await new ModernFixture().start();
    world = await startWorld({
      http: { legacy: {}, older: { transport: 'sse' } },
      stdio: { pipe: {} },
      servers: { modern: { url: modern.url } },
      config: { bridge: { [off]: false } },
    });
  });
  afterAll(async () => {
    await world?.close();
    await modern?.close();
  });

  const expected =
    off === 'logging'
      ? ['elicitation', 'roots', 'sampling']
      : Object.keys(ALL_QUESTIONS)
          .filter((name) => name !== off)
          .sort();

  test('servers get only the other capabilities', async () => {
    for (const server of ['legacy', 'older', 'pipe', 'modern']) {
      const client = new ModernClient(world.at(server), ALL_QUESTIONS);
      expect(textOf(await client.call('echo', { text: 'x' }))).toBe('x');
      const legacy = await LegacyClient.open(world.at(server), '2025-11-25', {
        ...ALL_QUESTIONS,
        roots: { listChanged: true },
      });
      expect(textOf(await legacy.call('echo', { text: 'x' }))).toBe('x');
      await legacy.end();
    }
    const declared = [
      ...world.entries().filter(({ kind }) => kind === 'initialize'),
      ...modern.entries.filter(({ tool }) => tool === 'echo'),
    ].map(({ capabilities }) => Object.keys(capabilities ?? {}).sort());
    const interactive = declared.filter(({ length }) => length > 0);
    expect(interactive.length).toBeGreaterThanOrEqual(6);
    expect(interactive).toEqual(interactive.map(() => expected));
  });

  if (off !== 'logging') {
    test('a question of a server that ignores this is refused, and the caller gets the reason', async () => {
      const tool = off === 'roots' ? 'roots' : 'sample';
      for (const server of ['legacy', 'older', 'pipe', 'modern']) {
        const legacy = await LegacyClient.open(world.at(server), '2025-11-25', ALL_QUESTIONS);
        const ended = await legacy.call(tool, { key: 'off' });
        expect(ended.result).toMatchObject({ isError: true });
        expect(textOf(ended)).toContain(off);
        expect(legacy.heard.filter(({ id }) => id !== undefined)).toEqual([]);
        await legacy.end();
        const { result, error } = await new ModernClient(world.at(server), ALL_QUESTIONS).call(tool, { key: 'off' });
        expect(result?.resultType).not.toBe('input_required');
        expect(error ?? result).toBeDefined();
      }
    });
  } else {
    test('logging is not declared, servers are not asked to log, and their log messages are dropped', async () => {
      for (const url of [world.mcp, world.at('legacy'), world.at('modern')]) {
        const { capabilities } = (await new ModernClient(url).request('server/discover')).result;
        expect(capabilities.logging).toBeUndefined();
        const legacy = await LegacyClient.open(url, '2025-11-25');
        expect(legacy.initialized.result.capabilities.logging).toBeUndefined();
        await legacy.end();
      }
      for (const server of ['legacy', 'pipe', 'older']) {
        const legacy = await LegacyClient.open(world.at(server), '2025-11-25', ALL_QUESTIONS);
        legacy.answer = () => accept({ answer: 'yes' });
        await legacy.request('logging/setLevel', { level: 'debug' });
        expect(textOf(await legacy.call('chatter', { key: 'quiet' }))).toBe('quiet: done');
        expect(legacy.heard.filter(({ method }) => method === 'notifications/message')).toEqual([]);
        await legacy.end();
        const exchange = new ModernClient(world.at(server)).startCall(
          'chatter',
          { key: 'quiet' },
          { meta: { [LOG_LEVEL]: 'debug' } },
        );
        await answerOf(exchange);
        expect(exchange.messages.filter(({ method }) => method === 'notifications/message')).toEqual([]);
      }
      expect(world.entries().filter(({ method }) => method === 'logging/setLevel')).toEqual([]);
      await new ModernClient(world.at('modern')).call('echo', { text: 'x' }, { meta: { [LOG_LEVEL]: 'debug' } });
      const meta = modern.entries.at(-1)?.params['_meta'] as Record<string, unknown>;
      expect(meta[LOG_LEVEL]).toBeUndefined();
    });
  }
});
