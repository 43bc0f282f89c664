import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventsIn, result, Stand, status, steps, stream, task } from '../../../test/support/a2a-endpoint.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';

const modern = { message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] } };
const older = { message: { kind: 'message', messageId: 'm1', role: 'user', parts: [{ kind: 'text', text: 'hello' }] } };
const oldest = { id: 'mine', message: { role: 'user', parts: [{ type: 'text', text: 'hello' }] } };

let stand: Stand;
beforeEach(async () => {
  stand = await Stand.open();
});
afterEach(() => stand.close());

describe('S1-60: the version of a JSON-RPC request', () => {
  it.each(['1.0', '1.0.1', 'v1.0', ' 1.0 '])('S-10: the header names %j, the patch is ignored', async (version) => {
    const { reply } = await stand.rpc('SendMessage', modern, { version });
    expect(stand.last.dialect).toBe('1.0');
    expect((reply.result as JsonObject)['task']).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
  });

  it('S-10: the query names it as well', async () => {
    await stand.rpc('tasks/get', { id: 't1' }, { path: '/a2a/echo?A2A-Version=0.2' });
    expect(stand.last.dialect).toBe('0.2');
    const { reply } = await stand.rpc('SendMessage', modern, { path: '/a2a/echo?a2a-version=7.0' });
    expect(reply.error?.code).toBe(-32009);
  });

  it('S-11: without a header the method decides: PascalCase is 1.0', async () => {
    await stand.rpc('SendMessage', modern);
    expect(stand.last.dialect).toBe('1.0');
    const { reply } = await stand.rpc('message/send', older);
    expect(stand.last.dialect).toBe('0.3');
    expect(reply.result).toMatchObject({ kind: 'task', status: { state: 'completed' } });
  });

  it('S-11: an empty header is 0.3', async () => {
    await stand.rpc('tasks/get', { id: 't1' }, { version: '' });
    expect(stand.last.dialect).toBe('0.3');
  });

  it('S-12: an unsupported version is refused in the form of the method', async () => {
    const modernly = await stand.rpc('SendMessage', modern, { version: '9.9' });
    expect(modernly.status).toBe(200);
    expect(modernly.reply.error).toMatchObject({
      code: -32009,
      data: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'VERSION_NOT_SUPPORTED' }],
    });
    const olderly = await stand.rpc('message/send', older, { version: '9.9' });
    expect(olderly.reply.error?.code).toBe(-32009);
    expect(Array.isArray(olderly.reply.error?.data)).toBe(false);
    expect((await stand.rpc('NoSuchMethod', {}, { version: '9.9' })).reply.error?.code).toBe(-32009);
    expect(stand.calls).toHaveLength(0);
  });

  it.each([
    ['SendMessage', 'SendMessage', modern, '1.0'],
    ['message/send', 'SendMessage', older, '0.3'],
    ['tasks/send', 'SendMessage', oldest, '0.1'],
    ['GetTask', 'GetTask', { id: 't1' }, '1.0'],
    ['tasks/get', 'GetTask', { id: 't1' }, '0.3'],
    ['ListTasks', 'ListTasks', {}, '1.0'],
    ['tasks/list', 'ListTasks', {}, '0.3'],
    ['tasks/cancel', 'CancelTask', { id: 't1' }, '0.3'],
    ['CancelTask', 'CancelTask', { id: 't1' }, '1.0'],
    [
      'tasks/pushNotificationConfig/set',
      'CreateTaskPushNotificationConfig',
      { taskId: 't1', pushNotificationConfig: { url: 'https://client.example/hook' } },
      '0.3',
    ],
    [
      'tasks/pushNotification/set',
      'CreateTaskPushNotificationConfig',
      { id: 't1', pushNotificationConfig: { url: 'https://client.example/hook' } },
      '0.1',
    ],
    ['tasks/pushNotification/get', 'GetTaskPushNotificationConfig', { id: 't1' }, '0.1'],
    ['tasks/pushNotificationConfig/list', 'ListTaskPushNotificationConfigs', { id: 't1' }, '0.3'],
    [
      'tasks/pushNotificationConfig/delete',
      'DeleteTaskPushNotificationConfig',
      { id: 't1', pushNotificationConfigId: 'p1' },
      '0.3',
    ],
    ['agent/getAuthenticatedExtendedCard', 'GetExtendedAgentCard', {}, '0.3'],
    ['GetExtendedAgentCard', 'GetExtendedAgentCard', {}, '1.0'],
  ])('C-24, S1-52: %s is %s', async (method, operation, params, dialect) => {
    const { reply } = await stand.rpc(method, params);
    expect(reply.error).toBeUndefined();
    expect(stand.last).toMatchObject({ operation, dialect, agent: 'echo' });
  });

  it.each([
    ['0.1', { id: 't1', sessionId: 'c1', status: { state: 'completed' } }, undefined],
    ['0.2', { id: 't1', contextId: 'c1', kind: 'task', status: { state: 'completed' } }, 'task'],
    ['1.0', { id: 't1', contextId: 'c1', kind: 'task', status: { state: 'completed' } }, 'task'],
  ] as const)(
    '3.2: tasks/get without a version answers in the version that created the task: %s',
    async (createdIn, shape, kind) => {
      stand.answer = () => result(task('TASK_STATE_COMPLETED'), { createdIn });
      const { reply } = await stand.rpc('tasks/get', { id: 't1' });
      expect(reply.result).toMatchObject(shape);
      expect((reply.result as JsonObject)['kind']).toBe(kind);
      const named = await stand.rpc('tasks/get', { id: 't1' }, { version: '0.3' });
      expect(named.reply.result).toMatchObject({ kind: 'task' });
    },
  );
});

