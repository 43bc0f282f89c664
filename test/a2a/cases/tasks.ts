/** Cancellation, lists, and refused requests. */

import { requestWith } from '../../fixtures/a2a/agent.js';
import type { Client } from '../../fixtures/a2a/client.js';
import { textOf } from '../../fixtures/a2a/views.js';
import { all, assert, type Case, expectError, finished, idOf, mark, refused, say, taskOf } from '../case.js';
import { ADA, DOWN } from '../testbed.js';

/** Starts a task that keeps running, in the same way for every version. */
async function begun(client: Client): Promise<string> {
  for await (const event of client.stream(say(`wait ${mark()}`))) {
    const id = idOf(event);
    if (id !== undefined) return id;
  }
  throw new Error('no event of the stream has a task id');
}

export const TASKS: readonly Case[] = [
  {
    name: 'cancelling a running task',
    ids: ['S-28', 'G-42'],
    run: async ({ client }) => {
      const id = await begun(client);
      assert.deepEqual([(await client.cancel(id)).id, (await client.get(id)).state], [id, 'canceled']);
    },
  },
  {
    name: 'cancelling a cancelled task',
    ids: ['S-28'],
    run: async ({ client }) => {
      const { id } = taskOf(await client.send(say(`ask ${mark()}`)));
      assert.equal((await client.cancel(id)).state, 'canceled');
      assert.equal((await client.cancel(id)).state, 'canceled');
    },
  },
  {
    name: 'cancelling a finished task',
    ids: ['S-28', 'S-70', 'C-9'],
    run: async ({ client }) => {
      const { id } = taskOf(await client.send(say(`echo ${mark()}`)));
      await expectError(client, 'TASK_NOT_CANCELABLE', () => client.cancel(id));
    },
  },
  {
    name: 'operations on an unknown task',
    ids: ['S-26', 'S-28', 'S-70'],
    run: async ({ client }) => {
      await expectError(client, 'TASK_NOT_FOUND', () => client.get(mark()));
      await expectError(client, 'TASK_NOT_FOUND', () => client.cancel(mark()));
    },
  },
  {
    name: 'a task of another caller is not found',
    ids: ['S-26', 'S-62', 'G-22'],
    run: async ({ client, stranger, row }) => {
      const { id } = taskOf(await client.send(say(`ask ${mark()}`)));
      await expectError(stranger, 'TASK_NOT_FOUND', () => stranger.get(id));
      await expectError(stranger, 'TASK_NOT_FOUND', () => stranger.cancel(id));
      await expectError(stranger, 'TASK_NOT_FOUND', () => all(stranger.subscribe(id)), { stream: true });
      await expectError(stranger, 'TASK_NOT_FOUND', () => stranger.setPush(id, { url: 'https://example.org/hook' }));
      if (row.version !== '0.1')
        await expectError(stranger, 'TASK_NOT_FOUND', () => stranger.send(say('blue', { taskId: id })));
      assert.equal((await client.get(id)).state, 'input-required');
    },
  },
  {
    name: 'a message to an unknown task',
    ids: ['S-24'],
    applies: (row) => row.version !== '0.1',
    run: ({ client }) => expectError(client, 'TASK_NOT_FOUND', () => client.send(say('echo', { taskId: mark() }))),
  },
  {
    name: 'a message to a finished task',
    ids: ['S-21'],
    run: async ({ client }) => {
      const { id } = taskOf(await client.send(say(`echo ${mark()}`)));
      await expectError(client, 'UNSUPPORTED_OPERATION', () => client.send(say('more', { taskId: id })));
    },
  },
  {
    name: 'a message that names a task and a different context',
    ids: ['S-25'],
    applies: (row) => row.version !== '0.1',
    run: async ({ client }) => {
      const { id } = taskOf(await client.send(say(`ask ${mark()}`)));
      await expectError(client, 'INVALID_PARAMS', () => client.send(say('blue', { taskId: id, contextId: mark() })));
      assert.equal((await client.get(id)).state, 'input-required');
    },
  },
  {
    name: 'a message without parts',
    ids: ['S-30'],
    run: async ({ client, agent }) => {
      const word = mark();
      await expectError(client, 'INVALID_PARAMS', () => client.send({ parts: [], metadata: { word } }));
      assert.equal(requestWith(agent, word), undefined, 'the message reached the agent');
    },
  },
  {
    name: 'lists with filters and cursors',
    ids: ['S-27', 'G-20', 'G-42'],
    applies: (row) => row.version === '1.0',
    run: async ({ client, stranger }) => {
      const contextId = `list-${mark()}`;
      const made: string[] = [];
      for (const text of ['echo 1', 'echo 2', 'ask 3'])
        made.push(taskOf(await client.send(say(text, { contextId }))).id);
      const newest = made.toReversed();
      const first = await client.list!({ contextId, pageSize: 2 });
      assert.deepEqual(
        first.tasks.map(({ id }) => id),
        newest.slice(0, 2),
      );
      assert.deepEqual([first.pageSize, first.totalSize], [2, 3]);
      assert.notEqual(first.nextPageToken, '');
      const second = await client.list!({ contextId, pageSize: 2, pageToken: first.nextPageToken });
      assert.deepEqual(
        second.tasks.map(({ id }) => id),
        newest.slice(2),
      );
      assert.equal(second.nextPageToken, '');
      assert.ok(
        first.tasks.every(({ artifacts }) => artifacts.length === 0),
        'the list has artifacts that were not requested',
      );
      const whole = await client.list!({ contextId, includeArtifacts: true, historyLength: 0 });
      assert.equal(textOf(whole.tasks[1]?.artifacts[0]?.parts), 'echo 2');
      assert.ok(
        whole.tasks.every(({ history }) => (history?.length ?? 0) === 0),
        'the list has a history that was not requested',
      );
      const asking = await client.list!({ contextId, state: 'input-required' });
      assert.deepEqual(
        asking.tasks.map(({ id }) => id),
        [made[2]],
      );
      const since = whole.tasks[1]!.timestamp!;
      const late = await client.list!({ contextId, since });
      assert.deepEqual(
        late.tasks.map(({ id }) => id),
        newest.slice(0, 2),
      );
      assert.equal((await stranger.list!({ contextId })).totalSize, 0);
    },
  },
  {
    name: 'lists with invalid page sizes and tokens',
    ids: ['S-27', 'S-30'],
    applies: (row) => row.version === '1.0',
    run: async ({ client }) => {
      await expectError(client, 'INVALID_PARAMS', () => client.list!({ pageSize: 101 }));
      await expectError(client, 'INVALID_PARAMS', () => client.list!({ pageSize: -1 }));
      await expectError(client, 'INVALID_PARAMS', () => client.list!({ pageToken: 'made up' }));
    },
  },
  {
    name: 'the extended card',
    ids: ['S-60', 'G-15', 'G-42'],
    applies: (row) => row.version !== '0.1',
    run: async ({ client, testbed }) => {
      const card = await client.extendedCard!();
      assert.ok(Array.isArray(card['skills']) && card['skills'].length > 0);
      const text = JSON.stringify(card);
      assert.ok(text.includes(testbed.gateway.url), 'the card has no address of the gateway');
      for (const agent of testbed.agents)
        assert.ok(!text.includes(agent.url), `the card has the address of the agent: ${agent.url}`);
    },
  },
  {
    name: 'requests without a token are refused',
    ids: ['S-61'],
    run: async ({ connect, row }) => {
      const nobody = await connect({ token: '' });
      const error = await refused(nobody, () => nobody.send(say('echo')));
      if (row.binding === 'grpc') assert.equal(error.grpc, 16);
      else {
        assert.equal(error.http, 401);
        assert.match((await nobody.wire()).headers['www-authenticate'] ?? '', /Bearer/);
      }
    },
  },
  {
    name: 'an unreachable agent causes an error in time',
    ids: ['G-29', 'C-14'],
    once: true,
    applies: (row) => row.version === '1.0' && row.binding === 'jsonrpc',
    run: async ({ testbed, row }) => {
      const began = Date.now();
      const response = await fetch(testbed.base(DOWN), {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'a2a-version': row.version, authorization: `Bearer ${ADA}` },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'SendMessage',
          params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'echo' }] } },
        }),
      });
      const { error } = (await response.json()) as { error?: { code: number; data?: { reason?: string }[] } };
      assert.equal(error?.code, -32603);
      assert.equal(error?.data?.[0]?.reason, 'UPSTREAM_UNAVAILABLE');
      assert.ok(Date.now() - began < 15_000, 'the answer took longer than 15 s');
    },
  },
  {
    name: 'a finished task can be read later',
    ids: ['G-20'],
    run: async ({ client }) => {
      const { id } = taskOf(await client.send(say(`slow 50 ${mark()}`)));
      assert.equal((await finished(client, id)).state, 'completed');
    },
  },
];
