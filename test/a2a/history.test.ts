/** The history of a task at an agent of 0.1, whose messages have no ids: every message is told once (S-29). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COLUMNS } from '../fixtures/a2a/agents.js';
import { release } from '../fixtures/a2a/behaviours.js';
import type { Client } from '../fixtures/a2a/client.js';
import { ROWS } from '../fixtures/a2a/clients.js';
import { type Task, textOf } from '../fixtures/a2a/views.js';
import { finished, idOf, mark, say, taskOf, until } from './case.js';
import { openTestbed, type Testbed } from './testbed.js';

const AGENT = 'first-rpc';
let testbed: Testbed;

beforeAll(async () => {
  testbed = await openTestbed(COLUMNS.filter(({ name }) => name === AGENT));
});
afterAll(() => testbed?.close());

const saidIn = ({ history }: Task): string[] => (history ?? []).map(({ parts }) => textOf(parts));
const started = (client: Client, id: string): Promise<Task> =>
  until('the first message of the agent', async () => {
    const task = await client.get(id, 100);
    return saidIn(task).includes('started') ? task : undefined;
  });

describe.each(ROWS.filter(({ name }) => ['1.0 jsonrpc', '1.0 rest', '0.3 jsonrpc'].includes(name)))(
  'a client of $name',
  (row) => {
    const ended = async (client: Client, id: string): Promise<string[]> => {
      await finished(client, id);
      const task = await client.get(id, 100);
      expect(new Set(task.history!.map(({ messageId }) => messageId)).size).toBe(task.history!.length);
      expect(textOf(task.message?.parts)).toBe('long done');
      return saidIn(task);
    };

    test('that streams', async () => {
      const client = await testbed.connect(row, AGENT);
      const word = mark();
      let id: string | undefined;
      for await (const event of client.stream(say(`told ${word}`))) {
        if (id !== undefined) continue;
        id = idOf(event)!;
        release(word);
      }
      // A stream of 0.1 contains neither the message of the user nor a history. The last message is in the status.
      expect((await ended(client, id!)).filter((text) => !text.includes(word))).toEqual(['started']);
    });

    test('that polls', async () => {
      const client = await testbed.connect(row, AGENT);
      const word = mark();
      const { id } = taskOf(await client.send(say(`told ${word}`, { returnImmediately: true })));
      expect(saidIn(await started(client, id))).toEqual([`told ${word}`, 'started']);
      expect(saidIn(await started(client, id))).toEqual([`told ${word}`, 'started']);
      release(word);
      expect(await ended(client, id)).toEqual([`told ${word}`, 'started', 'long done']);
    });

    test('that waits for the answer', async () => {
      const client = await testbed.connect(row, AGENT);
      const word = mark();
      const sending = client.send(say(`told ${word}`));
      // The task runs at the agent once the agent got the message.
      await until('the message', () =>
        testbed.agents
          .find(({ column }) => column.name === AGENT)!
          .heard.find(({ parts }) => textOf(parts).includes(word)),
      );
      release(word);
      const task = taskOf(await sending);
      expect(await ended(client, task.id)).toEqual([`told ${word}`, 'started', 'long done']);
    });
  },
);