describe('S-71: JSON-RPC itself', () => {
  it.each([1, 'abc', '', 0, -7, 9007199254740991, 'ünï"\\'])('echoes the id %j', async (id) => {
    const { reply } = await stand.rpc('GetTask', { id: 't1' }, { id });
    expect(reply.id).toBe(id);
    const refused = await stand.rpc('GetTask', { id: 'nobody' }, { id });
    expect(refused.reply).toMatchObject({ id, error: { code: -32001 } });
  });

  it.each([
    ['{', -32700, null],
    ['', -32700, null],
    [Buffer.from([0x7b, 0xff, 0x7d]), -32700, null],
    [`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":${'['.repeat(80)}${']'.repeat(80)}}`, -32700, null],
    ['[]', -32600, null],
    ['[{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}]', -32600, null],
    ['"text"', -32600, null],
    ['{"jsonrpc":"1.0","id":7,"method":"GetTask"}', -32600, 7],
    ['{"jsonrpc":"2.0","id":7}', -32600, 7],
    ['{"jsonrpc":"2.0","id":7,"method":5}', -32600, 7],
    ['{"jsonrpc":"2.0","method":"GetTask","params":{"id":"t1"}}', -32600, null],
    ['{"jsonrpc":"2.0","id":null,"method":"GetTask","params":{"id":"t1"}}', -32600, null],
    ['{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600, null],
    ['{"jsonrpc":"2.0","method":"NoSuchMethod"}', -32601, null],
    ['{"jsonrpc":"2.0","method":"GetTask","params":{}}', -32602, null],
    ['{"jsonrpc":"2.0","method":"GetTask","params":[]}', -32602, null],
    ['{"jsonrpc":"2.0","id":7,"method":"GetTask","params":[]}', -32602, 7],
    ['{"jsonrpc":"2.0","id":7,"method":"GetTask","params":"no"}', -32602, 7],
    ['{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{}}', -32602, 7],
    ['{"jsonrpc":"2.0","id":"x","method":"NoSuchMethod"}', -32601, 'x'],
    ['{"jsonrpc":"2.0","id":"x","method":"tasks/nothing"}', -32601, 'x'],
  ])('refuses %j', async (body, code, id) => {
    const { status, text } = await stand.send('/a2a/echo', { method: 'POST', body });
    expect(status).toBe(200);
    expect(JSON.parse(text)).toMatchObject({ jsonrpc: '2.0', id, error: { code } });
    expect(stand.calls).toHaveLength(0);
  });

  it('S-74: accepts any JSON media type and a trailing slash, and refuses other types', async () => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't1' } });
    for (const type of ['application/json', 'application/a2a+json', 'application/json; charset=utf-8']) {
      const { text } = await stand.send('/a2a/echo/', { headers: { 'content-type': type }, body });
      expect(JSON.parse(text)).toMatchObject({ result: { id: 't1' } });
    }
    const headers = { 'content-type': 'text/plain', 'a2a-version': '1.0' };
    const plain = await stand.send('/a2a/echo', { headers, body });
    expect(plain.status).toBe(200);
    expect(JSON.parse(plain.text)).toMatchObject({
      jsonrpc: '2.0',
      id: null,
      error: {
        code: -32005,
        message: 'Incompatible content type "text/plain": send application/json',
        data: [{ reason: 'CONTENT_TYPE_NOT_SUPPORTED' }],
      },
    });
    const olderly = await stand.send('/a2a/echo', { headers: { 'content-type': 'text/plain' }, body: 'hello' });
    expect(olderly.status).toBe(200);
    expect(JSON.parse(olderly.text)).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32005 } });
    expect(stand.calls).toHaveLength(3);
  });

  it('answers other HTTP methods with 405', async () => {
    const { status, headers } = await stand.send('/a2a/echo', { method: 'PUT', body: '{}' });
    expect(status).toBe(405);
    expect(headers['allow']).toBe('POST, OPTIONS');
  });

  it('refuses a body that is too large', async () => {
    const { status, text } = await stand.send('/a2a/echo', { body: `"${'x'.repeat(1_000_000)}"` });
    expect(status).toBe(413);
    expect(JSON.parse(text)).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32600 } });
  });
});

