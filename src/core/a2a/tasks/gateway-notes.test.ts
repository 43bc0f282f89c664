import { expect, test } from 'vitest';
import type { Message, StreamResponse, Task } from '../../../protocol/a2a/model.js';
import { gatewayNote, noteIn, outwardAnswer, outwardEvent, outwardTask } from './gateway-notes.js';

const said = (metadata?: Message['metadata']): Message => ({
  messageId: 'm',
  role: 'ROLE_AGENT',
  parts: [{ text: 'Which?' }],
  ...(metadata && { metadata }),
});
const task: Task = {
  id: 't',
  contextId: 'c',
  status: { state: 'TASK_STATE_INPUT_REQUIRED', message: said(gatewayNote('sealed')) },
  history: [said({ ...gatewayNote('old'), kept: 1 })],
  metadata: { ...gatewayNote('replica'), progress: 2 },
};
const shown = {
  id: 't',
  contextId: 'c',
  status: { state: 'TASK_STATE_INPUT_REQUIRED', message: said() },
  history: [said({ kept: 1 })],
  metadata: { progress: 2 },
};

test('the gateway reads its notes and removes them from answers', () => {
  expect(noteIn(task.metadata)).toBe('replica');
  expect(outwardTask(task)).toEqual(shown);
  expect(outwardEvent({ task })).toEqual({ task: shown });
  const update = { taskId: 't', contextId: 'c', status: task.status, metadata: gatewayNote('replica') };
  expect(outwardEvent({ statusUpdate: update })).toEqual({
    statusUpdate: { taskId: 't', contextId: 'c', status: shown.status },
  });
});

test.each([
  [task, shown],
  [{ task }, { task: shown }],
  [
    { tasks: [task], pageSize: 1 },
    { tasks: [shown], pageSize: 1 },
  ],
])('removes notes from every kind of answer', (value, expected) => {
  expect(outwardAnswer({ kind: 'result', result: { value: value as never } })).toEqual({
    kind: 'result',
    result: { value: expected },
  });
});

test('an answer without notes passes unchanged, with its text', () => {
  const plain = { ...shown, metadata: { progress: 2 } } as unknown as Task;
  expect(outwardTask(plain)).toBe(plain);
  const event: StreamResponse = { statusUpdate: { taskId: 't', contextId: 'c', status: plain.status } };
  expect(outwardEvent(event)).toBe(event);
  const answer = { kind: 'result', result: { value: { task: plain } as never, text: '{}' } } as const;
  expect(outwardAnswer(answer)).toBe(answer);
});
