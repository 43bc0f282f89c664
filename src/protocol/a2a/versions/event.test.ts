import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { dialect } from '../index.js';
import type { StreamResponse, Task, TaskState } from '../model.js';

const status = (state: TaskState): StreamResponse => ({
  statusUpdate: { taskId: 't', contextId: 'c', status: { state } },
});
const chunk = (artifactId: string, more: JsonObject = {}): StreamResponse => ({
  artifactUpdate: { taskId: 't', contextId: 'c', artifact: { artifactId, parts: [{ text: 'x' }] }, ...more },
});
const task = (state: TaskState, more: Partial<Task> = {}): StreamResponse => ({
  task: { id: 't', contextId: 'c', status: { state }, ...more },
});
const message: StreamResponse = { message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'hi' }] } };

type Id = '1.0' | '0.3' | '0.3-proto' | '0.2' | '0.1';
/**
 * All events a client sees of a stream. `known`: whether the writer knows the last event, or only learns of the end
 * afterwards.
 */
function written(id: Id, events: StreamResponse[], known: boolean): JsonObject[] {
  const writer = dialect(id).eventWriter({ taskId: 't', contextId: 'c' });
  const wires = events.flatMap((event, index) => writer.write(event, known && index === events.length - 1));
  return [...wires, ...writer.end()] as JsonObject[];
}
const finals = (wires: JsonObject[]) =>
  wires.map((wire) => ((wire['statusUpdate'] ?? wire) as JsonObject)['final']).filter((final) => final !== undefined);

describe('C-27: up to 0.3 the last event is marked as final', () => {
  const streams: readonly [string, StreamResponse[]][] = [
    ['a terminal status', [task('TASK_STATE_WORKING'), status('TASK_STATE_COMPLETED')]],
    ['a question', [task('TASK_STATE_WORKING'), status('TASK_STATE_INPUT_REQUIRED')]],
    ['an artifact', [task('TASK_STATE_WORKING'), chunk('a')]],
    ['a snapshot', [task('TASK_STATE_COMPLETED')]],
    ['a snapshot after the end', [status('TASK_STATE_COMPLETED'), task('TASK_STATE_COMPLETED')]],
  ];
  for (const id of ['0.3', '0.3-proto', '0.2', '0.1'] as const) {
    it.each(streams)(`${id}: after %s`, (_what, events) => {
      for (const known of [true, false]) {
        const wires = written(id, events, known);
        expect(finals(wires).at(-1)).toBe(true);
        expect(finals(wires).filter(Boolean)).toHaveLength(1);
        expect(finals(wires.slice(-1))).toEqual([true]);
      }
    });
  }

  it('a synthetic final event repeats the last status', () => {
    const wires = written('0.3', [task('TASK_STATE_WORKING'), chunk('a')], false);
    expect(wires.at(-1)).toEqual({
      kind: 'status-update',
      taskId: 't',
      contextId: 'c',
      status: { state: 'working' },
      final: true,
    });
  });

  it('a question is not final while the agent continues', () => {
    expect(finals(written('0.3', [status('TASK_STATE_AUTH_REQUIRED'), status('TASK_STATE_COMPLETED')], true))).toEqual([
      false,
      true,
    ]);
  });

  it('a message has no final mark, and 1.0 has none at all', () => {
    expect(dialect('0.3').eventWriter({}).write(message, true)).toEqual([
      { kind: 'message', messageId: 'm', role: 'agent', parts: [{ kind: 'text', text: 'hi' }] },
    ]);
    const events = [task('TASK_STATE_WORKING'), status('TASK_STATE_COMPLETED')];
    expect(written('1.0', events, true)).toEqual(events);
  });
});

