import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventsIn, result, Stand, task } from '../../../test/support/a2a-endpoint.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';

const modern = { message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] } };
const proto = { message: { messageId: 'm1', role: 'ROLE_USER', content: [{ text: 'hello' }] } };
const schema = {
  message: { kind: 'message', messageId: 'm1', role: 'user', parts: [{ kind: 'text', text: 'hello' }] },
};

let stand: Stand;
beforeEach(async () => {
  stand = await Stand.open();
});
afterEach(() => stand.close());

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  stand.send(path, { headers, body: JSON.stringify(body) });
const json = ({ text }: { text: string }): JsonObject => JSON.parse(text) as JsonObject;

describe('S-75: every operation of 1.0 in HTTP+JSON', () => {
  it('sends a message and passes the text on', async () => {
    const text = '{ "message": {"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}],"more":1.50} }';
    const reply = await stand.send('/a2a/echo/message:send', { body: text });
    expect(reply.status).toBe(200);
    expect(json(reply)).toMatchObject({ task: { id: 't1', status: { state: 'TASK_STATE_COMPLETED' } } });
    expect(stand.last).toMatchObject({ operation: 'SendMessage', dialect: '1.0', agent: 'echo', request: { text } });
  });

  it('takes the tenant from the path', async () => {
    await post('/a2a/echo/acme/message:send', modern);
    expect(stand.last.request).toEqual({ value: { ...modern, tenant: 'acme' } });
    await stand.send('/a2a/echo/acme/tasks/t1');
    expect(stand.last.request.value).toEqual({ tenant: 'acme', id: 't1' });
  });

  it('S-74: gets a task with either spelling of the query and an encoded id', async () => {
    expect(json(await stand.send('/a2a/echo/tasks/t1?historyLength=2'))).toMatchObject({ id: 't1' });
    expect(stand.last.request.value).toEqual({ id: 't1', historyLength: 2 });
    await stand.send('/a2a/echo/tasks/t1?history_length=0');
    expect(stand.last.request.value).toEqual({ id: 't1', historyLength: 0 });
    expect((await stand.send('/a2a/echo/tasks/a%2Fb%20c')).status).toBe(404);
    expect(stand.last.request.value).toEqual({ id: 'a/b c' });
    expect((await stand.send('/a2a/echo/tasks/t1?historyLength=many')).status).toBe(400);
  });

  it('lists tasks by filters and pages', async () => {
    const query =
      'contextId=c1&status=TASK_STATE_WORKING&pageSize=5&page_token=p&historyLength=1&includeArtifacts=true' +
      '&statusTimestampAfter=2026-01-01T00:00:00Z&api_key=secret';
    const reply = await stand.send(`/a2a/echo/tasks?${query}`);
    expect(json(reply)).toMatchObject({ tasks: [{ id: 't1' }], nextPageToken: '' });
    expect(stand.last.request.value).toEqual({
      contextId: 'c1',
      status: 'TASK_STATE_WORKING',
      pageSize: 5,
      pageToken: 'p',
      historyLength: 1,
      includeArtifacts: true,
      statusTimestampAfter: '2026-01-01T00:00:00Z',
    });
  });

  it('S-74: cancels, with a body, an empty one, or null', async () => {
    for (const body of [undefined, '', 'null', '{}'])
      expect(
        json(await stand.send('/a2a/echo/tasks/t1:cancel', { method: 'POST', ...(body !== undefined && { body }) })),
      ).toMatchObject({
        status: { state: 'TASK_STATE_CANCELED' },
      });
    await post('/a2a/echo/tasks/t1:cancel', { metadata: { why: 'enough' }, id: 'other' });
    expect(stand.last.request.value).toEqual({ metadata: { why: 'enough' }, id: 't1' });
  });

  it('subscribes by GET and by POST', async () => {
    for (const method of ['GET', 'POST']) {
      const { type, text } = await stand.send('/a2a/echo/tasks/t1:subscribe', { method });
      expect(type).toBe('text/event-stream');
      expect(eventsIn(text).map(({ data }) => Object.keys(data)[0])).toEqual(['task', 'statusUpdate']);
    }
  });

  it('S-44: streams bare events without names', async () => {
    const { type, text, headers } = await post('/a2a/echo/message:stream', modern);
    expect(type).toBe('text/event-stream');
    expect(headers['x-accel-buffering']).toBe('no');
    const events = eventsIn(text);
    expect(events.every(({ name }) => name === undefined)).toBe(true);
    expect(events.map(({ data }) => Object.keys(data)[0])).toEqual([
      'task',
      'statusUpdate',
      'artifactUpdate',
      'statusUpdate',
    ]);
  });

  it('manages push configurations', async () => {
    const base = '/a2a/echo/tasks/t1/pushNotificationConfigs';
    const made = await post(base, { url: 'https://client.example/hook', token: 'x', taskId: 'other' });
    expect(made.status).toBe(200);
    expect(json(made)).toMatchObject({ taskId: 't1', id: 'p1', token: 'x' });
    expect(stand.last.request.value).toMatchObject({ taskId: 't1', url: 'https://client.example/hook' });
    await stand.send(`${base}/p1`);
    expect(stand.last).toMatchObject({
      operation: 'GetTaskPushNotificationConfig',
      request: { value: { taskId: 't1', id: 'p1' } },
    });
    expect(json(await stand.send(`${base}?pageSize=3`))).toMatchObject({ configs: [{ id: 'p1' }] });
    expect(stand.last.request.value).toMatchObject({ taskId: 't1', pageSize: 3 });
    const gone = await stand.send(`${base}/p1`, { method: 'DELETE' });
    expect([gone.status, gone.text]).toEqual([200, '{}']);
    expect(stand.last).toMatchObject({
      operation: 'DeleteTaskPushNotificationConfig',
      request: { value: { taskId: 't1', id: 'p1' } },
    });
  });

  it('serves the extended card', async () => {
    expect(json(await stand.send('/a2a/echo/extendedAgentCard'))).toMatchObject({
      name: 'echo',
      supportedInterfaces: [{}],
    });
  });

  it('serves the routing agent', async () => {
    await post('/a2a/message:send', modern);
    expect(stand.last.agent).toBeUndefined();
    await stand.send('/a2a/tasks/t1');
    expect(stand.last).toMatchObject({ agent: undefined, operation: 'GetTask' });
  });

  it('405 lists the allowed methods', async () => {
    const reply = await stand.send('/a2a/echo/message:send');
    expect([reply.status, reply.headers['allow']]).toEqual([405, 'POST, OPTIONS']);
    const config = await stand.send('/a2a/echo/tasks/t1/pushNotificationConfigs/p1', { method: 'POST', body: '{}' });
    expect([config.status, config.headers['allow']]).toEqual([405, 'GET, HEAD, DELETE, OPTIONS']);
  });
});

