/**
 * The exact form of one task, one SendMessage request, one push configuration and one stream in each version, written
 * and read back.
 */
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { dialect } from '../index.js';
import type { SendMessageRequest, Task, TaskPushNotificationConfig } from '../model.js';
import { contentId, derivedId } from './ids.js';

const TASK: Task = {
  id: 't1',
  contextId: 'c1',
  status: {
    state: 'TASK_STATE_CANCELED',
    message: { messageId: 'm2', role: 'ROLE_AGENT', parts: [{ text: 'stopped' }] },
    timestamp: '2026-01-02T03:04:05.678Z',
  },
  history: [
    {
      messageId: 'm1',
      role: 'ROLE_USER',
      contextId: 'c1',
      taskId: 't1',
      referenceTaskIds: ['t0'],
      parts: [
        { text: 'hi', mediaType: 'text/markdown' },
        { raw: 'AAEC', filename: 'a.bin', mediaType: 'application/octet-stream' },
        { url: 'https://f.example/a.png', mediaType: 'image/png' },
        { data: { a: 1 }, metadata: { b: 2 } },
        { data: [1, 2] },
      ],
    },
  ],
  artifacts: [{ artifactId: 'a1', name: 'answer', parts: [{ text: 'x' }] }],
  metadata: { k: 'v' },
};

const MEDIA = 'https://parley.dev/a2a/mediaType';

const SCHEMA_TASK: JsonObject = {
  kind: 'task',
  id: 't1',
  contextId: 'c1',
  status: {
    state: 'canceled',
    message: { kind: 'message', messageId: 'm2', role: 'agent', parts: [{ kind: 'text', text: 'stopped' }] },
    timestamp: '2026-01-02T03:04:05.678Z',
  },
  history: [
    {
      kind: 'message',
      messageId: 'm1',
      role: 'user',
      contextId: 'c1',
      taskId: 't1',
      referenceTaskIds: ['t0'],
      parts: [
        { kind: 'text', text: 'hi', metadata: { [MEDIA]: 'text/markdown' } },
        { kind: 'file', file: { bytes: 'AAEC', name: 'a.bin', mimeType: 'application/octet-stream' } },
        { kind: 'file', file: { uri: 'https://f.example/a.png', mimeType: 'image/png' } },
        { kind: 'data', data: { a: 1 }, metadata: { b: 2 } },
        { kind: 'data', data: { value: [1, 2] }, metadata: { data_part_compat: true } },
      ],
    },
  ],
  artifacts: [{ artifactId: 'a1', name: 'answer', parts: [{ kind: 'text', text: 'x' }] }],
  metadata: { k: 'v' },
};

const TASKS: Record<string, JsonObject> = {
  '1.0': TASK,
  '0.3': SCHEMA_TASK,
  '0.2': SCHEMA_TASK,
  '0.3-proto': {
    id: 't1',
    contextId: 'c1',
    status: {
      state: 'TASK_STATE_CANCELLED',
      message: { messageId: 'm2', role: 'ROLE_AGENT', content: [{ text: 'stopped' }] },
      timestamp: '2026-01-02T03:04:05.678Z',
    },
    history: [
      {
        messageId: 'm1',
        contextId: 'c1',
        taskId: 't1',
        role: 'ROLE_USER',
        content: [
          { text: 'hi' },
          { file: { fileWithBytes: 'AAEC', mimeType: 'application/octet-stream' } },
          { file: { fileWithUri: 'https://f.example/a.png', mimeType: 'image/png' } },
          { data: { data: { a: 1 } } },
          { data: { data: { value: [1, 2] } } },
        ],
        metadata: { data_part_compat: [4] },
      },
    ],
    artifacts: [{ artifactId: 'a1', name: 'answer', parts: [{ text: 'x' }] }],
    metadata: { k: 'v' },
  },
  '0.1': {
    id: 't1',
    sessionId: 'c1',
    status: {
      state: 'canceled',
      message: { role: 'agent', parts: [{ type: 'text', text: 'stopped' }] },
      timestamp: '2026-01-02T03:04:05.678Z',
    },
    history: [
      {
        role: 'user',
        parts: [
          { type: 'text', text: 'hi', metadata: { [MEDIA]: 'text/markdown' } },
          { type: 'file', file: { bytes: 'AAEC', name: 'a.bin', mimeType: 'application/octet-stream' } },
          { type: 'file', file: { uri: 'https://f.example/a.png', mimeType: 'image/png' } },
          { type: 'data', data: { a: 1 }, metadata: { b: 2 } },
          { type: 'data', data: { value: [1, 2] }, metadata: { data_part_compat: true } },
        ],
      },
    ],
    artifacts: [{ name: 'answer', parts: [{ type: 'text', text: 'x' }], index: 0 }],
    metadata: { k: 'v' },
  },
};

