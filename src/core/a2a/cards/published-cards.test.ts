import { describe, expect, test } from 'vitest';
import { callerNamed, cardOf, cardsOf, StaticAgent, showing } from '../../../../test/support/static-agent.js';
import { ROUTE } from '../../../protocol/a2a/model.js';
import { ORIGIN } from './published-cards.js';

const nobody = callerNamed('');
const ann = callerNamed('ann');

const planner = new StaticAgent(
  'planner',
  cardOf('Planner', {
    provider: { organization: 'Acme', url: 'https://acme.example.com' },
    documentationUrl: 'https://acme.example.com/docs',
    iconUrl: 'javascript:alert(1)',
    capabilities: {
      streaming: false,
      pushNotifications: false,
      extendedAgentCard: true,
      extensions: [
        { uri: 'https://example.com/ext/a', required: true, params: { x: 1 } },
        { uri: 'https://example.com/ext/methods' },
        { uri: ROUTE, description: 'of a gateway behind it' },
      ],
    },
    securitySchemes: { key: { apiKeySecurityScheme: { location: 'header', name: 'X-Internal' } } },
    securityRequirements: [{ schemes: { key: {} } }],
    signatures: [{ protected: 'e30', signature: 'AA' }],
    skills: [
      {
        id: 'plan',
        name: 'Plan\u202e trips',
        description: 'x'.repeat(10_000),
        tags: ['travel'],
        securityRequirements: [{ schemes: { key: {} } }],
      },
      { id: 'bare', name: '', description: '', tags: [] },
    ],
  }),
  'verified',
);
const plain = new StaticAgent('plain', cardOf('Plain', { skills: [] }));
const away = new StaticAgent('away', undefined);

