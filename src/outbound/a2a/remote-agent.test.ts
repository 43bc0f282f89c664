import { afterEach, expect, it } from 'vitest';
import { bytesHeld } from '../../../test/support/heap.js';
import { CALLER, card, exchange, Stage, TASK } from '../../../test/support/remote-agents.js';
import { SILENT } from '../../telemetry/log.js';
import { Egress } from '../egress.js';
import type { CardCache, KnownCard } from './card-cache.js';
import { RemoteAgent } from './remote-agent.js';
import type { Wire } from './wire.js';

const stage = new Stage();
afterEach(() => stage.close());

const KIB = 1024;

/** A card whose only interface has a path of 256 KiB. */
function cardNumber(n: number): KnownCard {
  const url = `http://10.0.0.5:4000/${n}/${'x'.repeat(256 * KIB)}`;
  const offered = card([{ url }]);
  return { fetched: { text: JSON.stringify(offered), card: offered }, facts: { card: offered }, required: [] } as never;
}

it('remembers nothing about the interfaces of earlier cards: an agent may change its card any number of times', async () => {
  const cards = { fresh: cardNumber(0), health: { status: 'up' }, onChanged: () => () => {}, close: () => {} };
  const called = new Set<number>();
  const wire = { call: async () => ({ value: TASK }) } as never as Wire;
  const agent = new RemoteAgent({
    name: 'it',
    context: {
      name: 'it',
      credential: () => ({ headers: [] }),
      timeouts: { connect: 1_000, call: 1_000, callMax: 1_000 },
      limits: { event: 1_000, waiting: 1_000 },
      log: SILENT,
    } as never,
    cards: cards as never as CardCache,
    choice: {
      url: 'http://10.0.0.5:4000',
      version: 'auto',
      binding: 'auto',
      egress: new Egress({ allowPrivate: false, ports: [] }),
      bindings: ['JSONRPC'],
    },
    wire: ({ url }) => {
      called.add(Number(new URL(url).pathname.split('/')[1]));
      return wire;
    },
    close: async () => {},
  });
  stage.later(() => agent.close());
  const renewed = async (from: number, to: number): Promise<number> => {
    for (let n = from; n < to; n++) {
      cards.fresh = cardNumber(n);
      await agent.getTask(CALLER, { id: 'task-1' }, exchange());
    }
    return bytesHeld();
  };
  const before = await renewed(0, 10);
  const after = await renewed(10, 210);
  expect(called.size).toBe(210);
  // One interface of each card would be 50 MiB.
  expect(after - before).toBeLessThan(10 * KIB * KIB);
});
