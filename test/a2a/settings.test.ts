/** The effects of the settings for A2A endpoints. */
import { afterEach, expect, test } from 'vitest';
import { COLUMNS } from '../fixtures/a2a/agents.js';
import { ROWS } from '../fixtures/a2a/clients.js';
import { refused, say, taskOf } from './case.js';
import { openTestbed, type Testbed } from './testbed.js';

const agents = COLUMNS.filter(({ name }) => name === 'one-rpc');
const row = (name: string): (typeof ROWS)[number] => ROWS.find((one) => one.name === name)!;
let testbed: Testbed | undefined;

afterEach(async () => {
  await testbed?.close();
  testbed = undefined;
});

test('the HTTP statuses of 1.0.0 if configured (G-27, S-70)', async () => {
  testbed = await openTestbed(agents, { a2a: { errorProfile: '1.0.0' } });
  const rest = await testbed.connect(row('1.0 rest'), 'one-rpc');
  const { id } = taskOf(await rest.send(say('echo')));
  const canceled = await refused(rest, () => rest.cancel(id));
  expect([canceled.http, canceled.reason]).toEqual([409, 'TASK_NOT_CANCELABLE']);
  const grpc = await testbed.connect(row('1.0 grpc'), 'one-rpc');
  const unsupported = await refused(grpc, () => grpc.send(say('more', { taskId: id })));
  expect([unsupported.grpc, unsupported.reason]).toEqual([12, 'UNSUPPORTED_OPERATION']);
});

test('cards need authentication if they are not public (S-7)', async () => {
  testbed = await openTestbed(agents, { a2a: { publicCards: false } });
  const card = await fetch(`${testbed.base('one-rpc')}/.well-known/agent-card.json`);
  expect(card.status).toBe(401);
  const client = await testbed.connect(row('1.0 jsonrpc'), 'one-rpc');
  expect(taskOf(await client.send(say('echo'))).state).toBe('completed');
});
