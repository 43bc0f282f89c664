import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Column, RunningAgent } from '../../../test/fixtures/a2a/agent.js';
import { COLUMNS, startAgent } from '../../../test/fixtures/a2a/agents.js';
import { all, CALLER, exchange, Stage, saying } from '../../../test/support/remote-agents.js';
import type { Agent } from '../../core/a2a/agent.js';
import { sleep } from '../../core/timing.js';
import { isTerminal, type StreamResponse, type Task } from '../../protocol/a2a/model.js';

const textsOf = (task: Task | undefined): string[] =>
  (task?.artifacts ?? []).flatMap(({ parts }) => parts.map(({ text }) => text ?? ''));
const statesOf = (events: readonly StreamResponse[]): string[] =>
  events.flatMap(({ task, statusUpdate }) => {
    const state = task?.status.state ?? statusUpdate?.status.state;
    return state === undefined ? [] : [state];
  });
const piecesOf = (events: readonly StreamResponse[]): string =>
  events.map(({ artifactUpdate }) => artifactUpdate?.artifact.parts.map(({ text }) => text).join('') ?? '').join('');

/** In version 0.1 the client chooses the id of a task. */
const named = ({ version }: Column): { taskId?: string } => (version === '0.1' ? { taskId: crypto.randomUUID() } : {});

describe.each(COLUMNS.filter(({ binding }) => binding !== 'grpc').map((column) => [column.name, column] as const))(
  'an agent of %s',
  (_, column) => {
    const stage = new Stage();
    let peer: RunningAgent;
    let agent: Agent;

    beforeAll(async () => {
      peer = await startAgent(column);
      stage.later(() => peer.close());
      agent = stage.agent(peer.url);
    });
    afterAll(() => stage.close());

    it('C-3 C-6 is found, and its card is read', async () => {
      const { card, can } = await agent.facts();
      expect(card.name).toBe(`fixture ${column.name}`);
      expect(card.skills.map(({ id }) => id)).toEqual(['echo', 'story']);
      expect(can).toEqual({ stream: column.streaming, push: column.push, subscribe: column.streaming });
    });

    it('answers a message with a task', async () => {
      const { value } = await agent.send(CALLER, saying('echo good morning', named(column)), exchange());
      expect(value.task?.status.state).toBe('TASK_STATE_COMPLETED');
      expect(textsOf(value.task)).toEqual(['echo good morning']);
      const again = await agent.getTask(CALLER, { id: value.task!.id }, exchange());
      expect(again.value.status.state).toBe('TASK_STATE_COMPLETED');
    });

    if (column.version !== '0.1')
      it('answers a message directly', async () => {
        const { value } = await agent.send(CALLER, saying('hello you'), exchange());
        expect(value.message?.role).toBe('ROLE_AGENT');
      });

    it('C-9 reports an unknown task', async () => {
      await expect(agent.getTask(CALLER, { id: 'nothing' }, exchange())).rejects.toMatchObject({
        reason: 'task_not_found',
      });
    });

    it('continues a task that waits for input', async () => {
      const first = (await agent.send(CALLER, saying('ask me', named(column)), exchange())).value.task!;
      expect(first.status.state).toBe('TASK_STATE_INPUT_REQUIRED');
      const more = { taskId: first.id, ...(first.contextId !== undefined && { contextId: first.contextId }) };
      const second = (await agent.send(CALLER, saying('blue', more), exchange())).value.task!;
      expect(second.id).toBe(first.id);
      expect(second.status.state).toBe('TASK_STATE_COMPLETED');
    });

    if (column.streaming)
      it('C-10 streams', async () => {
        const events = await all(await agent.stream(CALLER, saying('stream it', named(column)), exchange()));
        expect(piecesOf(events)).toBe('one two three');
        expect(statesOf(events).at(-1)).toBe('TASK_STATE_COMPLETED');
        const appended = events.flatMap(({ artifactUpdate }) =>
          artifactUpdate ? [artifactUpdate.append === true] : [],
        );
        if (column.name !== 'three-rest') expect(appended).toEqual([false, true, true]);
      });

    if (column.streaming)
      it('C-14 a closed stream can be followed again, and only tasks/cancel cancels the task', async () => {
        let id = '';
        for await (const { value } of await agent.stream(CALLER, saying('wait long', named(column)), exchange())) {
          id = value.task?.id ?? value.statusUpdate?.taskId ?? '';
          if (value.statusUpdate) break;
        }
        const running = (await agent.getTask(CALLER, { id }, exchange())).value;
        expect(isTerminal(running.status.state)).toBe(false);
        const following = agent.subscribe(CALLER, { id }, exchange()).then(all);
        await sleep(100);
        const cancelled = (await agent.cancelTask(CALLER, { id }, exchange())).value;
        expect(cancelled.status.state).toBe('TASK_STATE_CANCELED');
        expect(statesOf(await following).at(-1)).toBe('TASK_STATE_CANCELED');
      });

    if (column.push)
      it('sets a callback', async () => {
        const task = (await agent.send(CALLER, saying('ask me', named(column)), exchange())).value.task!;
        const config = { id: 'ours', taskId: task.id, url: 'http://127.0.0.1:9/push', token: 'secret' };
        await agent.setCallback(CALLER, config, exchange());
        const sent = peer.seen.findLast(({ body }) => JSON.stringify(body ?? '').includes('127.0.0.1:9/push'));
        expect(sent).toBeDefined();
      });

    if (column.tenant !== undefined)
      it('C-2 gets its tenant', async () => {
        await agent.send(CALLER, saying('echo tenant'), exchange());
        const { what, body } = peer.seen.findLast(({ body: sent }) =>
          JSON.stringify(sent ?? '').includes('echo tenant'),
        )!;
        expect(`${what} ${JSON.stringify(body)}`).toContain('acme');
      });

    it('has its version detected from its card alone', () => {
      expect(peer.seen.find(({ what }) => what.startsWith('POST'))?.headers['a2a-version']).toBe(
        { '1.0': '1.0', '0.3': '0.3', '0.2': undefined, '0.1': undefined }[column.version],
      );
    });
  },
);
