import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { dialect } from '../index.js';

const message = (parts: JsonValue, more: JsonObject = {}): JsonObject => ({
  messageId: 'm',
  role: 'user',
  parts,
  ...more,
});
const partOf = (id: '1.0' | '0.3' | '0.3-proto' | '0.1', part: JsonValue) => {
  const params = { id: 't', message: message([part]) };
  return dialect(id).readRequest('SendMessage', params).message.parts[0];
};

describe('C-26 S1-50: parts are distinguished by kind, by type, or by their members', () => {
  it.each([
    [{ kind: 'text', text: 'x' }, { text: 'x' }],
    [{ type: 'text', text: 'x' }, { text: 'x' }],
    [{ text: 'x' }, { text: 'x' }],
    [{ text: 'x', data: null }, { text: 'x' }],
    [
      { kind: 'file', file: { bytes: 'AAE=', name: 'a', mimeType: 'b' } },
      { raw: 'AAE=', filename: 'a', mediaType: 'b' },
    ],
    [{ kind: 'file', file: { data: 'AAE=' } }, { raw: 'AAE=' }],
    [{ file: { fileWithBytes: 'AAE', mimeType: 'b' } }, { raw: 'AAE=', mediaType: 'b' }],
    [{ file: { file_with_bytes: '-_8', mime_type: 'b' } }, { raw: '+/8=', mediaType: 'b' }],
    [{ kind: 'file', file: { uri: 'https://x' } }, { url: 'https://x' }],
    [{ file: { fileWithUri: 'https://x' } }, { url: 'https://x' }],
    [
      { raw: '-_8', media_type: 'b' },
      { raw: '+/8=', mediaType: 'b' },
    ],
    [
      { url: 'https://x', mediaType: 'b' },
      { url: 'https://x', mediaType: 'b' },
    ],
    [{ kind: 'data', data: { data: { a: 1 } } }, { data: { data: { a: 1 } } }],
    [{ data: null }, { data: null }],
    [{ data: 0 }, { data: 0 }],
    [{ kind: 'data', data: { value: null }, metadata: { data_part_compat: true } }, { data: null }],
    [
      { kind: 'data', data: { value: 1 }, metadata: { data_part_compat: true, k: 1 } },
      { data: 1, metadata: { k: 1 } },
    ],
    [
      { kind: 'text', text: 'x', extra: 1 },
      { text: 'x', extra: 1 },
    ],
    [
      { text: 'x', type: 'haiku' },
      { text: 'x', type: 'haiku' },
    ],
  ])('%j', (wire, part) => {
    expect(partOf('0.3', wire)).toEqual(part);
    if (!('kind' in wire && 'data' in wire && typeof wire.data === 'object' && 'data' in (wire.data ?? {}))) {
      expect(partOf('1.0', wire)).toEqual(part);
      expect(partOf('0.1', wire)).toEqual(part);
    }
  });

  it('the proto wraps data in another object', () => {
    expect(partOf('0.3-proto', { data: { data: { a: 1 } } })).toEqual({ data: { a: 1 } });
    expect(partOf('0.3-proto', { kind: 'data', data: { data: 1 } })).toEqual({ data: { data: 1 } });
    expect(partOf('1.0', { data: { data: { a: 1 } } })).toEqual({ data: { data: { a: 1 } } });
  });

  it.each([[{}], [{ kind: 'file', file: {} }], ['x'], [{ raw: '%%%' }], [{ kind: 'data' }]])(
    'S-30: refuses %j as a part',
    (wire) => {
      expect(() => partOf('0.3', wire)).toThrow(/message\.parts\[0\]/);
    },
  );

  it('S-30: refuses a part of 1.0 with several contents or none', () => {
    expect(() => partOf('1.0', { text: 'x', url: 'https://x' })).toThrow(/one content/);
    expect(() => partOf('1.0', { metadata: {} })).toThrow(expect.objectContaining({ reason: 'invalid_params' }));
  });
});

