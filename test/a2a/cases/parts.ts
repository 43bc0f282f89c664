/** Text, files and data, in both directions. */
import { FILE_BYTES, FILE_URL, LIST, PARTS } from '../../fixtures/a2a/behaviours.js';
import type { Part } from '../../fixtures/a2a/views.js';
import { textOf } from '../../fixtures/a2a/views.js';
import { assert, type Case, isProto, lossy, mark, taskOf } from '../case.js';

/** The part without the members that the 0.3 proto does not have. */
const thin = ({ filename: _, metadata: __, ...part }: Part): Part => part;

export const PARTS_CASES: readonly Case[] = [
  {
    name: 'files and data from the agent',
    ids: ['S-20', 'S-72'],
    run: async ({ client, row, column }) => {
      const task = taskOf(await client.send({ parts: [{ text: `files ${mark()}` }] }));
      const parts = task.artifacts[0]?.parts ?? [];
      const [raw, url, data] = parts;
      assert.equal(raw?.raw, FILE_BYTES);
      assert.equal(url?.url, FILE_URL);
      assert.deepEqual(data?.data, PARTS[2]?.data);
      assert.deepEqual([raw?.mediaType, url?.mediaType], ['application/octet-stream', 'application/pdf']);
      if (!lossy(row, column)) assert.deepEqual([raw?.filename, url?.filename], ['notes.bin', 'report.pdf']);
    },
  },
  {
    name: 'files and data to the agent',
    ids: ['S-22', 'S-31', 'S-72'],
    run: async ({ client, agent, row, column }) => {
      const text = `parts ${mark()}`;
      const task = taskOf(await client.send({ parts: [{ text }, { text: 'second' }, ...PARTS] }));
      const heard = agent.heard.find((one) => textOf(one.parts.slice(0, 1)) === text);
      const shape = lossy(row, column) ? thin : (part: Part): Part => part;
      assert.deepEqual(heard?.parts.slice(1).map(shape), [{ text: 'second' }, ...PARTS].map(shape));
      assert.deepEqual(task.artifacts[0]?.parts.map(shape), [{ text: 'second' }, ...PARTS].map(shape));
    },
  },
  {
    name: 'data that is not an object',
    ids: ['S-72'],
    run: async ({ client, agent, row, column }) => {
      const text = `parts ${mark()}`;
      const task = taskOf(await client.send({ parts: [{ text }, { data: LIST }] }));
      const heard = agent.heard.find((one) => textOf(one.parts.slice(0, 1)) === text)?.parts[1];
      const wrapped = { value: LIST };
      // The 0.3 proto has no metadata on a part, so this value looks like an object with the member `value`.
      if (column.version === '1.0') assert.deepEqual(heard?.data, isProto(row) ? wrapped : LIST);
      else {
        assert.deepEqual(heard?.data, wrapped);
        if (!lossy(row, column)) assert.equal(heard?.metadata?.['data_part_compat'], true);
      }
      const back = task.artifacts[0]?.parts[0];
      if (row.version !== '1.0') assert.deepEqual(back?.data, wrapped);
      else if (isProto(column, column.variant))
        assert.ok([JSON.stringify(LIST), JSON.stringify(wrapped)].includes(JSON.stringify(back?.data)));
      else assert.deepEqual(back?.data, LIST);
    },
  },
  {
    name: 'data that is not an object, from the agent',
    ids: ['S-72'],
    run: async ({ client, row, column }) => {
      const task = taskOf(await client.send({ parts: [{ text: `list ${mark()}` }] }));
      const part = task.artifacts[0]?.parts[0];
      if (row.version === '1.0' && !isProto(column, column.variant)) assert.deepEqual(part?.data, LIST);
      else if (row.version !== '1.0') assert.deepEqual(part?.data, { value: LIST });
      if (row.version !== '1.0' && !lossy(row, column)) assert.equal(part?.metadata?.['data_part_compat'], true);
    },
  },
  {
    name: 'metadata of parts',
    ids: ['G-26'],
    applies: (row, column) => !lossy(row, column),
    run: async ({ client, agent }) => {
      const text = `parts ${mark()}`;
      const metadata = { page: 3 };
      const task = taskOf(await client.send({ parts: [{ text }, { text: 'second', metadata }] }));
      const heard = agent.heard.find((one) => textOf(one.parts.slice(0, 1)) === text);
      assert.deepEqual(heard?.parts[1]?.metadata, metadata);
      assert.deepEqual(task.artifacts[0]?.parts[0]?.metadata, metadata);
    },
  },
];
