import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, expect, it } from 'vitest';
import { atEndOfTurn } from './batched-writes.js';

const written: string[] = [];
const write = (what: string): void => atEndOfTurn({ flush: () => void written.push(what) });

beforeEach(async () => {
  // A turn with only one write, so that the next test begins with an idle loop.
  write('');
  await nextTurn();
  written.length = 0;
});

it('does not delay a single write', async () => {
  for (let i = 0; i < 3; i++) {
    write(`${i}`);
    expect(written.at(-1)).toBe(`${i}`);
    await nextTurn();
  }
});

it('holds several writes until the end of the turn, in order', async () => {
  write('a');
  write('b');
  write('c');
  expect(written).toEqual(['a']);
  await nextTurn();
  expect(written).toEqual(['a', 'b', 'c']);
  write('d');
  write('e');
  expect(written).toEqual(['a', 'b', 'c']);
  await nextTurn();
  expect(written).toEqual(['a', 'b', 'c', 'd', 'e']);
});

it('performs the other writes if one fails', async () => {
  const thrown = new Promise((resolve) => process.once('uncaughtException', resolve));
  const others = process.listeners('uncaughtException').slice(0, -1);
  for (const other of others) process.off('uncaughtException', other);
  write('a');
  atEndOfTurn({
    flush: () => {
      throw new Error('gone');
    },
  });
  write('b');
  expect(await thrown).toMatchObject({ message: 'gone' });
  for (const other of others) process.on('uncaughtException', other);
  expect(written).toEqual(['a', 'b']);
});
