import { afterEach, describe, expect, it } from 'vitest';
import { CALLER, card, exchange, json, Stage, saying, TASK } from '../../../test/support/remote-agents.js';
import { Egress } from '../egress.js';
import { type Choice, candidates, guesses } from './interface-choice.js';

const stage = new Stage();
afterEach(() => stage.close());

const choice = (more: Partial<Choice> = {}): Choice => ({
  url: 'http://10.0.0.5:4000/agent',
  version: 'auto',
  binding: 'auto',
  egress: new Egress({ allowPrivate: false, ports: [] }),
  bindings: ['JSONRPC', 'HTTP+JSON'],
  ...more,
});
const shown = (found: ReturnType<typeof candidates>): string[] =>
  found.map(({ url, binding, version, trusted }) => `${binding} ${version} ${url}${trusted ? '' : ' (checked)'}`);

const RPC = { jsonrpc: '2.0', id: 1, result: { task: TASK } };

describe('C-2 C-3 the called interface', () => {
  it('is the first interface of the card with a supported binding', () => {
    const both = card([
      { url: '10.0.0.5:5000', protocolBinding: 'GRPC' },
      { url: 'http://10.0.0.5:4000/rest', protocolBinding: 'HTTP+JSON' },
      { url: 'http://10.0.0.5:4000/rpc' },
    ]);
    expect(shown(candidates(both, choice()))).toEqual([
      'HTTP+JSON 1.0 http://10.0.0.5:4000/rest',
      'JSONRPC 1.0 http://10.0.0.5:4000/rpc',
    ]);
    expect(shown(candidates(both, choice({ binding: 'jsonrpc' })))).toEqual(['JSONRPC 1.0 http://10.0.0.5:4000/rpc']);
  });

  it('is one of the first hundred: the cost of a card that lists thousands is bounded', () => {
    const listed = Array.from({ length: 5_000 }, (_, i) => ({ url: `http://10.0.0.5:4000/${i}` }));
    const old = listed.map(({ url }) => ({ url, transport: 'JSONRPC' }));
    for (const many of [card(listed), card([], { url: listed[0]!.url, additionalInterfaces: old })]) {
      const found = candidates(many, choice());
      expect(found).toHaveLength(100);
      expect(found[0]!.url).toBe('http://10.0.0.5:4000/0');
      expect(guesses(found, choice()).length).toBeLessThan(1_000);
    }
  });

  it('is the configured interface, with or without a card', () => {
    const one = card([{ url: 'http://10.0.0.5:4000/rpc' }]);
    expect(shown(candidates(one, choice({ version: '0.3' })))).toEqual(['JSONRPC 0.3 http://10.0.0.5:4000/rpc']);
    expect(shown(candidates(one, choice({ binding: 'rest' })))).toEqual(['HTTP+JSON 1.0 http://10.0.0.5:4000/agent']);
  });

  it.each([
    ['http://[::]:8080/x', 'http://10.0.0.5:4000/x'],
    ['http://0.0.0.0:8080/x?y=1', 'http://10.0.0.5:4000/x?y=1'],
    ['http://localhost:4000/x', 'http://10.0.0.5:4000/x'],
    ['http://192.168.1.1/admin', 'http://10.0.0.5:4000/admin'],
    ['http://169.254.169.254/latest', 'http://10.0.0.5:4000/latest'],
    ['file:///etc/passwd', 'http://10.0.0.5:4000/etc/passwd'],
  ])('C-16 replaces %s by the configured origin', (url, meant) => {
    expect(shown(candidates(card([{ url }]), choice()))).toEqual([`JSONRPC 1.0 ${meant}`]);
  });

  it('S30: is never an interface at a host that is not registered', () => {
    const refused: string[] = [];
    const foreign = card([
      { url: 'https://evil.example/x' },
      { url: 'evil.example:443', protocolBinding: 'GRPC' },
      { url: 'https://evil.example/rest', protocolBinding: 'HTTP+JSON' },
    ]);
    const bindings = ['JSONRPC', 'HTTP+JSON', 'GRPC'] as const;
    const found = candidates(foreign, choice({ bindings, refused: (url) => refused.push(url) }));
    expect(shown(found)).toEqual(['JSONRPC 1.0 http://10.0.0.5:4000/x', 'HTTP+JSON 1.0 http://10.0.0.5:4000/rest']);
    expect(refused).toEqual(['https://evil.example/x', 'evil.example:443', 'https://evil.example/rest']);
    const egress = new Egress({ allowPrivate: false, ports: [], allow: ['evil.example'] });
    expect(shown(candidates(foreign, choice({ bindings, egress })))[0]).toBe(
      'JSONRPC 1.0 https://evil.example/x (checked)',
    );
  });

  it('is a public interface only after a check, and never an unencrypted interface if https is configured', () => {
    const hosts = ['api.example'];
    expect(shown(candidates(card([{ url: 'https://api.example/x' }]), choice({ hosts })))).toEqual([
      'JSONRPC 1.0 https://api.example/x (checked)',
      'JSONRPC 1.0 http://10.0.0.5:4000/x',
    ]);
    expect(
      shown(candidates(card([{ url: 'http://api.example/x' }]), choice({ hosts, url: 'https://agent.example' }))),
    ).toEqual(['JSONRPC 1.0 https://agent.example/x']);
  });

  it('C-2 gets the tenant of the interface and no other tenant', async () => {
    const server = await stage.server(({ path }, response, { url }) =>
      path.startsWith('/.well-known')
        ? json(response, card([{ url: `${url}/rpc`, tenant: 'acme' }]))
        : json(response, RPC),
    );
    const agent = stage.agent(server.url);
    const request = saying('a');
    await agent.send(CALLER, { value: { ...request.value, tenant: 'mine' } }, exchange());
    const text = JSON.stringify({ tenant: 'mine', ...request.value, more: 1.0 }).replace('"more":1', '"more":1.0');
    await agent.send(CALLER, { value: { ...request.value, tenant: 'mine' }, text }, exchange());
    await agent.getTask(CALLER, { id: 'x' }, exchange()).catch(() => {});
    expect(server.calls.map(({ body }) => (body['params'] as { tenant?: string }).tenant)).toEqual([
      'acme',
      'acme',
      'acme',
    ]);
    expect(server.calls[1]!.text).toContain('"more":1.0');
  });

  it('C-2 sends no tenant to an interface that has none', async () => {
    const server = await stage.server(({ path }, response, { url }) =>
      path.startsWith('/.well-known') ? json(response, card([{ url: `${url}/rpc` }])) : json(response, RPC),
    );
    const request = saying('a');
    await stage
      .agent(server.url)
      .send(CALLER, { value: { ...request.value, tenant: 'mine' }, text: '{"tenant":"mine","a":1}' }, exchange());
    expect(server.calls[0]!.text).toContain('"params":{"a":1}');
  });
});