describe('G-27: media types', () => {
  const type = async (headers: Record<string, string>) => (await post('/a2a/echo/message:send', modern, headers)).type;

  it('a2a+json if the client names or uses it, otherwise json', async () => {
    expect(await type({})).toBe('application/json');
    expect(await type({ accept: '*/*' })).toBe('application/json');
    expect(await type({ accept: 'application/a2a+json, application/json' })).toBe('application/a2a+json');
    expect(await type({ 'content-type': 'application/a2a+json' })).toBe('application/a2a+json');
    expect(await type({ 'content-type': 'application/a2a+json; charset=utf-8' })).toBe('application/a2a+json');
    const refused = await stand.send('/a2a/echo/tasks/nobody', { headers: { accept: 'application/a2a+json' } });
    expect([refused.status, refused.type]).toEqual([404, 'application/a2a+json']);
  });

  it('bodies of another media type are refused', async () => {
    const plain = await post('/a2a/echo/message:send', modern, { 'content-type': 'text/plain' });
    expect(plain.status).toBe(400);
    expect(plain.text).toContain('CONTENT_TYPE_NOT_SUPPORTED');
    expect(plain.text).toContain(
      'Incompatible content type \\"text/plain\\": send application/json or application/a2a+json',
    );
    expect(json(plain)).toMatchObject({
      error: {
        code: 400,
        status: 'INVALID_ARGUMENT',
        details: [{ reason: 'CONTENT_TYPE_NOT_SUPPORTED', domain: 'a2a-protocol.org' }],
      },
    });
    expect(stand.calls).toHaveLength(0);
  });

  it('of 0.3 are refused with the code of the A2A error', async () => {
    const plain = await post('/a2a/echo/v1/message:send', schema, { 'content-type': 'text/plain' });
    expect(plain.status).toBe(400);
    expect(json(plain)).toMatchObject({
      code: -32005,
      message: 'Incompatible content type "text/plain": send application/json or application/a2a+json',
    });
    expect(stand.calls).toHaveLength(0);
  });
});

