import { describe, expect, test } from 'vitest';
import { callerNamed, cardOf, cardsOf, StaticAgent, showing } from '../../../../test/support/static-agent.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { AgentCatalog } from './agent-catalog.js';

const ann = callerNamed('ann');
const weather = new StaticAgent(
  'weather',
  cardOf('Weather', {
    documentationUrl: 'https://weather.example.com/docs',
    capabilities: { extensions: [{ uri: 'https://example.com/ext/units' }] },
    skills: [{ id: 'forecast', name: 'Forecast', description: 'Tells of rain and sun', tags: ['Weather'] }],
  }),
);
const sums = new StaticAgent('sums', cardOf('Sums', { description: 'Adds numbers' }));
const away = new StaticAgent('away', undefined);
away.status = 'down';

const catalog = new AgentCatalog(cardsOf([weather, sums, away]));
const ids = async (query: object) =>
  ((await catalog.list(ann, query))['agents'] as JsonObject[]).map((a) => a['agent_id']);

describe('the catalog of agents (G-3)', () => {
  test('lists each agent with its URL at the gateway', async () => {
    const { agents } = await catalog.list(ann);
    expect((agents as JsonObject[])[0]).toMatchObject({
      agent_id: 'weather',
      agent_name: 'Weather',
      description: 'The Weather agent',
      url: 'https://gw.example.com/parley/a2a/weather',
      status: 'up',
      skills: [{ id: 'forecast' }],
      capabilities: { streaming: true },
    });
    expect(JSON.stringify(agents)).not.toContain('10.1.2.3');
  });

  test('lists an agent without a known card by its name', async () => {
    expect(await ids({})).toEqual(['weather', 'sums', 'away']);
  });

  test('filters by capability, skill, tag and words', async () => {
    expect(await ids({ capability: 'streaming' })).toEqual(['weather', 'sums']);
    expect(await ids({ capability: 'https://example.com/ext/units' })).toEqual(['weather']);
    expect(await ids({ capability: 'weather' })).toEqual(['weather']);
    expect(await ids({ skill: 'Talk' })).toEqual(['sums']);
    expect(await ids({ tag: 'weather' })).toEqual(['weather']);
    expect(await ids({ q: 'adding a number' })).toEqual(['sums']);
    expect(await ids({ q: 'rain', tag: 'chat' })).toEqual([]);
  });

  test('G-15: shows each caller only visible agents', async () => {
    const filtered = new AgentCatalog(cardsOf([weather, sums], { admission: showing({ ann: ['sums'] }) }));
    expect(JSON.stringify(await filtered.list(ann))).not.toContain('weather');
    expect(JSON.stringify(await filtered.linkset(ann))).not.toContain('weather');
    expect(await filtered.list(callerNamed(''))).toEqual({ agents: [] });
  });

  test('API catalog: every agent is an item, described by its card (RFC 9727)', async () => {
    const { linkset } = (await catalog.linkset(ann)) as { linkset: JsonObject[] };
    const base = 'https://gw.example.com/parley';
    expect(linkset[0]).toEqual({
      anchor: `${base}/.well-known/api-catalog`,
      item: ['a2a', 'a2a/weather', 'a2a/sums', 'a2a/away'].map((path) => ({ href: `${base}/${path}` })),
    });
    expect(linkset[2]).toEqual({
      anchor: `${base}/a2a/weather`,
      'service-desc': [{ href: `${base}/a2a/weather/.well-known/agent-card.json`, type: 'application/json' }],
      'service-doc': [{ href: 'https://weather.example.com/docs' }],
    });
  });
});
