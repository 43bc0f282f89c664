import { createServer } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { closeHttp } from '../../../test/fixtures/a2a/agent.js';
import { CALLER, card, exchange, json, Stage, saying, TASK } from '../../../test/support/remote-agents.js';

const stage = new Stage();
afterEach(() => stage.close());

describe('an agent that cannot be reached', () => {
  it('fails at once with a clear error, and is found when it starts', async () => {
    const gone = new Stage();
    const { url } = await gone.server((_, response) => response.end());
    await gone.close();
    const agent = stage.agent(url);
    const failure = { reason: 'upstream_unavailable', detail: { outcome: 'not_executed' } };
    await expect(agent.facts()).rejects.toMatchObject(failure);
    await expect(agent.send(CALLER, saying('a'), exchange())).rejects.toMatchObject(failure);
    expect(agent.health().status).toBe('down');
    expect(agent.known()).toBeUndefined();
    let told = 0;
    agent.onChanged(() => told++);
    const server = createServer((_, response) => json(response, card([{ url }])));
    await new Promise<void>((resolve) => server.listen(Number(new URL(url).port), '127.0.0.1', resolve));
    stage.later(() => closeHttp(server));
    await expect.poll(() => told, { timeout: 10_000 }).toBe(1);
    expect(agent.known()?.card.name).toBe('it');
    expect(agent.health().status).toBe('up');
  });

  it('is reported within 15 s if it never answers', { timeout: 20_000 }, async () => {
    const server = await stage.server(() => {});
    const began = Date.now();
    await expect(stage.agent(server.url).send(CALLER, saying('a'), exchange())).rejects.toMatchObject({
      reason: 'upstream_unavailable',
      detail: { outcome: 'not_executed' },
    });
    expect(Date.now() - began).toBeLessThan(15_000);
  });

  it('can be called without a card if its version and binding are configured', async () => {
    const server = await stage.server(({ method }, response) => {
      if (method === 'GET') response.writeHead(404).end();
      else json(response, { jsonrpc: '2.0', id: 1, result: { task: TASK } });
    });
    const agent = stage.agent(`${server.url}/rpc`, { version: '1.0', binding: 'jsonrpc' });
    const { value } = await agent.send(CALLER, saying('a'), exchange());
    expect(value.task?.id).toBe('task-1');
    expect(server.asked.at(-1)!.path).toBe('/rpc');
  });
});
