/** Webhooks: configurations and notifications. */

import { bodyOf } from '../../fixtures/a2a/agent.js';
import type { Row } from '../../fixtures/a2a/client.js';
import type { Notification } from '../../fixtures/a2a/webhook.js';
import { assert, type Case, expectError, finished, mark, say, sleep, taskOf, until } from '../case.js';

interface Told {
  readonly id: string;
  readonly state: string;
}

/** The content of a notification, which must have the format of the version that registered the webhook. */
function told(row: Row, { body, headers }: Notification): Told | undefined {
  type Status = { readonly state: string };
  if (row.version === '1.0') {
    assert.match(headers['content-type'] ?? '', /^application\/a2a\+json/);
    const members = Object.keys(body).filter((name) =>
      ['task', 'message', 'statusUpdate', 'artifactUpdate'].includes(name),
    );
    assert.equal(members.length, 1, `no StreamResponse: ${JSON.stringify(body)}`);
    const one = body[members[0]!] as { id?: string; taskId?: string; status?: Status };
    return (
      one.status && { id: one.id ?? one.taskId ?? '', state: one.status.state.replace('TASK_STATE_', '').toLowerCase() }
    );
  }
  assert.match(headers['content-type'] ?? '', /^application\/json/);
  const one = body as { kind?: string; id?: string; taskId?: string; status?: Status };
  if (row.version === '0.3')
    assert.ok(['task', 'status-update', 'artifact-update', 'message'].includes(one.kind ?? ''));
  else if (row.version === '0.2') assert.equal(one.kind, 'task');
  else assert.equal(one.kind, undefined);
  return one.status && { id: one.id ?? one.taskId ?? '', state: one.status.state };
}

const RANK = ['submitted', 'working', 'completed'];

export const PUSH: readonly Case[] = [
  {
    name: 'webhooks are set, read, listed and deleted',
    ids: ['S-51', 'G-41', 'G-50'],
    run: async ({ client, row, testbed, agent }) => {
      const { id } = taskOf(await client.send(say(`ask ${mark()}`)));
      const url = `${testbed.webhook.url}/${mark()}`;
      const set = await client.setPush(id, { id: 'first', url, token: 'a-token' });
      assert.equal(set.url, url);
      const read = await client.getPush(id, set.id ?? 'first');
      assert.equal(read.url, url);
      if (client.listPush && client.deletePush) {
        const second = await client.setPush(id, { id: 'second', url: `${url}/2` });
        assert.deepEqual((await client.listPush(id)).map((one) => one.url).sort(), [url, `${url}/2`]);
        await client.deletePush(id, second.id ?? 'second');
        await client.deletePush(id, second.id ?? 'second');
        assert.deepEqual(
          (await client.listPush(id)).map((one) => one.url),
          [url],
        );
        if (row.version === '1.0') await expectError(client, 'TASK_NOT_FOUND', () => client.getPush(id, 'second'));
      }
      assert.ok(!agent.seen.some((one) => bodyOf(one).includes(url)), 'the agent got the webhook URL of the client');
      assert.ok(
        !agent.seen.some((one) => bodyOf(one).includes('a-token')),
        'the agent got the webhook token of the client',
      );
    },
  },
  {
    name: 'notifications arrive in order, in the version of their registration',
    ids: ['S-52', 'S-54', 'G-41', 'G-50', 'G-51', 'C-11'],
    run: async ({ client, row, testbed, agent }) => {
      const path = `/${mark()}`;
      const url = `${testbed.webhook.url}${path}`;
      const push = { url, token: 'the-token', authentication: { scheme: 'Bearer', credentials: 'the-secret' } };
      const { id, state } = taskOf(await client.send(say(`slow 200 ${mark()}`, { push, returnImmediately: true })));
      if (state !== 'completed') await finished(client, id);
      const states = await until('the notification of the end', () => {
        const all = testbed.webhook.at(path).map((one) => told(row, one));
        assert.ok(
          all.every((one) => one === undefined || one.id === id),
          'expected only notifications of this task',
        );
        return all.some((one) => one?.state === 'completed') ? all.flatMap((one) => one?.state ?? []) : undefined;
      });
      const ranks = states.map((one) => RANK.indexOf(one));
      assert.deepEqual(ranks, ranks.toSorted(), `out of order: ${states}`);
      for (const { headers } of testbed.webhook.at(path)) {
        assert.equal(headers['x-a2a-notification-token'], 'the-token');
        assert.equal(headers['authorization'], 'Bearer the-secret');
      }
      for (const secret of [url, 'the-token', 'the-secret'])
        assert.ok(!agent.seen.some((one) => bodyOf(one).includes(secret)), `the agent got the secret ${secret}`);
    },
  },
  {
    name: 'no notification is sent after a delete',
    ids: ['S-51'],
    applies: (row) => row.version !== '0.1',
    run: async ({ client, testbed }) => {
      const path = `/${mark()}`;
      const { id } = taskOf(await client.send(say(`ask ${mark()}`)));
      const set = await client.setPush(id, { id: 'only', url: `${testbed.webhook.url}${path}` });
      await client.deletePush!(id, set.id ?? 'only');
      const before = testbed.webhook.at(path).length;
      taskOf(await client.send(say('blue', { taskId: id })));
      await sleep(200);
      assert.equal(testbed.webhook.at(path).length, before);
    },
  },
];
