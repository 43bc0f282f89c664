import { expect, test } from 'vitest';
import type { StreamResponse, Task } from '../../../protocol/a2a/model.js';
import { Cancellation } from '../../caller.js';
import type { AgentAnswer } from '../gateway.js';
import { waitForAgent } from './wait-for-agent.js';

const task = (state: Task['status']['state']): Task => ({ id: 't', contextId: 'c', status: { state } });

/** A stream whose events the test pushes. */
function stream(): { answer: AgentAnswer; say(event: StreamResponse): void; end(): void; left: () => boolean } {
  const events: (StreamResponse | undefined)[] = [];
  let wake = (): void => {};
  let left = false;
  const push = (event: StreamResponse | undefined): void => {
    events.push(event);
    wake();
  };
  async function* read() {
    try {
      for (;;) {
        while (events.length === 0)
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        const event = events.shift();
        if (!event) return;
        yield { value: event };
      }
    } finally {
      left = true;
    }
  }
  return { answer: { kind: 'stream', events: read() }, say: push, end: () => push(undefined), left: () => left };
}

const options = (cancellation = new Cancellation(), before?: Task['status']) => {
  const news: StreamResponse[] = [];
  return { cancellation, before, news, onEvent: (event: StreamResponse) => news.push(event) };
};

test('returns the task at its end, and reports each event', async () => {
  const { answer, say, end } = stream();
  const ear = options();
  say({ task: task('TASK_STATE_WORKING') });
  say({ statusUpdate: { taskId: 't', contextId: 'c', status: { state: 'TASK_STATE_COMPLETED' } } });
  end();
  expect(await waitForAgent(Promise.resolve(answer), ear)).toMatchObject({
    kind: 'task',
    task: { id: 't', status: { state: 'TASK_STATE_COMPLETED' } },
  });
  expect(ear.news).toHaveLength(2);
});

test('returns at a new authorization request, and ignores the previous one (S-63)', async () => {
  const { answer, say, left } = stream();
  const before = task('TASK_STATE_AUTH_REQUIRED').status;
  say({ task: task('TASK_STATE_AUTH_REQUIRED') });
  say({ statusUpdate: { taskId: 't', contextId: 'c', status: { ...before, timestamp: '2026-01-01T00:00:00Z' } } });
  const heard = await waitForAgent(Promise.resolve(answer), options(undefined, before));
  expect(heard).toMatchObject({ kind: 'task', task: { status: { timestamp: '2026-01-01T00:00:00Z' } } });
  expect(left()).toBe(true);
});

test('returns at once when the client leaves, and reports the task once it is known', async () => {
  const { answer, say, left } = stream();
  const cancellation = new Cancellation();
  let open = (_: AgentAnswer): void => {};
  const opening = new Promise<AgentAnswer>((resolve) => {
    open = resolve;
  });
  const hearingIt = waitForAgent(opening, options(cancellation));
  cancellation.cancel();
  const heard = await hearingIt;
  if (heard.kind !== 'left') throw new Error('expected the result "left"');
  open(answer);
  say({ task: task('TASK_STATE_WORKING') });
  expect(await heard.task).toMatchObject({ id: 't' });
  await new Promise((resolve) => setImmediate(resolve));
  expect(left()).toBe(true);
});

test('reports no task if the client leaves before a task exists', async () => {
  const cancellation = new Cancellation();
  cancellation.cancel();
  const heard = await waitForAgent(Promise.reject(new Error('away')), options(cancellation));
  expect(heard.kind === 'left' && (await heard.task)).toBeUndefined();
});