describe.each(Object.entries(TASKS))('a task in %s', (id, wire) => {
  it('is written in the exact expected form', () => {
    expect(dialect(id as '1.0').writeResult('GetTask', TASK)).toEqual(wire);
  });

  it('is the response to SendMessage, wrapped if the version wraps it', () => {
    const wrapped = id === '1.0' || id === '0.3-proto';
    expect(dialect(id as '1.0').writeResult('SendMessage', { task: TASK })).toEqual(wrapped ? { task: wire } : wire);
  });

  it('is read wrapped and bare', () => {
    const through = dialect(id as '1.0');
    const read = through.readResult('GetTask', wire);
    expect(read.status.state).toBe('TASK_STATE_CANCELED');
    expect(through.readResult('SendMessage', wire).task).toEqual(read);
    expect(through.readResult('SendMessage', id === '0.1' ? wire : { task: wire }).task).toEqual(read);
    expect(read.history?.[0]?.parts.at(-1)?.data).toEqual([1, 2]);
  });
});

it('1.0 is read and written as the same object, without a copy', () => {
  const model = dialect('1.0');
  expect(model.readResult('GetTask', TASK)).toBe(TASK);
  expect(model.writeResult('GetTask', TASK)).toBe(TASK);
  const params = { message: TASK.history?.[0], configuration: { historyLength: 0 }, later: 1 } as JsonObject;
  expect(model.readRequest('SendMessage', params)).toBe(params);
  expect(model.writeRequest('SendMessage', params as unknown as SendMessageRequest)).toBe(params);
  const reply = { task: TASK } as JsonObject;
  expect(model.readResult('SendMessage', reply)).toBe(reply);
  expect(model.eventReader({}).read(reply)[0]).toBe(reply);
});