describe('a stream in 0.3', () => {
  it('has bare events with a kind', () => {
    const wires = written('0.3', [task('TASK_STATE_WORKING'), chunk('a', { append: true, lastChunk: false })], false);
    expect(wires[0]).toEqual({ kind: 'task', id: 't', contextId: 'c', status: { state: 'working' } });
    expect(wires[1]).toEqual({
      kind: 'artifact-update',
      taskId: 't',
      contextId: 'c',
      artifact: { artifactId: 'a', parts: [{ kind: 'text', text: 'x' }] },
      append: true,
      lastChunk: false,
    });
  });

  it('has named events in the proto shape', () => {
    const wires = written(
      '0.3-proto',
      [task('TASK_STATE_WORKING'), chunk('a', { append: true }), status('TASK_STATE_FAILED')],
      true,
    );
    expect(wires.map((wire) => Object.keys(wire)[0])).toEqual(['task', 'artifactUpdate', 'statusUpdate']);
    expect(wires[1]).toMatchObject({ artifactUpdate: { append: true } });
  });
});

describe('a stream in 0.1', () => {
  it('has no task event, and artifacts with numbers and their flags inside', () => {
    const wires = written(
      '0.1',
      [
        task('TASK_STATE_SUBMITTED'),
        chunk('b', { append: false }),
        chunk('a', { lastChunk: true }),
        chunk('b', { append: true, lastChunk: true }),
        status('TASK_STATE_REJECTED'),
      ],
      true,
    );
    const parts = [{ type: 'text', text: 'x' }];
    expect(wires).toEqual([
      { id: 't', status: { state: 'submitted' }, final: false },
      { id: 't', artifact: { parts, index: 0, append: false } },
      { id: 't', artifact: { parts, index: 1, lastChunk: true } },
      { id: 't', artifact: { parts, index: 0, append: true, lastChunk: true } },
      {
        id: 't',
        status: { state: 'failed' },
        final: true,
        metadata: { 'https://parley.dev/a2a/state': 'TASK_STATE_REJECTED' },
      },
    ]);
  });

  it('shows a direct message as a completed task', () => {
    const said = { role: 'agent', parts: [{ type: 'text', text: 'hi' }] };
    expect(written('0.1', [message], true)).toEqual([
      { id: 't', status: { state: 'completed', message: said }, final: true },
    ]);
    expect(dialect('0.1').writeResult('SendMessage', message, { taskId: 'mine' })).toEqual({
      id: 'mine',
      status: { state: 'completed', message: said },
    });
  });

  it('is read with the flags moved to the event and the numbers as ids', () => {
    const reader = dialect('0.1').eventReader({ taskId: 't', contextId: 's' });
    const parts = [{ type: 'text', text: 'x' }];
    expect(reader.read({ id: 't', artifact: { parts, index: 2, append: true, lastChunk: true } })).toEqual([
      {
        artifactUpdate: {
          taskId: 't',
          contextId: 's',
          artifact: { artifactId: 'idx-2', parts: [{ text: 'x' }] },
          append: true,
          lastChunk: true,
        },
      },
    ]);
    expect(reader.ended).toBe(false);
    expect(reader.read({ id: 't', status: { state: 'input-required' }, final: true })).toEqual([
      { statusUpdate: { taskId: 't', contextId: 's', status: { state: 'TASK_STATE_INPUT_REQUIRED' } } },
    ]);
    expect(reader.ended).toBe(true);
  });
});