describe('C-4 the gateway tries the next interface', () => {
  it('if an interface cannot be reached, and remembers the interface that worked', async () => {
    const server = await stage.server(({ path }, response, { url }) =>
      path.startsWith('/.well-known')
        ? json(response, card([{ url: `${url}/gone` }, { url: `${url}/rpc` }]))
        : path === '/gone'
          ? response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>Not found</h1>')
          : json(response, RPC),
    );
    const agent = stage.agent(server.url);
    await agent.send(CALLER, saying('a'), exchange());
    await agent.send(CALLER, saying('b'), exchange());
    expect(server.calls.map(({ path }) => path)).toEqual(['/gone', '/rpc', '/rpc']);
  });

  it('if the host name of an interface resolves to a private address', async () => {
    const server = await stage.server(({ path }, response) =>
      path.startsWith('/.well-known')
        ? json(response, card([{ url: 'https://public.example/rpc' }]))
        : json(response, RPC),
    );
    const agent = stage.agent(
      server.url,
      { hosts: ['public.example'] },
      { lookup: (_, __, done) => done(null, [{ address: '127.0.0.1', family: 4 }]) },
    );
    await agent.send(CALLER, saying('a'), exchange());
    expect(server.calls.map(({ path }) => path)).toEqual(['/rpc']);
  });

  it('if the agent does not support the version of its card', async () => {
    const server = await stage.server(({ path, body }, response, { url }) => {
      if (path.startsWith('/.well-known')) return json(response, card([{ url: `${url}/rpc` }]));
      const { id, method } = body;
      if (method !== 'message/send')
        return json(response, { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
      const task = { kind: 'task', id: 'task-1', contextId: 'c', status: { state: 'completed' } };
      json(response, { jsonrpc: '2.0', id, result: task });
    });
    const agent = stage.agent(server.url);
    const { value } = await agent.send(CALLER, saying('a'), exchange());
    expect(value.task?.status.state).toBe('TASK_STATE_COMPLETED');
    await agent.send(CALLER, saying('b'), exchange());
    expect(server.calls.map(({ body }) => body['method'])).toEqual(['SendMessage', 'message/send', 'message/send']);
  });

  it("if the agent refuses the version: first the card's other interfaces", async () => {
    const server = await stage.server(({ path, body }, response, { url }) => {
      if (path.startsWith('/.well-known'))
        return json(response, card([{ url: `${url}/rpc` }, { url: `${url}/old`, protocolVersion: '0.3' }]));
      const { id } = body;
      if (path === '/rpc') return json(response, { jsonrpc: '2.0', id, error: { code: -32009, message: 'no' } });
      json(response, { jsonrpc: '2.0', id, result: { kind: 'message', messageId: 'm', role: 'agent', parts: [] } });
    });
    const { value } = await stage.agent(server.url).send(CALLER, saying('a'), exchange());
    expect(value.message?.messageId).toBe('m');
  });

  it('never if the agent may have executed the call', async () => {
    const server = await stage.server(({ path }, response, { url }) => {
      if (path.startsWith('/.well-known')) return json(response, card([{ url: `${url}/a` }, { url: `${url}/b` }]));
      response.destroy();
    });
    await expect(stage.agent(server.url).send(CALLER, saying('a'), exchange())).rejects.toMatchObject({
      reason: 'upstream_unavailable',
      detail: { outcome: 'unknown' },
    });
    expect(server.calls).toHaveLength(1);
  });

  it('but repeats only a reading call at an interface whose connection broke', async () => {
    const server = await stage.server(({ path, body }, response, { url, calls }) => {
      if (path.startsWith('/.well-known')) return json(response, card([{ url: `${url}/a` }]));
      if (calls.length % 2 === 1) response.destroy();
      else json(response, { jsonrpc: '2.0', id: body['id'], result: TASK });
    });
    const agent = stage.agent(server.url);
    const { value } = await agent.getTask(CALLER, { id: 'task-1' }, exchange());
    expect(value.id).toBe('task-1');
    await expect(agent.cancelTask(CALLER, { id: 'task-1' }, exchange())).rejects.toMatchObject({
      detail: { outcome: 'unknown' },
    });
    expect(server.calls.map(({ body }) => body['method'])).toEqual(['GetTask', 'GetTask', 'CancelTask']);
  });
});