describe('ids that 0.1 omits are the same at every reading', () => {
  const old = dialect('0.1');
  const wire = TASKS['0.1'] as JsonObject;
  it('of messages', () => {
    const read = old.readResult('GetTask', wire);
    const [first] = wire['history'] as JsonObject[];
    expect(read.history?.[0]?.messageId).toBe(contentId('t1', first));
    const { message } = wire['status'] as JsonObject;
    expect(read.status.message?.messageId).toBe(contentId('t1', message));
    expect(old.readResult('GetTask', JSON.parse(JSON.stringify(wire)))).toEqual(read);
    expect(contentId('t1', message)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
  it('of a message in the status and in the history, and of equal messages in the history', () => {
    const { message } = wire['status'] as JsonObject;
    const read = old.readResult('GetTask', { ...wire, history: [message, message] as JsonObject[] });
    const ids = read.history?.map(({ messageId }) => messageId);
    expect(ids).toEqual([contentId('t1', message), contentId('t1', message, 1)]);
    expect(read.status.message?.messageId).toBe(ids?.[0]);
  });
  it('of artifacts, by their numbers', () => {
    const artifacts = [{ parts: [{ type: 'text', text: 'a' }], index: 4 }, { parts: [{ type: 'text', text: 'b' }] }];
    const read = old.readResult('GetTask', { ...wire, artifacts });
    expect(read.artifacts?.map(({ artifactId }) => artifactId)).toEqual(['idx-4', 'idx-1']);
    const back = old.writeResult('GetTask', read) as JsonObject;
    expect((back['artifacts'] as JsonObject[]).map(({ index }) => index)).toEqual([4, 1]);
  });
  it('S1-54: of sessions', () => {
    const { sessionId: _session, ...alone } = wire;
    expect(old.readResult('GetTask', alone).contextId).toBe(derivedId('t1', 'session'));
  });
});

describe('C-25 S1-39: states that 0.1 lacks', () => {
  it.each([
    ['TASK_STATE_REJECTED', 'failed'],
    ['TASK_STATE_AUTH_REQUIRED', 'input-required'],
  ] as const)('%s is written as %s, with the real state in the metadata', (state, word) => {
    const old = dialect('0.1');
    const wire = old.writeResult('GetTask', { ...TASK, status: { state } }) as JsonObject;
    expect((wire['status'] as JsonObject)['state']).toBe(word);
    expect(wire['metadata']).toEqual({ k: 'v', 'https://parley.dev/a2a/state': state });
    expect(old.readResult('GetTask', wire)).toMatchObject({ status: { state }, metadata: { k: 'v' } });
  });

  it.each([
    ['TASK_STATE_SUBMITTED', 'submitted'],
    ['TASK_STATE_WORKING', 'working'],
    ['TASK_STATE_COMPLETED', 'completed'],
    ['TASK_STATE_FAILED', 'failed'],
    ['TASK_STATE_CANCELED', 'canceled'],
    ['TASK_STATE_REJECTED', 'rejected'],
    ['TASK_STATE_AUTH_REQUIRED', 'auth-required'],
    ['TASK_STATE_INPUT_REQUIRED', 'input-required'],
    ['TASK_STATE_UNSPECIFIED', 'unknown'],
  ] as const)('0.3 writes %s as %s', (state, word) => {
    expect(dialect('0.3').writeResult('GetTask', { ...TASK, status: { state } })).toMatchObject({
      status: { state: word },
    });
  });

  it('an unknown state is kept in the metadata of an unspecified state', () => {
    const read = dialect('0.3').readResult('GetTask', { id: 't', contextId: 'c', status: { state: 'paused' } });
    expect(read.status.state).toBe('TASK_STATE_UNSPECIFIED');
    expect(read.metadata).toEqual({ 'https://parley.dev/a2a/state': 'paused' });
  });
});

describe('a SendMessage request', () => {
  const push: TaskPushNotificationConfig = {
    url: 'https://w.example/hook',
    token: 'tk',
    authentication: { scheme: 'Bearer', credentials: 'secret' },
  };
  const SEND: SendMessageRequest = {
    tenant: 'acme',
    message: { messageId: 'm1', role: 'ROLE_USER', taskId: 't1', contextId: 'c1', parts: [{ text: 'hi' }] },
    configuration: {
      acceptedOutputModes: ['text/plain'],
      historyLength: 2,
      returnImmediately: true,
      taskPushNotificationConfig: push,
    },
    metadata: { k: 'v' },
  };
  const config = { url: push.url, token: 'tk', authentication: { schemes: ['Bearer'], credentials: 'secret' } };
  const schema: JsonObject = {
    message: {
      kind: 'message',
      messageId: 'm1',
      role: 'user',
      parts: [{ kind: 'text', text: 'hi' }],
      contextId: 'c1',
      taskId: 't1',
    },
    configuration: {
      acceptedOutputModes: ['text/plain'],
      blocking: false,
      historyLength: 2,
      pushNotificationConfig: config,
    },
    metadata: { k: 'v' },
  };
  const SENDS: Record<string, JsonObject> = {
    '0.3': schema,
    '0.2': schema,
    '0.3-proto': {
      message: { messageId: 'm1', contextId: 'c1', taskId: 't1', role: 'ROLE_USER', content: [{ text: 'hi' }] },
      configuration: {
        acceptedOutputModes: ['text/plain'],
        blocking: false,
        historyLength: 2,
        pushNotification: config,
      },
      metadata: { k: 'v' },
    },
    '0.1': {
      id: 't1',
      sessionId: 'c1',
      message: { role: 'user', parts: [{ type: 'text', text: 'hi' }] },
      historyLength: 2,
      pushNotification: config,
      metadata: { k: 'v', acceptedOutputModes: ['text/plain'] },
    },
  };
  it.each(Object.entries(SENDS))('is written in the exact expected form in %s', (id, wire) => {
    expect(dialect(id as '0.3').writeRequest('SendMessage', SEND)).toEqual(wire);
  });

  it.each(Object.entries(SENDS))('is read from %s', (id, wire) => {
    const { tenant: _tenant, ...rest } = SEND;
    const { returnImmediately: _now, ...configuration } = SEND.configuration ?? {};
    const expected = id === '0.1' ? { ...rest, configuration } : rest;
    const read = dialect(id as '0.3').readRequest('SendMessage', wire);
    if (id === '0.1') read.message.messageId = 'm1';
    expect(read).toEqual(expected);
  });

  it('to 0.3 always contains `blocking` and the accepted output modes', () => {
    const { configuration } = dialect('0.3').writeRequest('SendMessage', { message: SEND.message });
    expect(configuration).toEqual({ acceptedOutputModes: [], blocking: true });
  });

  it('of 0.3 without "blocking" waits, unless it has a configuration in ProtoJSON, which omits false', () => {
    const params = { message: schema['message'], configuration: {} } as JsonObject;
    expect(dialect('0.3').readRequest('SendMessage', params).configuration).toEqual({});
    expect(dialect('0.3-proto').readRequest('SendMessage', params).configuration).toEqual({ returnImmediately: true });
    const bare = { message: schema['message'] } as JsonObject;
    expect(dialect('0.3').readRequest('SendMessage', bare)).not.toHaveProperty('configuration');
    expect(dialect('0.3-proto').readRequest('SendMessage', bare)).not.toHaveProperty('configuration');
  });

  it('to 0.1 for a new task has an id and a session id that can be derived again', () => {
    const { taskId: _task, contextId: _context, ...message } = SEND.message;
    const { id, sessionId } = dialect('0.1').writeRequest('SendMessage', { message });
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(sessionId).toBe(derivedId(id as string, 'session'));
  });
});

describe('push configurations', () => {
  const operation = 'CreateTaskPushNotificationConfig';
  const own = { url: 'https://w.example', id: 'p1' };
  const FORMS: readonly [string, '0.3' | '0.3-proto' | '0.1' | '1.0', JsonValue][] = [
    ['JSON-RPC', '0.3', { taskId: 't1', pushNotificationConfig: own }],
    ['0.1', '0.1', { id: 't1', pushNotificationConfig: own }],
    [
      'the resource',
      '0.3-proto',
      { name: 'tasks/t1/pushNotificationConfigs/p1', pushNotificationConfig: { url: own.url } },
    ],
    [
      'the request',
      '0.3-proto',
      { parent: 'tasks/t1', configId: 'p1', config: { pushNotificationConfig: { url: own.url } } },
    ],
    [
      'the request with a resource',
      '0.3-proto',
      {
        parent: 'tasks/t1',
        configId: 'p1',
        config: { name: 'tasks/t1/pushNotificationConfigs/p1', pushNotificationConfig: own },
      },
    ],
    [
      'snake case',
      '0.3-proto',
      { parent: 'tasks/t1', config_id: 'p1', config: { push_notification_config: { url: own.url } } },
    ],
    ['a path and the bare configuration', '0.3', { taskId: 't1', ...own }],
    ['a path and a name', '0.3-proto', { taskId: 't1', pushNotificationConfig: own }],
    ['1.0', '1.0', { taskId: 't1', ...own }],
  ];
  it.each(FORMS)('are read from %s', (_what, id, wire) => {
    expect(dialect(id).readRequest(operation, wire as JsonObject)).toEqual({ ...own, taskId: 't1' });
  });

  it('are written as each version names them', () => {
    const config = { ...own, taskId: 't1' };
    expect(dialect('0.3').writeResult(operation, config)).toEqual({ taskId: 't1', pushNotificationConfig: own });
    const name = 'tasks/t1/pushNotificationConfigs/p1';
    expect(dialect('0.3-proto').writeResult(operation, config)).toEqual({ name, pushNotificationConfig: own });
    expect(dialect('0.3-proto').writeRequest(operation, config)).toEqual({
      parent: 'tasks/t1',
      configId: 'p1',
      config: { name, pushNotificationConfig: own },
    });
    expect(dialect('0.1').writeResult(operation, config)).toEqual({
      id: 't1',
      pushNotificationConfig: { url: own.url },
    });
    expect(dialect('1.0').writeResult(operation, config)).toEqual(config);
  });

  it('the first usable scheme is chosen', () => {
    const authentication = { schemes: ['Digest', 'bearer'], credentials: 'x' };
    const read = dialect('0.3').readRequest(operation, {
      taskId: 't',
      pushNotificationConfig: { url: 'u', authentication },
    });
    expect(read.authentication).toEqual({ scheme: 'bearer', credentials: 'x' });
  });

  it.each([
    ['0.3', { id: 't1', pushNotificationConfigId: 'p1' }],
    ['0.3', { taskId: 't1', id: 'p1' }],
    ['0.3-proto', { name: 'tasks/t1/pushNotificationConfigs/p1' }],
    ['1.0', { taskId: 't1', id: 'p1' }],
  ] as const)('are identified in %s by %j', (id, wire) => {
    expect(dialect(id).readRequest('GetTaskPushNotificationConfig', wire)).toEqual({ taskId: 't1', id: 'p1' });
  });

  it('0.3 may omit the id of the configuration', () => {
    expect(dialect('0.3').readRequest('GetTaskPushNotificationConfig', { id: 't1' })).toEqual({ taskId: 't1' });
  });

  it('lists are an array in JSON-RPC and a named member in the proto', () => {
    const list = { configs: [{ ...own, taskId: 't1' }], nextPageToken: '' };
    const operation = 'ListTaskPushNotificationConfigs';
    for (const id of ['1.0', '0.3', '0.3-proto'] as const) {
      const wire = dialect(id).writeResult(operation, list);
      expect(Array.isArray(wire)).toBe(id === '0.3');
      expect(dialect(id).readResult(operation, wire)).toEqual(list);
    }
    expect(dialect('0.1').readResult(operation, null)).toEqual({ configs: [], nextPageToken: '' });
  });
});