describe('reading a stream', () => {
  const update = { kind: 'status-update', taskId: 't', contextId: 'c', status: { state: 'working' }, final: false };

  it.each(['0.3', '0.2', '0.3-proto', '1.0'] as const)(
    'S-41 G-28: %s: a task is synthesised if the stream does not begin with one',
    (id) => {
      const reader = dialect(id).eventReader({});
      expect(reader.read(update)).toEqual([task('TASK_STATE_WORKING'), status('TASK_STATE_WORKING')]);
      expect(reader.read(update)).toEqual([status('TASK_STATE_WORKING')]);
    },
  );

  it('no task is synthesised if the task is known or a message arrived', () => {
    expect(dialect('0.3').eventReader({ taskId: 't' }).read(update)).toHaveLength(1);
    expect(
      dialect('0.3')
        .eventReader({})
        .read(JSON.parse(JSON.stringify(message))),
    ).toEqual([message]);
  });

  it('ends with `final` in any state', () => {
    const reader = dialect('0.3').eventReader({ taskId: 't' });
    reader.read(update);
    expect(reader.ended).toBe(false);
    reader.read({ ...update, status: { state: 'input-required' }, final: true });
    expect(reader.ended).toBe(true);
  });

  it.each<[string, JsonValue]>([
    ['wrapped', { statusUpdate: { taskId: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' } } }],
    ['in snake case', { status_update: { task_id: 't', context_id: 'c', status: { state: 2 } } }],
    ['in a JSON-RPC envelope', { jsonrpc: '2.0', id: 1, result: update }],
    ['without a kind', { taskId: 't', contextId: 'c', status: { state: 'working' }, final: false }],
  ])('accepts an event %s', (_what, wire) => {
    for (const id of ['0.3', '0.3-proto', '1.0'] as const) {
      expect(dialect(id).eventReader({ taskId: 't' }).read(wire)).toEqual([status('TASK_STATE_WORKING')]);
    }
  });
});

describe('webhooks', () => {
  const snapshot: Task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_COMPLETED' } };
  const done = status('TASK_STATE_COMPLETED');

  it('S-54: bodies have the form of the version that registered the webhook', () => {
    const write = (id: Id) => dialect(id).writeNotification(done, snapshot);
    expect(write('1.0')).toEqual({ body: done, contentType: 'application/a2a+json' });
    const old = { kind: 'task', id: 't', contextId: 'c', status: { state: 'completed' } };
    for (const id of ['0.3', '0.3-proto', '0.2'] as const) {
      expect(write(id)).toEqual({ body: old, contentType: 'application/json' });
    }
    expect(write('0.1')).toEqual({
      body: { id: 't', sessionId: 'c', status: { state: 'completed' } },
      contentType: 'application/json',
    });
  });

  it.each<[string, JsonValue, StreamResponse]>([
    ['StreamResponse', done as JsonValue, done],
    [
      'a bare event',
      { kind: 'status-update', taskId: 't', contextId: 'c', status: { state: 'completed' }, final: true },
      done,
    ],
    [
      'a task with its kind',
      { kind: 'task', id: 't', contextId: 'c', status: { state: 'completed' } },
      { task: snapshot },
    ],
    ['a task without its kind', { id: 't', contextId: 'c', status: { state: 'completed' } }, { task: snapshot }],
    ['a wrapped task', { task: { id: 't', contextId: 'c', status: { state: 'completed' } } }, { task: snapshot }],
    [
      'a JSON-RPC response',
      { jsonrpc: '2.0', id: 1, result: { kind: 'task', id: 't', contextId: 'c', status: { state: 'completed' } } },
      { task: snapshot },
    ],
    ['a JSON-RPC notification', { jsonrpc: '2.0', method: 'x', params: done as JsonObject }, done],
  ])('C-11: %s is read by every dialect from 0.2 on', (_what, body, event) => {
    for (const id of ['1.0', '0.3', '0.3-proto', '0.2'] as const) {
      expect(dialect(id).readNotification(body)).toEqual([event]);
    }
  });

  it('the bodies that agents of 0.1 post are read', () => {
    const old = dialect('0.1');
    expect(old.readNotification({ id: 't', sessionId: 'c', status: { state: 'completed' } })).toEqual([
      { task: snapshot },
    ]);
    expect(
      old.readNotification({ eventType: 'x', taskId: 't', contextId: 'c', status: { state: 'completed' } }),
    ).toMatchObject([{ statusUpdate: { taskId: 't', status: { state: 'TASK_STATE_COMPLETED' } } }]);
  });
});

it('C-11: a task of 0.1 is read even if its agent’s version is unknown', () => {
  const wire = {
    id: 't',
    sessionId: 'c',
    status: { state: 'completed', message: { role: 'agent', parts: [{ type: 'text', text: 'x' }] } },
    artifacts: [{ index: 0, parts: [{ type: 'text', text: 'x' }] }],
  };
  const [first] = dialect('0.1').readNotification(wire);
  for (const id of ['1.0', '0.3', '0.2'] as const) expect(dialect(id).readNotification(wire)).toEqual([first]);
});
