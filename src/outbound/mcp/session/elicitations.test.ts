import { expect, test } from 'vitest';
import { Cancellation } from '../../../core/caller.js';
import { Elicitations } from './elicitations.js';

/** Whether a call that depends on this elicitation continues at once. */
async function isDone(elicitations: Elicitations, id: string): Promise<boolean> {
  const cancellation = new Cancellation();
  let waited = false;
  const completed = elicitations.completed([id], cancellation).then(() => !waited);
  await Promise.resolve();
  setImmediate(() => {
    waited = true;
    cancellation.cancel();
  });
  return completed;
}

test('a call continues once its elicitation is complete', async () => {
  const elicitations = new Elicitations();
  expect(await isDone(elicitations, 'a')).toBe(false);
  elicitations.complete('a');
  expect(await isDone(elicitations, 'a')).toBe(true);
});

test('long ids of a server are not kept', async () => {
  const elicitations = new Elicitations();
  elicitations.complete('x'.repeat(100_000));
  expect(await isDone(elicitations, 'x'.repeat(100_000))).toBe(false);
});