describe('S-70: errors', () => {
  it('S1-62: are typed for 1.0 and plain before 1.0, both with status 200', async () => {
    stand.answer = () => {
      throw new ProtocolError('task_not_cancelable', 'It is over');
    };
    const modernly = await stand.rpc('CancelTask', { id: 't1' });
    expect(modernly.status).toBe(200);
    expect(modernly.reply.error).toMatchObject({
      code: -32002,
      data: [{ reason: 'TASK_NOT_CANCELABLE', domain: 'a2a-protocol.org' }],
    });
    const olderly = await stand.rpc('tasks/cancel', { id: 't1' }, { version: '0.3' });
    expect(olderly.status).toBe(200);
    expect(olderly.reply.error).toMatchObject({ code: -32002, message: 'It is over' });
    expect(Array.isArray(olderly.reply.error?.data)).toBe(false);
  });

  it('of the agent are passed on', async () => {
    stand.answer = () => {
      throw new UpstreamRpcError(-32050, 'Own trouble', { why: 'mine' });
    };
    const { reply } = await stand.rpc('message/send', older);
    expect(reply.error).toEqual({ code: -32050, message: 'Own trouble', data: { why: 'mine' } });
  });

  it('that are unexpected become internal errors without details', async () => {
    stand.answer = () => {
      throw new Error('secret detail');
    };
    const { reply, text } = await stand.rpc('SendMessage', modern);
    expect(reply.error?.code).toBe(-32603);
    expect(text).not.toContain('secret');
    expect(stand.failures).toHaveLength(1);
  });

  it('of HTTP keep their status and headers', async () => {
    stand.answer = () => {
      throw new ProtocolError('rate_limited', 'Too many', { headers: { 'Retry-After': '3' } });
    };
    const { status, headers, reply } = await stand.rpc('SendMessage', modern);
    expect(status).toBe(429);
    expect(headers['retry-after']).toBe('3');
    expect(reply.id).toBe(1);
    stand.answer = () => {
      throw new ProtocolError('agent_not_found', 'Not for you');
    };
    expect((await stand.rpc('SendMessage', modern)).status).toBe(404);
  });
});

