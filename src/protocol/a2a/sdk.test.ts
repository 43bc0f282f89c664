/**
 * Compares the 1.0 that the gateway writes with the codecs of the official SDK: the codecs know every member and miss
 * none.
 */
import { SendMessageRequest, StreamResponse, Task, TaskPushNotificationConfig } from '@a2a-js/sdk';
import type { Task as Task03 } from 'a2a-sdk-0.3';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import { dialect } from './index.js';

const task: Task03 = {
  kind: 'task',
  id: 't1',
  contextId: 'c1',
  status: {
    state: 'input-required',
    message: { kind: 'message', messageId: 'm2', role: 'agent', parts: [{ kind: 'text', text: 'which?' }] },
    timestamp: '2026-01-02T03:04:05.678Z',
  },
  history: [
    {
      kind: 'message',
      messageId: 'm1',
      role: 'user',
      taskId: 't1',
      contextId: 'c1',
      referenceTaskIds: ['t0'],
      extensions: ['urn:x'],
      metadata: { a: 1 },
      parts: [
        { kind: 'text', text: 'hi', metadata: { b: 2 } },
        { kind: 'file', file: { bytes: 'AAEC', name: 'a.bin', mimeType: 'application/octet-stream' } },
        { kind: 'file', file: { uri: 'https://f.example/a' } },
        { kind: 'data', data: { deep: { er: [1] } } },
      ],
    },
  ],
  artifacts: [{ artifactId: 'a', name: 'n', description: 'd', parts: [{ kind: 'text', text: 'x' }] }],
  metadata: { k: 'v' },
};
const wire = (value: unknown): JsonValue => JSON.parse(JSON.stringify(value)) as JsonValue;

describe('a task of the 0.3 SDK', () => {
  const read = dialect('0.3').readResult('GetTask', wire(task));

  it('reads as a task of the 1.0 SDK', () => {
    expect(wire(Task.toJSON(Task.fromJSON(read)))).toEqual(wire(read));
  });

  it('is written back unchanged', () => {
    expect(dialect('0.3').writeResult('GetTask', read)).toEqual(task);
  });

  it('survives every older version, except for the members in the loss register', () => {
    for (const id of ['0.2', '0.3'] as const) {
      const old = dialect(id);
      expect(old.readResult('GetTask', wire(old.writeResult('GetTask', read)))).toEqual(read);
    }
  });
});

describe('events, requests and push configurations of older versions read as those of the 1.0 SDK', () => {
  it.each<[string, JsonObject]>([
    ['status', { kind: 'status-update', taskId: 't', contextId: 'c', status: { state: 'failed' }, final: true }],
    [
      'artifact',
      {
        kind: 'artifact-update',
        taskId: 't',
        contextId: 'c',
        artifact: wire(task.artifacts?.[0]),
        append: true,
        lastChunk: true,
      },
    ],
    ['message', wire(task.history?.[0]) as JsonObject],
  ])('%s', (_kind, event) => {
    const [read] = dialect('0.3').eventReader({ taskId: 't' }).read(event);
    expect(wire(StreamResponse.toJSON(StreamResponse.fromJSON(read)))).toEqual(wire(read));
  });

  it('send', () => {
    const configuration = { blocking: false, historyLength: 1, acceptedOutputModes: ['text/plain'] };
    const params = { message: wire(task.history?.[0]), configuration, metadata: { m: 1 } };
    const read = dialect('0.3').readRequest('SendMessage', params);
    expect(wire(SendMessageRequest.toJSON(SendMessageRequest.fromJSON(read)))).toEqual(wire(read));
  });

  it('push configuration', () => {
    const authentication = { schemes: ['Bearer'], credentials: 'x' };
    const params = {
      taskId: 't',
      pushNotificationConfig: { id: 'p', url: 'https://w.example', token: 'k', authentication },
    };
    const read = dialect('0.3').readRequest('CreateTaskPushNotificationConfig', params);
    expect(wire(TaskPushNotificationConfig.toJSON(TaskPushNotificationConfig.fromJSON(read)))).toEqual(wire(read));
  });
});
