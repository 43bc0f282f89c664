import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Stand, status, steps, stream } from '../../../test/support/a2a-endpoint.js';
import { sleep } from '../../core/timing.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';

const modern = { message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] } };
const json = ({ text }: { text: string }): JsonObject => JSON.parse(text) as JsonObject;

describe('authentication', () => {
  let stand: Stand;
  beforeEach(async () => {
    stand = await Stand.open({ tokens: [{ name: 'ann', token: 'secret-of-ann', admin: false }] });
  });
  afterEach(() => stand.close());

  it('S-61: 401 with WWW-Authenticate in the form of the binding', async () => {
    const rpc = await stand.rpc('SendMessage', modern);
    expect(rpc.status).toBe(401);
    expect(rpc.headers['www-authenticate']).toMatch(/^Bearer/);
    expect(rpc.reply).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: expect.any(Number) } });
    const rest = await stand.send('/a2a/echo/message:send', { body: JSON.stringify(modern) });
    expect(rest.status).toBe(401);
    expect(rest.headers['www-authenticate']).toMatch(/^Bearer/);
    expect(json(rest)).toMatchObject({ error: { code: 401, status: 'UNAUTHENTICATED' } });
    const older = await stand.send('/a2a/echo/v1/tasks/t1');
    expect(older.status).toBe(401);
    expect(json(older)).toMatchObject({ code: expect.any(Number), message: expect.any(String) });
    expect((await stand.rpc('message/stream', {})).status).toBe(401);
    expect(stand.calls).toHaveLength(0);
  });

  it('S-61: 401 does not reveal which agents exist', async () => {
    const shapeOf = async (path: string) => {
      const { status: http, text } = await stand.send(path, { body: '{}' });
      return [http, text];
    };
    for (const beneath of ['', '/message:send', '/v1/message:send', '/tasks/t1:cancel'])
      expect(await shapeOf(`/a2a/nobody${beneath}`)).toEqual(await shapeOf(`/a2a/echo${beneath}`));
  });

  it('identifies its callers', async () => {
    const headers = { authorization: 'Bearer secret-of-ann' };
    await stand.rpc('SendMessage', modern, { headers });
    expect(stand.callers[0]).toMatchObject({ principal: { key: 'ann' }, capabilities: {}, session: undefined });
    stand.answer = () => {
      throw new ProtocolError('forbidden', 'Not you');
    };
    expect((await stand.rpc('SendMessage', modern, { headers })).status).toBe(403);
    expect((await stand.send('/a2a/echo/tasks/t1', { headers })).status).toBe(403);
  });
});

describe('unknown agents', () => {
  let stand: Stand;
  beforeEach(async () => {
    stand = await Stand.open({ agents: ['echo', 'Mixed'] });
  });
  afterEach(() => stand.close());

  it('settled 10: are 404 in JSON-RPC and REST', async () => {
    const rpc = await stand.rpc('SendMessage', modern, { path: '/a2a/nobody' });
    expect(rpc.status).toBe(404);
    expect(rpc.reply).toMatchObject({ jsonrpc: '2.0', error: { code: expect.any(Number) } });
    const rest = await stand.send('/a2a/nobody/tasks/t1');
    expect(rest.status).toBe(404);
    expect(json(rest)).toMatchObject({ error: { code: 404, details: [{ reason: 'AGENT_NOT_FOUND' }] } });
    expect((await stand.send('/a2a/nobody/v1/tasks')).status).toBe(404);
    expect((await stand.send('/a2a/echo/nothing/here')).status).toBe(404);
    expect((await stand.send('/a2a/agents')).status).toBe(404);
  });

  it('the agent is passed on by its registered name, the routing agent without a name', async () => {
    await stand.rpc('SendMessage', modern, { path: '/a2a/Mixed' });
    expect(stand.last.agent).toBe('Mixed');
    await stand.rpc('SendMessage', modern, { path: '/a2a' });
    expect(stand.last.agent).toBeUndefined();
  });

  it('counts the open requests', async () => {
    stand.answer = () => stream(steps(status('TASK_STATE_WORKING'), 60, status('TASK_STATE_COMPLETED')));
    const under = stand.rpc('SendStreamingMessage', modern);
    while (stand.calls.length === 0) await sleep(5);
    expect(stand.endpoint.busy).toBe(1);
    await under;
    while (stand.endpoint.busy > 0) await sleep(5);
  });
});
