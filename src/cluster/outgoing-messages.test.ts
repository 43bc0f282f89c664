import { expect, test } from 'vitest';
import type { Bus } from '../state/bus.js';
import { StateError } from '../state/errors.js';
import { Outgoing } from './outgoing-messages.js';
import { QueueBudget } from './session-streams/stream-writer.js';

/** A bus that is away until `back` is called. */
function absentBus(): { bus: Bus; appended: string[]; back(): void } {
  let away = true;
  const appended: string[] = [];
  const append = async (_: string, data: string): Promise<string> => {
    if (away) throw new StateError('unavailable', 'no answer', { outcome: 'unknown' });
    appended.push(data);
    return '1-1';
  };
  return {
    bus: { append } as unknown as Bus,
    appended,
    back: () => {
      away = false;
    },
  };
}

test('P6: messages that wait while the bus is away are bounded in bytes, over all streams; small messages are still accepted', async () => {
  const { bus, appended, back } = absentBus();
  const budget = new QueueBudget(1_000_000);
  let n = 0;
  const to = (stream: string): Outgoing<string> => new Outgoing(bus, stream, 'a', () => ++n, budget);
  const [one, two] = [to('inbox:b'), to('inbox:c')];
  const large = 'x'.repeat(100_000);
  const waiting = Array.from({ length: 9 }, () => one.post(large, 60_000));
  await expect(one.post(large, 60_000)).rejects.toMatchObject({ code: 'overloaded' });
  await expect(two.post(large, 60_000)).rejects.toMatchObject({ code: 'overloaded' });
  const small = two.post('an error', 60_000);
  back();
  await Promise.all([...waiting, small]);
  expect(budget.used).toBe(0);
  await two.post(large, 60_000);
  expect(appended.join('').split(large)).toHaveLength(11);
});

test('P6: messages that were given up no longer count', async () => {
  const { bus } = absentBus();
  const budget = new QueueBudget(1_000_000);
  const outgoing = new Outgoing<string>(bus, 'inbox:b', 'a', () => 1, budget);
  await expect(outgoing.post('x'.repeat(100_000), 50)).rejects.toMatchObject({ code: 'unavailable' });
  expect(budget.used).toBe(0);
});