describe('messages', () => {
  const read = (wire: JsonObject) => dialect('0.3').readRequest('SendMessage', { message: wire }).message;
  it.each([
    ['without a kind or a role', { messageId: 'm', parts: [{ kind: 'text', text: 'x' }] }],
    ['with content', { messageId: 'm', role: 'ROLE_USER', content: [{ text: 'x' }] }],
    ['in snake case', { message_id: 'm', role: 'user', parts: [{ text: 'x' }], context_id: '' }],
    ['with numbers for enums', { messageId: 'm', role: 1, parts: [{ text: 'x' }] }],
    ['with nulls', { messageId: 'm', role: 'user', parts: [{ text: 'x' }], taskId: null, metadata: null }],
  ])('S-74: %s', (_what, wire) => {
    expect(read(wire)).toEqual({ messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] });
  });

  it('S-30: need an id, except in 0.1', () => {
    const { messageId: _id, ...nameless } = message([{ text: 'x' }]);
    for (const id of ['1.0', '0.3', '0.2', '0.3-proto'] as const) {
      expect(() => dialect(id).readRequest('SendMessage', { message: nameless })).toThrow(/messageId/);
    }
    const minted = dialect('0.1').readRequest('SendMessage', { id: 't', message: nameless }).message;
    expect(minted).toMatchObject({ taskId: 't', role: 'ROLE_USER' });
    expect(minted.messageId).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('are also read from the proto’s names `request` and `msg`', () => {
    const wire = { messageId: 'm', role: 'ROLE_USER', content: [{ text: 'x' }] };
    expect(dialect('0.3-proto').readRequest('SendMessage', { request: wire }).message.messageId).toBe('m');
    expect(dialect('0.3-proto').readResult('SendMessage', { msg: wire }).message?.messageId).toBe('m');
  });

  it.each([[null], [[]], ['x'], [{ messageId: 'm', parts: 'x' }], [{ messageId: 'm', role: 'robot', parts: [] }]])(
    'S-30: refuses %j as a message',
    (wire) => {
      for (const id of ['1.0', '0.3', '0.3-proto', '0.2', '0.1'] as const) {
        expect(() => dialect(id).readRequest('SendMessage', { id: 't', message: wire as JsonValue })).toThrow(
          expect.objectContaining({ reason: 'invalid_params' }),
        );
      }
    },
  );
});

describe('statuses', () => {
  const read = (state: JsonValue, more: JsonObject = {}) =>
    dialect('1.0').readResult('GetTask', { id: 't', status: { state, ...more } }).status;
  it.each([
    ['cancelled', 'TASK_STATE_CANCELED'],
    ['canceled', 'TASK_STATE_CANCELED'],
    ['TASK_STATE_CANCELLED', 'TASK_STATE_CANCELED'],
    ['input_required', 'TASK_STATE_INPUT_REQUIRED'],
    ['input-required', 'TASK_STATE_INPUT_REQUIRED'],
    [6, 'TASK_STATE_INPUT_REQUIRED'],
    [8, 'TASK_STATE_AUTH_REQUIRED'],
    ['unknown', 'TASK_STATE_UNSPECIFIED'],
    ['WORKING', 'TASK_STATE_WORKING'],
    ['TASK_STATE_PAUSED', 'TASK_STATE_PAUSED'],
  ])('%j is %s', (wire, state) => {
    expect(read(wire).state).toBe(state);
  });

  it('S-72: timestamps are in UTC', () => {
    const at = (timestamp: string) =>
      dialect('0.3').readResult('GetTask', { id: 't', status: { state: 'working', timestamp } }).status.timestamp;
    expect(at('2026-01-02T03:04:05')).toBe('2026-01-02T03:04:05.000Z');
    expect(at('2026-01-02T03:04:05+02:00')).toBe('2026-01-02T01:04:05.000Z');
    expect(at('2026-01-02T03:04:05.123456Z')).toBe('2026-01-02T03:04:05.123456Z');
  });
});

describe('requests from a path and a query', () => {
  it.each([
    ['1.0', { id: 't', historyLength: '5' }],
    ['0.3', { id: 't', history_length: '5' }],
    ['0.3-proto', { name: 'tasks/t', historyLength: 5 }],
    ['0.3', { name: 't', historyLength: 5 }],
  ] as const)('GetTask of %s: %j', (id, params) => {
    expect(dialect(id).readRequest('GetTask', params)).toEqual({ id: 't', historyLength: 5 });
  });

  it('a history length of zero means none in 1.0 and everything in the proto', () => {
    expect(dialect('1.0').readRequest('GetTask', { id: 't', historyLength: 0 })).toEqual({ id: 't', historyLength: 0 });
    expect(dialect('0.3').readRequest('GetTask', { id: 't', historyLength: 0 })).toEqual({ id: 't', historyLength: 0 });
    expect(dialect('0.3-proto').readRequest('GetTask', { id: 't', historyLength: 0 })).toEqual({ id: 't' });
    expect(dialect('0.3-proto').writeRequest('GetTask', { id: 't', historyLength: 0 })).toEqual({ name: 'tasks/t' });
  });

  it('ListTasks', () => {
    const params = {
      pageSize: '10',
      includeArtifacts: 'true',
      status: 'working',
      contextId: '',
      statusTimestampAfter: 'x',
    };
    expect(dialect('1.0').readRequest('ListTasks', params)).toEqual({
      pageSize: 10,
      includeArtifacts: true,
      status: 'TASK_STATE_WORKING',
      statusTimestampAfter: 'x',
    });
    for (const wrong of [
      { pageSize: 'many' },
      { pageSize: 1.5 },
      { status: 'sleepy' },
      { includeArtifacts: 'perhaps' },
    ]) {
      expect(() => dialect('1.0').readRequest('ListTasks', wrong)).toThrow(
        expect.objectContaining({ reason: 'invalid_params' }),
      );
    }
  });

  it.each(['1.0', '0.3', '0.2', '0.1', '0.3-proto'] as const)('S-30: %s needs the id of a task', (id) => {
    for (const operation of ['GetTask', 'CancelTask', 'SubscribeToTask'] as const) {
      expect(() => dialect(id).readRequest(operation, {})).toThrow(
        expect.objectContaining({ reason: 'invalid_params' }),
      );
      expect(() => dialect(id).readRequest(operation, { id: 7 })).toThrow(
        expect.objectContaining({ reason: 'invalid_params' }),
      );
    }
  });
});

it.each([[null], ['x'], [[]], [{}], [{ task: {} }], [{ kind: 'task' }], [{ kind: 'status-update' }]])(
  'G-28: the response %j is reported as the agent’s fault',
  (wire) => {
    for (const id of ['1.0', '0.3', '0.3-proto', '0.2', '0.1'] as const) {
      expect(() => dialect(id).readResult('SendMessage', wire)).toThrow(
        expect.objectContaining({ reason: 'invalid_agent_response' }),
      );
    }
  },
);