describe('S-70: errors in HTTP+JSON', () => {
  it('are google.rpc.Status with ErrorInfo', async () => {
    const reply = await stand.send('/a2a/echo/tasks/nobody');
    expect(reply.status).toBe(404);
    expect(json(reply)).toMatchObject({
      error: {
        code: 404,
        status: 'NOT_FOUND',
        details: [
          {
            '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
            reason: 'TASK_NOT_FOUND',
            domain: 'a2a-protocol.org',
          },
        ],
      },
    });
  });

  it('are {code, message} for 0.3', async () => {
    const reply = await stand.send('/a2a/echo/v1/tasks/nobody');
    expect(reply.status).toBe(404);
    expect(json(reply)).toMatchObject({ code: -32001, message: 'Task not found' });
  });

  it('have the statuses of the profile', async () => {
    const strict = await Stand.open({ profile: '1.0.0' });
    try {
      const answer = (): never => {
        throw new ProtocolError('task_not_cancelable', 'It is over');
      };
      stand.answer = answer;
      strict.answer = answer;
      const cancel = { method: 'POST' };
      expect((await stand.send('/a2a/echo/tasks/t1:cancel', cancel)).status).toBe(400);
      expect((await strict.send('/a2a/echo/tasks/t1:cancel', cancel)).status).toBe(409);
    } finally {
      await strict.close();
    }
  });

  it('S-71: for bodies that are not JSON, not an object, too deep or too large', async () => {
    for (const [body, status] of [
      ['{', 400],
      ['[]', 400],
      ['{"message":{},"message":{}}', 400],
      [`{"message":${'['.repeat(80)}${']'.repeat(80)}}`, 400],
      [Buffer.from([0x7b, 0xff, 0x7d]), 400],
      ['{}', 400],
      ['', 400],
      [`"${'x'.repeat(1_000_000)}"`, 413],
    ] as const)
      expect((await stand.send('/a2a/echo/message:send', { method: 'POST', body })).status).toBe(status);
    expect(stand.calls).toHaveLength(0);
  });

  it('S-12: for unsupported versions', async () => {
    for (const [path, headers] of [
      ['/a2a/echo/tasks/t1', { 'a2a-version': '3.0' }],
      ['/a2a/echo/tasks/t1?A2A-Version=3.0', {}],
    ] as const) {
      const reply = await stand.send(path, { headers });
      expect(reply.status).toBe(400);
      expect(json(reply)).toMatchObject({ error: { details: [{ reason: 'VERSION_NOT_SUPPORTED' }] } });
    }
    expect((await stand.send('/a2a/echo/v1/tasks/t1', { headers: { 'a2a-version': '3.0' } })).status).toBe(400);
  });

  it('S-45: of a stream that fails before its first event have their own status', async () => {
    stand.answer = () => ({
      kind: 'stream',
      // biome-ignore lint/correctness/useYield: the generator fails before its first event
      events: (async function* () {
        throw new ProtocolError('unsupported_operation', 'It is over');
      })(),
    });
    for (const path of ['/a2a/echo/tasks/t1:subscribe', '/a2a/echo/v1/tasks/t1:subscribe']) {
      const reply = await stand.send(path, { method: 'POST' });
      expect([reply.status, reply.type]).toEqual([400, 'application/json']);
    }
  });
});

