import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { CALLER, card, exchange, json, Stage, saying, TASK } from '../../../test/support/remote-agents.js';
import { baseOf, cardPlaces } from './card-discovery.js';

const stage = new Stage();
afterEach(() => stage.close());

describe('C-6 the search for a card', () => {
  it('takes a base URL or the URL of a card', () => {
    expect(baseOf('https://a.example/x/.well-known/agent-card.json')).toBe('https://a.example/x');
    expect(baseOf('https://a.example/.well-known/agent.json')).toBe('https://a.example');
    expect(baseOf('https://a.example/cards/mine.json')).toBe('https://a.example');
    expect(baseOf('https://a.example/x/')).toBe('https://a.example/x');
  });

  it('tries the given URL first, then paths below it, then paths at its origin', () => {
    expect(cardPlaces('https://a.example/x')).toEqual([
      'https://a.example/x',
      'https://a.example/x/.well-known/agent-card.json',
      'https://a.example/x/.well-known/agent.json',
      'https://a.example/.well-known/agent-card.json',
      'https://a.example/.well-known/agent.json',
    ]);
    expect(cardPlaces('https://a.example')).toEqual([
      'https://a.example/.well-known/agent-card.json',
      'https://a.example/.well-known/agent.json',
      'https://a.example/',
    ]);
    expect(cardPlaces('https://a.example/c/mine.json')[0]).toBe('https://a.example/c/mine.json');
  });

  it.each([
    ['', '/.well-known/agent-card.json'],
    ['', '/.well-known/agent.json'],
    ['/team/one', '/team/one/.well-known/agent-card.json'],
    ['/team/one', '/team/one/.well-known/agent.json'],
    ['/team/one', '/.well-known/agent-card.json'],
    ['/cards/mine.json', '/cards/mine.json'],
    ['/cards/mine', '/cards/mine'],
  ])('finds the card of %s at %s, and remembers the URL', async (given, place) => {
    const server = await stage.server(({ path }, response, { url }) => {
      if (path === place) json(response, card([{ url: `${url}/rpc` }]), 200, { 'cache-control': 'max-age=0' });
      else json(response, { hello: 'world' }, path.endsWith('agent.json') ? 200 : 404);
    });
    const agent = stage.agent(`${server.url}${given}`);
    const { card: found } = await agent.facts();
    expect(found.name).toBe('it');
    expect(agent.known()?.original.signature).toBe('unsigned');
    expect(agent.health().status).toBe('up');
  });

  it('C-1 sends the newest version and the configured credentials', async () => {
    const server = await stage.server((_, response, { url }) => json(response, card([{ url }])));
    await stage.agent(server.url, { headers: { 'X-API-Key': 'k' } }).facts();
    expect(server.asked[0]!.headers['a2a-version']).toBe('1.0');
    expect(server.asked[0]!.headers['x-api-key']).toBe('k');
  });

  it('follows no redirect', async () => {
    const other = await stage.server((_, response, { url }) => json(response, card([{ url }])));
    const server = await stage.server((_, response) => response.writeHead(302, { location: other.url }).end());
    await expect(stage.agent(server.url).facts()).rejects.toMatchObject({ reason: 'upstream_unavailable' });
    expect(other.asked).toEqual([]);
  });

  it('stops at a card that is too large', async () => {
    const server = await stage.server((_, response, { url }) =>
      json(response, card([{ url }], { description: 'x'.repeat(2 * 1024 * 1024) })),
    );
    await expect(stage.agent(server.url).facts()).rejects.toMatchObject({ reason: 'upstream_unavailable' });
  });
});

