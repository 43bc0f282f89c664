/** Messages and their answers: tasks, direct replies, turns, states. */

import { requestWith } from '../../fixtures/a2a/agent.js';
import { release } from '../../fixtures/a2a/behaviours.js';
import type { Row } from '../../fixtures/a2a/client.js';
import { ROWS } from '../../fixtures/a2a/clients.js';
import { SETTLED, textOf } from '../../fixtures/a2a/views.js';
import { assert, type Case, finished, mark, say, sleep, taskOf, until } from '../case.js';

export const MESSAGES: readonly Case[] = [
  {
    name: 'a blocking send returns the finished task',
    ids: ['S-20', 'S-23', 'S-75', 'G-1', 'G-26'],
    run: async ({ client, agent, row }) => {
      const text = `echo ${mark()}`;
      const task = taskOf(await client.send(say(text)));
      assert.equal(task.state, 'completed');
      assert.equal(textOf(task.artifacts[0]?.parts), text);
      assert.equal(agent.heard.filter((one) => textOf(one.parts) === text).length, 1, 'the agent got the message once');
      if (row.version !== '0.1') assert.ok(task.contextId, 'the task names its context');
      const again = await client.get(task.id);
      assert.equal(again.id, task.id);
      assert.equal(again.state, 'completed');
    },
  },
  {
    name: 'a blocking send waits for the end of the task',
    ids: ['S-23'],
    run: async ({ client }) => {
      const task = taskOf(await client.send(say(`slow 250 ${mark()}`)));
      assert.equal(task.state, 'completed');
      assert.equal(task.artifacts.length, 1);
    },
  },
  {
    name: 'returnImmediately returns as soon as the task exists',
    ids: ['S-23'],
    applies: (row) => row.version !== '0.1',
    run: async ({ client }) => {
      const word = mark();
      const task = taskOf(await client.send(say(`hold ${word}`, { returnImmediately: true })));
      assert.ok(!SETTLED.has(task.state), `the task is ${task.state} already`);
      release(word);
      const end = await finished(client, task.id);
      assert.equal(end.state, 'completed');
      assert.equal(end.artifacts.length, 1);
    },
  },
  {
    name: 'messageId reaches the agent unchanged',
    ids: ['S-30', 'G-26'],
    applies: (row, column) => row.version !== '0.1' && column.version !== '0.1',
    run: async ({ client, agent }) => {
      const messageId = `message-${mark()}`;
      await client.send(say(`echo ${mark()}`, { messageId }));
      assert.ok(agent.heard.some((one) => one.messageId === messageId));
    },
  },
  {
    name: 'the context of the client is kept',
    ids: ['S-25'],
    run: async ({ client, agent, column }) => {
      const [text, contextId] = [`echo ${mark()}`, `context-${mark()}`];
      const task = taskOf(await client.send(say(text, { contextId })));
      assert.equal(task.contextId, contextId);
      const heard = agent.heard.find((one) => textOf(one.parts) === text);
      if (column.version !== '0.1') assert.equal(heard?.contextId, contextId);
      const next = taskOf(await client.send(say(`echo ${mark()}`, { contextId })));
      assert.equal(next.contextId, contextId);
      assert.notEqual(next.id, task.id);
    },
  },
  {
    name: 'task ids come from the agent',
    ids: ['S-24', 'C-13', 'G-21'],
    applies: (row, column) => row.version !== '0.1' && column.version !== '0.1',
    run: async ({ client, column }) => {
      const task = taskOf(await client.send(say(`show ${mark()}`)));
      const seen = task.artifacts[0]?.parts[0]?.data as { taskId?: string; contextId?: string };
      // An agent of 0.2 or 0.3 adds the id of the new task to the message.
      if (seen.taskId !== undefined && column.version !== '0.2') assert.equal(seen.taskId, task.id);
      if (seen.contextId !== undefined) assert.equal(seen.contextId, task.contextId);
    },
  },
  {
    name: 'a 0.1 client keeps the task id that it chose',
    ids: ['G-21'],
    applies: (row) => row.version === '0.1',
    run: async ({ client }) => {
      const taskId = `own-${mark()}`;
      const asked = taskOf(await client.send(say('ask', { taskId })));
      assert.deepEqual([asked.id, asked.state], [taskId, 'input-required']);
      const task = taskOf(await client.send(say('blue', { taskId })));
      assert.deepEqual([task.id, task.state], [taskId, 'completed']);
      assert.equal((await client.get(taskId)).id, taskId);
    },
  },
  {
    name: 'a direct reply',
    ids: ['S-20'],
    run: async ({ client, row, column }) => {
      const text = `hello ${mark()}`;
      const { message, task } = await client.send(say(text));
      const parts = message?.parts ?? task?.message?.parts ?? task?.artifacts[0]?.parts;
      assert.equal(textOf(parts), `hello back: ${text}`);
      assert.equal(message !== undefined, row.version !== '0.1' && column.version !== '0.1');
      if (task) assert.equal(task.state, 'completed');
    },
  },
  {
    name: 'a question of the agent, and the answer in the same task',
    ids: ['S-20', 'S-25', 'G-5'],
    run: async ({ client }) => {
      const asked = taskOf(await client.send(say(`ask ${mark()}`)));
      assert.equal(asked.state, 'input-required');
      assert.equal(textOf(asked.message?.parts), 'Which colour?');
      // The message names only the task; the gateway infers the context.
      const more = taskOf(await client.send(say('more please', { taskId: asked.id })));
      assert.deepEqual([more.id, more.state], [asked.id, 'input-required']);
      assert.equal(textOf(more.message?.parts), 'And which size?');
      const done = taskOf(await client.send(say('blue', { taskId: asked.id })));
      assert.deepEqual([done.id, done.state], [asked.id, 'completed']);
      assert.equal(textOf(done.artifacts[0]?.parts), 'you said: blue');
      assert.equal(done.contextId, asked.contextId);
    },
  },
  {
    name: 'a task that waits for a sign-in',
    ids: ['S-63', 'G-62', 'C-12'],
    run: async ({ client, row, column }) => {
      const waiting = taskOf(await client.send(say(`login ${mark()}`)));
      assert.equal(
        waiting.state,
        row.version === '0.1' || column.version === '0.1' ? 'input-required' : 'auth-required',
      );
      assert.equal(textOf(waiting.message?.parts), 'Please sign in.');
      const done = taskOf(await client.send(say('signed in', { taskId: waiting.id })));
      assert.equal(done.state, 'completed');
    },
  },
  {
    name: 'rejected and failed tasks',
    ids: ['S-20'],
    run: async ({ client, row, column }) => {
      const rejected = taskOf(await client.send(say(`reject ${mark()}`)));
      assert.equal(rejected.state, row.version === '0.1' || column.version === '0.1' ? 'failed' : 'rejected');
      assert.equal(textOf(rejected.message?.parts), 'I would rather not.');
      const failed = taskOf(await client.send(say(`fail ${mark()}`)));
      assert.equal(failed.state, 'failed');
      assert.equal(textOf(failed.message?.parts), 'It broke.');
    },
  },
  {
    name: 'metadata of the request and of the message',
    ids: ['S-31', 'G-26'],
    run: async ({ client, agent, row, column }) => {
      const [text, ticket] = [`echo ${mark()}`, mark()];
      const messageMetadata = { colour: 'blue', deep: { list: [1, 2] } };
      await client.send(say(text, { metadata: { ticket }, messageMetadata }));
      assert.ok(requestWith(agent, ticket), 'the metadata of the request did not reach the agent');
      if (row.version === '0.1' || column.version === '0.1') return;
      const heard = agent.heard.find((one) => textOf(one.parts) === text);
      assert.deepEqual([heard?.metadata?.['colour'], heard?.metadata?.['deep']], ['blue', { list: [1, 2] }]);
    },
  },
  {
    name: 'referenced tasks of a message',
    ids: ['G-21'],
    applies: (row, column) =>
      (row.version !== '0.3' || row.binding === 'jsonrpc') &&
      row.version !== '0.1' &&
      column.version !== '0.1' &&
      (column.version !== '0.3' || column.binding === 'jsonrpc' || column.variant === 'schema'),
    run: async ({ client, agent }) => {
      const first = taskOf(await client.send(say(`echo ${mark()}`)));
      const text = `echo ${mark()}`;
      await client.send(say(text, { referenceTaskIds: [first.id] }));
      const heard = agent.heard.find((one) => textOf(one.parts) === text);
      assert.deepEqual(heard?.referenceTaskIds, [first.id]);
    },
  },
  {
    name: 'the history has the requested length at most',
    ids: ['S-29'],
    run: async ({ client, row }) => {
      const task = taskOf(await client.send(say(`steps ${mark()}`)));
      const one = await client.get(task.id, 1);
      assert.ok((one.history?.length ?? 0) <= 1, `asked for 1, got ${one.history?.length}`);
      const two = await client.get(task.id, 2);
      assert.equal(two.history?.length, 2, `asked for 2, got ${two.history?.length}`);
      assert.deepEqual(two.history?.at(-1), one.history?.at(-1), 'the newest is last');
      // In the 0.3 proto, a length of 0 means the whole history.
      if (row.version === '0.3' && row.binding !== 'jsonrpc') return;
      const none = await client.get(task.id, 0);
      assert.equal(none.history?.length ?? 0, 0, `asked for none, got ${none.history?.length}`);
    },
  },
  {
    name: 'a task is the same in all bindings',
    ids: ['S-75', 'G-21'],
    run: async ({ client, row, connect }) => {
      const task = taskOf(await client.send(say(`echo ${mark()}`)));
      // The answer to `tasks/get` without a version has the format of the client that created the task, because 0.1 and
      // 0.3 clients send the same request.
      const unmistakable = ({ version, binding }: Row): boolean => version === '1.0' || binding !== 'jsonrpc';
      const readers = ROWS.filter((one) => one.version !== '0.1' && (row.version !== '0.1' || unmistakable(one)));
      for (const other of readers.filter((one) => one.name !== row.name)) {
        const reader = await connect({}, other);
        const read = await reader.get(task.id);
        assert.deepEqual([read.id, read.state], [task.id, 'completed'], `read by ${other.name}`);
        assert.equal(textOf(read.artifacts[0]?.parts), textOf(task.artifacts[0]?.parts));
        reader.close();
      }
    },
  },
  {
    name: 'a client that leaves does not end its task',
    ids: ['G-25'],
    run: async ({ client }) => {
      let id: string | undefined;
      for await (const event of client.stream(say(`slow 300 ${mark()}`))) {
        id = event.kind === 'task' ? event.task.id : event.kind === 'message' ? undefined : event.taskId;
        break;
      }
      await sleep(50);
      const end = await until('the end', async () => {
        const task = await client.get(id!);
        return SETTLED.has(task.state) ? task : undefined;
      });
      assert.equal(end.state, 'completed');
      assert.equal(end.artifacts.length, 1);
    },
  },
];