describe('HTTP+JSON of 0.3', () => {
  it('answers proto-JSON in proto-JSON', async () => {
    const reply = await post('/a2a/echo/v1/message:send', proto);
    expect(stand.last.dialect).toBe('0.3-proto');
    expect(stand.last.request.value).toMatchObject(modern);
    expect(json(reply)).toMatchObject({ task: { id: 't1', status: { state: 'TASK_STATE_COMPLETED' } } });
  });

  it('answers the JSON schema in the JSON schema', async () => {
    const reply = await post('/a2a/echo/v1/message:send', schema);
    expect(stand.last.dialect).toBe('0.3');
    expect(stand.last.request.value).toMatchObject(modern);
    expect(json(reply)).toMatchObject({ kind: 'task', status: { state: 'completed' } });
  });

  it('streams in the form of the request', async () => {
    const first = async (body: unknown) => eventsIn((await post('/a2a/echo/v1/message:stream', body)).text);
    expect((await first(proto)).map(({ data }) => Object.keys(data)[0])).toEqual([
      'task',
      'statusUpdate',
      'artifactUpdate',
      'statusUpdate',
    ]);
    expect((await first(schema)).at(-1)?.data).toMatchObject({ kind: 'status-update', final: true });
  });

  it('accepts push configurations in both forms', async () => {
    const path = '/a2a/echo/v1/tasks/t1/pushNotificationConfigs';
    const config = { id: 'p9', url: 'https://client.example/hook' };
    for (const body of [
      { pushNotificationConfig: config },
      { name: 'tasks/t1/pushNotificationConfigs/p9', pushNotificationConfig: config },
      { parent: 'tasks/t1', configId: 'p9', config: { pushNotificationConfig: config } },
      { taskId: 't1', pushNotificationConfig: config },
    ]) {
      const reply = await post(path, body);
      expect(reply.status).toBe(200);
      expect(stand.last.request.value).toMatchObject({ taskId: 't1', ...config });
      expect(json(reply)).toMatchObject({ pushNotificationConfig: { url: config.url } });
    }
  });

  it('serves tasks, lists, cards and the other operations', async () => {
    expect(json(await stand.send('/a2a/echo/v1/tasks/t1'))).toMatchObject({ id: 't1' });
    expect((await stand.send('/a2a/echo/v1/tasks')).status).toBe(200);
    expect(json(await stand.send('/a2a/echo/v1/card'))).toMatchObject({ name: 'echo', url: expect.any(String) });
    stand.answer = () => result(task('TASK_STATE_CANCELED'));
    const canceled = await stand.send('/a2a/echo/v1/tasks/t1:cancel', { method: 'POST' });
    expect(json(canceled)).toMatchObject({ status: { state: 'TASK_STATE_CANCELLED' } });
  });

  it('S-14: returns extensions in the header of 0.3', async () => {
    stand.answer = () => result({ task: task('TASK_STATE_COMPLETED') }, { extensions: ['urn:a'] });
    expect((await post('/a2a/echo/v1/message:send', proto)).headers['x-a2a-extensions']).toBe('urn:a');
    expect((await post('/a2a/echo/message:send', modern)).headers['a2a-extensions']).toBe('urn:a');
  });
});

describe('the extended card of 0.2', () => {
  it('has its own URL', async () => {
    const reply = await stand.send('/a2a/echo/agent/authenticatedExtendedCard');
    expect(reply.status).toBe(200);
    expect(stand.last).toMatchObject({ operation: 'GetExtendedAgentCard', dialect: '0.2', agent: 'echo' });
    expect(json(reply)).toMatchObject({ name: 'echo', url: expect.any(String) });
  });

  it('is 404 if the agent has none', async () => {
    stand.answer = () => {
      throw new ProtocolError('unsupported_operation', 'No extended card');
    };
    expect((await stand.send('/a2a/echo/agent/authenticatedExtendedCard')).status).toBe(404);
  });
});
