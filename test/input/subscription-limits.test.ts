/** Subscriptions are bounded in number, and in the number of resources and tasks that they name (P6). */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { modern } from './support/speak.js';
import { startWorld, type World } from './support/world.js';

let world: World;
beforeAll(async () => {
  world = await startWorld({});
});
afterAll(() => world.close());

it('a subscription to 40,000 resources is refused, and delays nobody', async () => {
  const resourceSubscriptions = Array.from({ length: 40_000 }, (_, i) => `file:///item-${i}`);
  const reply = await modern(world.mcp, 'subscriptions/listen', { notifications: { resourceSubscriptions } });
  expect(reply.json.error).toMatchObject({
    code: -32602,
    message: 'A subscription names at most 1000 resources and tasks',
  });
});