describe('the card of an agent', () => {
  test('S-2, S-3, G-10: interfaces are the gateway’s own, from its public URL, each binding at each version', async () => {
    const { supportedInterfaces } = await cardsOf([planner]).agent(nobody, 'planner');
    const url = 'https://gw.example.com/parley/a2a/planner';
    expect(supportedInterfaces).toEqual([
      { url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
      { url, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
      { url, protocolBinding: 'HTTP+JSON', protocolVersion: '0.3' },
    ]);
  });

  test('G-10: the card contains no address of the agent', async () => {
    expect(JSON.stringify(await cardsOf([planner]).agent(nobody, 'planner'))).not.toMatch(/10\.1\.2\.3|X-Internal/);
  });

  test('S-3, G-1: gRPC is declared while it is served; a single agent needs a version with tenants', async () => {
    const cards = cardsOf([planner], { grpc: () => 'gw.example.com:4601' });
    const of = async (agent?: string) =>
      (agent === undefined
        ? await cards.routingAgent(nobody)
        : await cards.agent(nobody, agent)
      ).supportedInterfaces.filter(({ protocolBinding }) => protocolBinding === 'GRPC');
    expect(await of('planner')).toEqual([
      { url: 'gw.example.com:4601', protocolBinding: 'GRPC', protocolVersion: '1.0', tenant: 'planner' },
    ]);
    expect(await of()).toEqual([
      { url: 'gw.example.com:4601', protocolBinding: 'GRPC', protocolVersion: '1.0' },
      { url: 'gw.example.com:4601', protocolBinding: 'GRPC', protocolVersion: '0.3' },
    ]);
  });

  test('G-12 S1-44: capabilities are the gateway’s; extensions are those that pass the gateway and its own', async () => {
    const cards = cardsOf([planner]);
    const { capabilities } = await cards.agent(nobody, 'planner');
    expect(capabilities).toMatchObject({ streaming: true, pushNotifications: true });
    expect(capabilities).not.toHaveProperty('extendedAgentCard');
    expect(capabilities.extensions?.map(({ uri }) => uri)).toEqual([
      'https://example.com/ext/a',
      'https://example.com/ext/methods',
      ORIGIN,
    ]);
    expect(capabilities.extensions?.[0]).toEqual({
      uri: 'https://example.com/ext/a',
      required: true,
      params: { x: 1 },
    });
    const off = await cardsOf([planner], { push: false }).agent(nobody, 'planner');
    expect(off.capabilities.pushNotifications).toBe(false);
  });

  test('G-11, S1-46: the security schemes are the gateway’s; those of the agent are information only', async () => {
    const open = await cardsOf([planner]).agent(nobody, 'planner');
    expect(open).not.toHaveProperty('securitySchemes');
    expect(open).not.toHaveProperty('securityRequirements');
    expect(open.skills[0]).not.toHaveProperty('securityRequirements');
    const origin = open.capabilities.extensions?.find(({ uri }) => uri === ORIGIN);
    expect(origin?.params).toEqual({
      card: 'https://gw.example.com/parley/a2a/planner/.well-known/original-card.json',
      signature: 'verified',
      skillSecurity: { plan: ['key'] },
    });
    const known = await cardsOf([planner], { identified: true }).agent(nobody, 'planner');
    expect(known.securitySchemes).toMatchObject({ bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } });
    expect(known.securityRequirements).toEqual([{ schemes: { bearer: {} } }]);
    expect(known.capabilities.extendedAgentCard).toBe(true);
  });

  test('G-13: the card has no signatures of the agent, and the original card is available', async () => {
    const cards = cardsOf([planner]);
    expect(await cards.agent(nobody, 'planner')).not.toHaveProperty('signatures');
    const original = await cards.original(nobody, 'planner');
    expect(original.signature).toBe('verified');
    expect(JSON.parse(original.card)).toHaveProperty('signatures');
  });

  test('S1-37, S1-38: texts of the agent are kept, without invisible characters and within a length', async () => {
    const card = await cardsOf([planner]).agent(nobody, 'planner');
    expect(card).toMatchObject({
      name: 'Planner',
      version: '2.1.0',
      provider: { organization: 'Acme', url: 'https://acme.example.com' },
      documentationUrl: 'https://acme.example.com/docs',
    });
    expect(card).not.toHaveProperty('iconUrl');
    expect(card.skills[0]).toMatchObject({ id: 'plan', name: 'Plan trips', tags: ['travel'] });
    expect(card.skills[0]?.description.length).toBeLessThanOrEqual(4_000);
  });

  test('the configured description replaces the description of the agent', async () => {
    const cards = cardsOf([plain], { describe: (agent) => (agent === 'plain' ? 'For plain things' : undefined) });
    expect((await cards.agent(nobody, 'plain')).description).toBe('For plain things');
  });

  test('S-2, S-6: no required member is empty, even if the agent omits it', async () => {
    const [, bare] = (await cardsOf([planner]).agent(nobody, 'planner')).skills;
    expect(bare).toEqual({ id: 'bare', name: 'bare', description: 'bare', tags: ['bare'] });
    const card = await cardsOf([plain]).agent(nobody, 'plain');
    expect(card.skills).toEqual([{ id: 'plain', name: 'Plain', description: 'The Plain agent', tags: ['plain'] }]);
  });

  test('an unreachable agent is described by its known card, and is unavailable without one', async () => {
    const gone = new StaticAgent('gone', cardOf('Gone'));
    gone.status = 'down';
    expect((await cardsOf([gone]).agent(nobody, 'gone')).name).toBe('Gone');
    await expect(cardsOf([away]).agent(nobody, 'away')).rejects.toMatchObject({ reason: 'upstream_unavailable' });
  });

  test('G-15, S-62: a hidden agent has the same error as an absent one', async () => {
    const cards = cardsOf([planner], { admission: showing({ ann: ['planner'] }) });
    expect((await cards.agent(ann, 'planner')).name).toBe('Planner');
    const hidden = await cards.agent(callerNamed('bob'), 'planner').catch((error: Error) => error);
    const missing = await cards.agent(callerNamed('bob'), 'planned').catch((error: Error) => error);
    expect(hidden).toMatchObject({ reason: 'agent_not_found' });
    expect((hidden as Error).message.replace('planner', '')).toBe((missing as Error).message.replace('planned', ''));
  });
});

describe('the card of the routing agent', () => {
  test('G-2: has all skills, named and tagged by agent, each with the defaults of its agent', async () => {
    const card = await cardsOf([planner, plain]).routingAgent(nobody);
    expect(card.skills.map(({ id }) => id)).toEqual(['planner.plan', 'planner.bare', 'plain.plain']);
    expect(card.skills[0]).toMatchObject({ tags: ['travel', 'planner'], inputModes: ['text/plain'] });
    expect(card.supportedInterfaces[0]?.url).toBe('https://gw.example.com/parley/a2a');
    // An extension that one agent requires is optional at the routing agent.
    expect(card.capabilities.extensions?.some(({ required }) => required)).toBe(false);
  });

  test('an unreachable agent is omitted, and the card names it as missing', async () => {
    const card = await cardsOf([plain, away]).routingAgent(nobody);
    expect(card.skills.map(({ id }) => id)).toEqual(['plain.plain']);
    const route = card.capabilities.extensions?.find(({ uri }) => uri === ROUTE);
    expect(route?.params).toEqual({ missing: ['away'] });
  });

  test('an agent that never answers does not block the card', async () => {
    const mute = new StaticAgent('mute', undefined);
    mute.facts = () => new Promise(() => {});
    expect((await cardsOf([plain, mute]).routingAgent(nobody)).skills).toHaveLength(1);
  });

  test('G-15: depends on the caller, and is a valid card even without visible agents', async () => {
    const cards = cardsOf([planner, plain], { admission: showing({ '': [], ann: ['plain'] }) });
    expect((await cards.routingAgent(ann)).skills.map(({ id }) => id)).toEqual(['plain.plain']);
    expect((await cards.routingAgent(nobody)).skills.map(({ id }) => id)).toEqual(['none']);
  });

  test('S1-38: name, description and provider are configured', async () => {
    const provider = { organization: 'Acme', url: 'https://acme.example.com' };
    const routingAgent = { name: 'Desk', description: 'Agents', version: '3', provider };
    expect(await cardsOf([plain], { routingAgent }).routingAgent(nobody)).toMatchObject({ ...routingAgent });
  });
});

describe('S-60, S1-38: the extended card', () => {
  test('a gateway without authentication has no extended card, and does not declare one', async () => {
    await expect(cardsOf([plain]).extended(ann, undefined)).rejects.toMatchObject({ reason: 'unsupported_operation' });
  });
  test('is for authenticated callers', async () => {
    const cards = cardsOf([plain], { identified: true });
    await expect(cards.extended(nobody, undefined)).rejects.toMatchObject({ reason: 'unauthorized' });
  });
  test('G-15: shows every agent that this caller may use, including agents that the public card hides', async () => {
    const admission = showing({ '': ['plain'], ann: ['plain', 'planner'] });
    const cards = cardsOf([planner, plain], { identified: true, admission });
    expect((await cards.routingAgent(nobody)).skills).toHaveLength(1);
    expect((await cards.extended(ann, undefined)).skills).toHaveLength(3);
    expect((await cards.extended(ann, 'planner')).name).toBe('Planner');
  });
});