describe('C-5 a known card', () => {
  it('is fetched again with its ETag, and a change is detected', async () => {
    let version = 'one';
    const server = await stage.server(({ path, headers }, response, { url }) => {
      if (path === '/rpc') return json(response, { jsonrpc: '2.0', id: 1, result: { task: TASK } });
      if (path === '/rpc2') return json(response, { jsonrpc: '2.0', id: 1, result: { task: TASK } });
      if (path === '/old') return response.writeHead(404).end();
      const etag = `"${version}"`;
      if (headers['if-none-match'] === etag) return response.writeHead(304, { etag }).end();
      json(response, card([{ url: version === 'one' ? `${url}/old` : `${url}/rpc2` }]), 200, { etag });
    });
    const agent = stage.agent(server.url);
    let changes = 0;
    agent.onChanged(() => changes++);
    await agent.facts();
    expect(changes).toBe(1);
    await sleep(2_100);
    // The endpoint no longer exists. The card is fetched again and has not changed, so the call fails.
    await expect(agent.send(CALLER, saying('a'), exchange())).rejects.toMatchObject({ reason: 'upstream_unavailable' });
    expect(server.cards.at(-1)!.headers['if-none-match']).toBe('"one"');
    expect(changes).toBe(1);
    version = 'two';
    await sleep(2_100);
    const { value } = await agent.send(CALLER, saying('b'), exchange());
    expect(value.task?.id).toBe('task-1');
    expect(changes).toBe(2);
  });

  it('is fetched once for concurrent requests', async () => {
    const server = await stage.server(async (_, response, { url }) => {
      await sleep(30);
      json(response, card([{ url }]));
    });
    const agent = stage.agent(server.url);
    await Promise.all(Array.from({ length: 20 }, () => agent.facts()));
    expect(server.asked).toHaveLength(1);
  });
});

describe('C-16 faulty cards', () => {
  it.each([
    [
      "an SDK's own classes",
      { securitySchemes: { key: { scheme: { $case: 'httpAuthSecurityScheme', value: { scheme: 'Bearer' } } } } },
    ],
    ['no tags', { skills: [{ id: 'a', name: 'A', description: 'Does a.', tags: null }] }],
    ['no description', { description: undefined, skills: [{ id: 'a', name: 'A' }] }],
    ['no capabilities', { capabilities: undefined }],
  ])('are read: %s', async (_, more) => {
    const server = await stage.server((__, response, { url }) => json(response, { ...card([{ url }]), ...more }));
    const { card: found } = await stage.agent(server.url).facts();
    expect(found.name).toBe('it');
    expect(found.skills[0]?.id).toBe('a');
  });

  it.each([
    ['a missing version means 0.2', { capabilities: {} }, 'message/send'],
    [
      'authentication without schemes means 0.1',
      { capabilities: {}, authentication: { schemes: ['Bearer'] } },
      'tasks/send',
    ],
    [
      '0.3 in ProtoJSON',
      { protocolVersion: '0.3.0', securitySchemes: { k: { apiKeySecurityScheme: { location: 'header', name: 'x' } } } },
      'message/send',
    ],
    [
      'a patch of 1.0',
      { supportedInterfaces: [{ url: '/', protocolBinding: 'JSONRPC', protocolVersion: '1.0.1' }] },
      'SendMessage',
    ],
    [
      'unknown bindings come last',
      {
        supportedInterfaces: [
          { url: 'x:1', protocolBinding: 'https://b.example/quic', protocolVersion: '1.0' },
          { url: '/', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
        ],
      },
      'SendMessage',
    ],
  ])('C-3 %s', async (_, more, method) => {
    const server = await stage.server(({ path, body }, response, { url }) => {
      if (path.startsWith('/.well-known')) json(response, { name: 'it', url, version: '1', skills: [], ...more });
      else json(response, { jsonrpc: '2.0', id: body['id'], error: { code: -32002, message: 'no' } });
    });
    await expect(stage.agent(server.url).send(CALLER, saying('a', { taskId: 't' }), exchange())).rejects.toMatchObject({
      reason: 'task_not_cancelable',
    });
    expect(server.calls[0]!.body['method']).toBe(method);
  });
});
