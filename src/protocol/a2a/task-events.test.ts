import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Artifact, Message, StreamResponse, Task } from './model.js';
import { applyEvent, diff } from './task-events.js';

const said = (messageId: string): Message => ({ messageId, role: 'ROLE_AGENT', parts: [{ text: messageId }] });
const start: Task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' }, history: [said('m1')] };
const ids = { taskId: 't', contextId: 'c' };
const chunk = (text: string, more: object = {}): StreamResponse => ({
  artifactUpdate: { ...ids, artifact: { artifactId: 'a', parts: [{ text }] }, ...more },
});

describe('G-23: folding events into a task', () => {
  it('S1-49: appends chunks marked as such and replaces the artifact otherwise', () => {
    let task = applyEvent(start, chunk('1'));
    task = applyEvent(task, chunk('2', { append: true }));
    task = applyEvent(task, chunk('3', { append: true, lastChunk: true }));
    expect(task.artifacts).toEqual([{ artifactId: 'a', parts: [{ text: '1' }, { text: '2' }, { text: '3' }] }]);
    expect(applyEvent(task, chunk('4', { append: false })).artifacts).toEqual([
      { artifactId: 'a', parts: [{ text: '4' }] },
    ]);
    expect(start.artifacts).toBeUndefined();
  });

  it('treats a chunk that appends to a missing artifact as its first chunk', () => {
    expect(applyEvent(start, chunk('1', { append: true })).artifacts).toHaveLength(1);
  });

  it('moves the message of a replaced status to the history', () => {
    const asked = applyEvent(start, {
      statusUpdate: { ...ids, status: { state: 'TASK_STATE_INPUT_REQUIRED', message: said('q') }, metadata: { a: 1 } },
    });
    expect(asked.history?.map(({ messageId }) => messageId)).toEqual(['m1']);
    const done = applyEvent(asked, {
      statusUpdate: { ...ids, status: { state: 'TASK_STATE_COMPLETED' }, metadata: { b: 2 } },
    });
    expect(done.history?.map(({ messageId }) => messageId)).toEqual(['m1', 'q']);
    expect(done.metadata).toEqual({ a: 1, b: 2 });
  });

  it('adds a status message to the history at once if the agent does so', () => {
    const status = (message: Message): Task['status'] => ({ state: 'TASK_STATE_WORKING', message });
    const eager: Task = { ...start, status: status(said('started')), history: [said('m1'), said('started')] };
    const done = applyEvent(eager, { statusUpdate: { ...ids, status: status(said('done')) } });
    expect(done.history?.map(({ messageId }) => messageId)).toEqual(['m1', 'started', 'done']);
  });

  it('a shortened snapshot does not remove members from the task', () => {
    const before = applyEvent({ ...start, history: [said('m1'), said('m2')] }, chunk('1'));
    const snapshot: Task = { id: 't', status: { state: 'TASK_STATE_COMPLETED' }, history: [said('m2'), said('m3')] };
    const after = applyEvent(before, { task: snapshot });
    expect(after.history?.map(({ messageId }) => messageId)).toEqual(['m1', 'm2', 'm3']);
    expect(after).toMatchObject({ contextId: 'c', artifacts: before.artifacts, status: snapshot.status });
  });

  it('creates the task from any first event except a message', () => {
    expect(applyEvent(undefined, { statusUpdate: { ...ids, status: start.status } })).toEqual({
      id: 't',
      contextId: 'c',
      status: start.status,
    });
    expect(() => applyEvent(undefined, { message: said('m') })).toThrow(/cannot create a task/);
    expect(applyEvent(start, { message: said('m2') }).history).toHaveLength(2);
  });

  it('G-70: keeps the newest messages of the history and refuses artifacts and parts beyond the limits', () => {
    const task = applyEvent(start, { message: said('m2') }, { history: 1 });
    expect(task.history).toEqual([said('m2')]);
    const once = applyEvent(start, chunk('1'), { artifacts: 1, parts: 1 });
    expect(() => applyEvent(once, chunk('2', { append: true }), { parts: 1 })).toThrow(/2 parts; the limit is 1/);
    const other: StreamResponse = { artifactUpdate: { ...ids, artifact: { artifactId: 'b', parts: [] } } };
    expect(() => applyEvent(once, other, { artifacts: 1 })).toThrow(/2 artifacts/);
  });
});

describe('G-40: the events between two snapshots', () => {
  it('is empty for equal snapshots', () => {
    expect(diff(start, structuredClone(start))).toEqual([]);
    expect(diff(undefined, start)).toEqual([{ task: start }]);
  });

  it('lists the artifacts, then the status', () => {
    const before = applyEvent(start, chunk('1'));
    const after: Task = {
      ...applyEvent(before, chunk('2', { append: true })),
      status: { state: 'TASK_STATE_COMPLETED', message: said('bye') },
    };
    expect(diff(before, after)).toEqual([
      {
        artifactUpdate: {
          ...ids,
          artifact: { artifactId: 'a', parts: [{ text: '2' }] },
          append: true,
          lastChunk: true,
        },
      },
      { statusUpdate: { ...ids, status: after.status } },
    ]);
  });

  it('the events turn any task into any later one', () => {
    const artifact: fc.Arbitrary<Artifact> = fc.record({
      artifactId: fc.constantFrom('a', 'b', 'c'),
      parts: fc.array(fc.record({ text: fc.constantFrom('x', 'y') }), { maxLength: 3 }),
      name: fc.constantFrom('n', 'm'),
    });
    const artifacts = fc.uniqueArray(artifact, { selector: ({ artifactId }) => artifactId, maxLength: 3 });
    const state = fc.constantFrom('TASK_STATE_WORKING' as const, 'TASK_STATE_COMPLETED' as const);
    fc.assert(
      fc.property(artifacts, artifacts, state, (first, second, reached) => {
        const before: Task = { ...start, artifacts: first };
        // An artifact that was present stays present: agents do not remove artifacts.
        const kept = first.filter(({ artifactId }) => !second.some((each) => each.artifactId === artifactId));
        const after: Task = { ...start, status: { state: reached }, artifacts: [...kept, ...second] };
        const events = diff(before, after);
        const folded = events.reduce<Task>((task, event) => applyEvent(task, event), before);
        const sorted = (task: Task) =>
          [...(task.artifacts ?? [])].sort((a, b) => (a.artifactId < b.artifactId ? -1 : 1));
        expect(sorted(folded)).toEqual(sorted(after));
        expect(folded.status).toEqual(after.status);
      }),
    );
  });
});