describe('texts that pass unchanged', () => {
  it('G-26: the text of a 1.0 request and of its answer', async () => {
    const params =
      '{ "message": {"messageId":"m1","role":"ROLE_USER","parts":[{"data":1.0e2}],"x":[1,  2]},"new":true }';
    const text = '{"task":{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"},"big":12345678901234567890}}';
    stand.answer = () => ({ kind: 'result', result: { value: JSON.parse(text) as JsonObject, text } });
    const body = `{"jsonrpc":"2.0","id":"q","method":"SendMessage","params":${params}}`;
    const reply = await stand.send('/a2a/echo', { body });
    expect(stand.last.request.text).toBe(params);
    expect(stand.last.request.value).toEqual(JSON.parse(params));
    expect(reply.text).toBe(`{"jsonrpc":"2.0","id":"q","result":${text}}`);
    const olderly = await stand.rpc('message/send', older);
    expect(stand.last.request.text).toBeUndefined();
    expect(olderly.reply.result).toMatchObject({ kind: 'task', status: { state: 'completed' } });
  });

  it('drops the text if a checked member appears twice in it', async () => {
    const message = '{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"x"}],"taskId":"theirs","taskId":"mine"}';
    await stand.send('/a2a/echo', {
      body: `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":${message}}}`,
    });
    expect(stand.last.request.text).toBeUndefined();
    expect(stand.last.request.value['message']).toMatchObject({ taskId: 'mine' });
  });

  it('a null result is written', async () => {
    const { reply } = await stand.rpc('DeleteTaskPushNotificationConfig', { taskId: 't1', id: 'p1' });
    expect(reply).toHaveProperty('result', null);
  });
});

describe('headers', () => {
  it('S-13, S-14: requested and activated extensions use the header of the version', async () => {
    stand.answer = () => result({ task: task('TASK_STATE_COMPLETED') }, { extensions: ['urn:a', 'urn:b'] });
    const asked = { 'a2a-extensions': 'urn:a, urn:c', 'x-a2a-extensions': 'urn:c,urn:d' };
    const modernly = await stand.rpc('SendMessage', modern, { headers: asked });
    expect(stand.last.exchange.extensions).toEqual(['urn:a', 'urn:c', 'urn:d']);
    expect(modernly.headers['a2a-extensions']).toBe('urn:a, urn:b');
    const olderly = await stand.rpc('message/send', older, { headers: asked });
    expect(olderly.headers['x-a2a-extensions']).toBe('urn:a, urn:b');
    expect(olderly.headers['a2a-extensions']).toBeUndefined();
  });

  it('3.11: only the trace and language headers are forwarded', async () => {
    await stand.rpc('SendMessage', modern, {
      headers: {
        traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
        tracestate: 'a=b',
        baggage: 'c=d',
        'accept-language': 'fr',
        cookie: 'session=secret',
        authorization: 'Bearer secret',
        'x-forwarded-for': '10.0.0.1',
        'x-api-key': 'secret',
      },
    });
    expect(stand.last.exchange.forward).toEqual({
      traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      tracestate: 'a=b',
      baggage: 'c=d',
      'accept-language': 'fr',
    });
  });
});

describe('aliases of the founding documents', () => {
  it('S1-52: /message/send takes the envelope, also beneath /v1', async () => {
    for (const path of ['/a2a/echo/message/send', '/v1/a2a/echo/message/send', '/v1/a2a/echo']) {
      const { reply } = await stand.rpc('message/send', older, { path });
      expect(reply.result).toMatchObject({ kind: 'task' });
    }
  });

  it('/message/stream always streams', async () => {
    stand.answer = () => stream(steps({ task: task('TASK_STATE_WORKING') }, status('TASK_STATE_COMPLETED')));
    const { type, text } = await stand.rpc('message/send', older, { path: '/a2a/echo/message/stream' });
    expect(type).toBe('text/event-stream');
    expect(stand.last.operation).toBe('SendStreamingMessage');
    expect(eventsIn(text).map(({ data }) => (data['result'] as JsonObject)['kind'])).toEqual(['task', 'status-update']);
  });
});
