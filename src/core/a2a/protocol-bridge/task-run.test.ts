import { expect, test } from 'vitest';
import type { StreamResponse, Task } from '../../../protocol/a2a/model.js';
import { TaskRun } from './task-run.js';
import { progress, status } from './tool-status.js';

const BEGUN: Task = {
  id: 't',
  contextId: 'c',
  status: { state: 'TASK_STATE_WORKING' },
  history: [{ messageId: 'mine', role: 'ROLE_USER', parts: [{ text: 'go' }] }],
};

async function readAll(events: AsyncIterable<{ readonly value: StreamResponse }>): Promise<StreamResponse[]> {
  const read: StreamResponse[] = [];
  for await (const { value } of events) read.push(value);
  return read;
}

const reported = ({ statusUpdate }: StreamResponse): unknown => statusUpdate?.status.message?.parts[0]?.['text'];

test('a listener gets every event of the run', async () => {
  const run = new TaskRun(BEGUN);
  const reading = readAll(run.listen(true));
  for (let i = 0; i < 3; i++) run.emit(progress(run.task, { progress: i, message: `step ${i}` }));
  run.emit(status(run.task, 'TASK_STATE_COMPLETED'));
  const [first, ...events] = await reading;
  expect(first).toEqual({ task: BEGUN });
  expect(events.map(reported)).toEqual(['step 0', 'step 1', 'step 2', undefined]);
  expect(run.task.history).toHaveLength(4);
});

test('endless progress reports do not fill the memory; a slow listener gets the current task instead', async () => {
  const run = new TaskRun(BEGUN);
  const slow = run.listen(true);
  for (let i = 0; i < 1_000; i++) run.emit(progress(run.task, { progress: i, message: `${i} ${'x'.repeat(10_000)}` }));
  expect(JSON.stringify(run.task).length).toBeLessThan(1_500_000);
  expect(run.task.history?.[0]?.messageId).toBe('mine');
  expect(reported({ statusUpdate: { taskId: 't', contextId: 'c', status: run.task.status } })).toMatch(/^999 /);
  run.emit(status(run.task, 'TASK_STATE_COMPLETED'));
  const read = await readAll(slow);
  expect(read).toEqual([{ task: run.task }]);
});

test('many short messages are limited in number', () => {
  const run = new TaskRun(BEGUN);
  for (let i = 0; i < 5_000; i++) run.emit(progress(run.task, { progress: i }));
  expect(run.task.history!.length).toBeLessThanOrEqual(1_001);
});
