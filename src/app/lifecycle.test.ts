import { expect, test } from 'vitest';
import { sleep } from '../core/timing.js';
import { SILENT } from '../telemetry/log.js';
import { Lifecycle } from './lifecycle.js';

function recorded() {
  const events: string[] = [];
  const errors: object[] = [];
  const lifecycle = new Lifecycle({ ...SILENT, error: (fields) => void errors.push(fields) });
  const add = (name: string, stop: () => unknown = () => {}): void => {
    lifecycle.add(name, name, async () => {
      await sleep(1);
      events.push(name);
      await stop();
    });
  };
  return { lifecycle, events, errors, add };
}

test('parts are stopped in the reverse order, each once, one after the other', async () => {
  const { lifecycle, events, add } = recorded();
  for (const name of ['state', 'core', 'server']) add(name);
  await Promise.all([lifecycle.stop(), lifecycle.stop()]);
  await lifecycle.stop();
  expect(events).toEqual(['server', 'core', 'state']);
});

test('a start that fails stops the parts that were started and rejects with the cause', async () => {
  const { lifecycle, events, add } = recorded();
  const starting = lifecycle.start(async () => {
    add('state');
    add('core');
    throw new Error('the address is in use');
  });
  await expect(starting).rejects.toThrow('the address is in use');
  expect(events).toEqual(['core', 'state']);
});

test('a part that fails to stop is logged, and the other parts are stopped', async () => {
  const { lifecycle, events, errors, add } = recorded();
  add('state');
  add('core', () => Promise.reject(new Error('stuck')));
  await lifecycle.stop();
  expect(events).toEqual(['core', 'state']);
  expect(errors).toMatchObject([{ part: 'core', err: { message: 'stuck' } }]);
});
