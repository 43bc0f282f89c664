import { expect, test } from 'vitest';
import { CallRecordings } from './call-recording.js';

const contents = { arguments: () => '{}', result: () => '{}' };

test('passes matching calls, counts the calls that had no room, and bounds the recordings', () => {
  const recordings = new CallRecordings();
  expect(recordings.active()).toBe(false);
  const taken: [unknown, number][] = [];
  let room = true;
  const stop = recordings.start(
    { server: 'f*' },
    {
      take: (line, _, missed) => {
        if (room) taken.push([line['tool'], missed]);
        return room;
      },
    },
  );
  recordings.publish({ server: 'files', tool: 'a' }, contents);
  recordings.publish({ server: 'other', tool: 'b' }, contents);
  room = false;
  recordings.publish({ server: 'files', tool: 'c' }, contents);
  recordings.publish({ server: 'files', tool: 'd' }, contents);
  room = true;
  recordings.publish({ server: 'files', tool: 'e' }, contents);
  expect(taken).toEqual([
    ['a', 0],
    ['e', 2],
  ]);
  const others = [1, 2, 3].map(() => recordings.start({}, { take: () => true }));
  expect(recordings.start({}, { take: () => true })).toBeUndefined();
  stop!();
  for (const end of others) end!();
  expect(recordings.active()).toBe(false);
});
