/** Sessions are bounded in number and in bytes (P6). */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BOTH, initializeBody, Session } from './support/speak.js';
import { ask } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

const ADA = 'ada-0123456789-Kj8sLq2vXz7mNw4pRt6y';
const BOB = 'bob-9876543210-Hf3dGk5bVc1nMq8wZx0e';
const as = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

let world: World;
beforeAll(async () => {
  const tokens = [
    { name: 'ada', token: ADA },
    { name: 'bob', token: BOB },
  ];
  world = await startWorld({ auth: { tokens }, session: { max: 6, maxPerCaller: 3 } }, { bystander: as(ADA) });
});
afterAll(() => world.close());

const open = (token: string): Promise<Session> => Session.open(world.mcp, '2025-11-25', as(token));
const statusOf = async (session: Session): Promise<number> => (await session.request('ping')).status;

it("a caller with too many sessions loses its own longest idle one, and no other caller's", async () => {
  const bobs = await open(BOB);
  const first = await open(ADA);
  const second = await open(ADA);
  const third = await open(ADA);
  expect(await statusOf(first)).toBe(200);
  await open(ADA);
  expect(await statusOf(second)).toBe(404);
  for (const session of [first, third, bobs]) expect(await statusOf(session)).toBe(200);
});

it('a session with an open stream is not evicted; if all are in use, a new one is refused', async () => {
  const sessions = await Promise.all([open(ADA), open(ADA), open(ADA)]);
  const streams = await Promise.all(
    sessions.map(async ({ headers }) => {
      const controller = new AbortController();
      const reply = await fetch(world.mcp, {
        headers: { ...headers, accept: 'text/event-stream' },
        signal: controller.signal,
      });
      expect(reply.status).toBe(200);
      return controller;
    }),
  );
  const refused = await ask(world.mcp, { headers: { accept: BOTH, ...as(ADA) }, body: initializeBody('2025-11-25') });
  expect(refused.status).toBe(429);
  expect(refused.headers['retry-after']).toBe('10');
  expect(refused.json.error.message).toBe(
    'No session can be opened: this caller has 3 sessions in use; end one or try again later',
  );
  for (const session of sessions) expect(await statusOf(session)).toBe(200);
  for (const stream of streams) stream.abort();
});

it('large descriptions of clients are not kept', async () => {
  const large = 'x'.repeat(3_500_000);
  const body = initializeBody('2025-11-25') as { params: Record<string, unknown> };
  const initialize = (params: Record<string, unknown>) =>
    ask(world.mcp, { headers: { accept: BOTH, ...as(BOB) }, body: { ...body, params: { ...body.params, ...params } } });
  const refused = await initialize({ capabilities: { experimental: { large } } });
  expect(refused.json.error.message).toMatch(/^"capabilities" has 35000\d\d bytes; the gateway keeps at most 16384/);
  const before = world.memory();
  for (let i = 0; i < 60; i++) {
    const reply = await initialize({ clientInfo: { name: 'large', version: '1', large } });
    expect(reply.status).toBe(200);
  }
  // The descriptions of 60 sessions would take 210 MB.
  expect(world.memory() - before).toBeLessThan(105);
});
