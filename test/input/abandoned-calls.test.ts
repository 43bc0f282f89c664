/** Calls of legacy clients that lose their connection continue during the resume window, and no longer. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type Replica, startEngines } from '../cluster/support/replicas.js';
import { Session as ReplicaSession } from '../cluster/support/session.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { textOf } from './support/message.js';
import { Session } from './support/speak.js';
import { eventually, sleep } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

const WINDOW = 3_000;
const LONG = 600_000;

let world: World;
beforeAll(async () => {
  world = await startWorld({ session: { resumeWindow: `${WINDOW}ms` }, timeouts: { call: '1h', callMax: '1h' } });
});
afterAll(() => world?.close());
afterEach(() => world.wellBehaved());

it('the calls of a client that does not reconnect are cancelled at the server', async () => {
  const session = await Session.open(world.mcp, '2025-11-25');
  const texts = Array.from({ length: 20 }, (_, n) => `away ${n}`);
  const streams = await Promise.all(
    texts.map((text, n) =>
      session.stream('tools/call', { name: 'echo__wait', arguments: { text, ms: LONG } }, `call-${n}`),
    ),
  );
  const left = performance.now();
  for (const stream of streams) stream.close();
  await eventually(
    () => texts.filter((text) => world.echo.cancelled.includes(text)).length,
    (count) => count === texts.length,
    60_000,
  );
  // The cancellation does not come at once, because the client might reconnect.
  expect(performance.now() - left).toBeGreaterThan(WINDOW / 2);
});

it('a client that reconnects too late learns that the call was ended', async () => {
  const session = await Session.open(world.mcp, '2025-11-25');
  const stream = await session.stream('tools/call', { name: 'echo__wait', arguments: { text: 'late', ms: LONG } });
  const { id } = await stream.until(({ events }) => events[0]);
  stream.close();
  await eventually(
    () => world.echo.cancelled,
    (cancelled) => cancelled.includes('late'),
    60_000,
  );
  const again = await session.listen({ 'last-event-id': id! });
  await again.end();
  expect(again.messages.at(-1)?.error).toMatchObject({ data: { reason: 'cancelled', outcome: 'unknown' } });
});

it('a client that reconnects in time and stays connected gets the response, however long the call takes', async () => {
  const session = await Session.open(world.mcp, '2025-11-25');
  const ms = 3 * WINDOW;
  const stream = await session.stream('tools/call', { name: 'echo__wait', arguments: { text: 'patient', ms } });
  const { id } = await stream.until(({ events }) => events[0]);
  stream.close();
  await sleep(WINDOW / 4);
  const again = await session.listen({ 'last-event-id': id! });
  await again.end(60_000);
  expect(textOf(again.messages.at(-1)!)).toBe('patient');
});

it('a client that reads the stream at another replica counts as connected', async () => {
  const [engines, fixture] = await Promise.all([
    startEngines('postgres'),
    new HttpFixture({ revision: '2025-11-25' }).start(),
  ]);
  try {
    const [a, b] = (await engines.start(2, {
      session: { resumeWindow: `${WINDOW}ms` },
      servers: { core: { url: fixture.url, revision: '2025-11-25' } },
    })) as [Replica, Replica];
    const session = await ReplicaSession.open(a);
    const { exchange } = session.call(a, 'core__slow', { key: 'moved', milliseconds: 4 * WINDOW });
    await eventually(
      () => exchange.lastEventId,
      (id) => id !== undefined,
      60_000,
    );
    exchange.abort();
    const heard = await session.listen(b, exchange.lastEventId!).ended;
    expect(JSON.stringify(heard.at(-1)?.result)).toContain('moved: slept');
  } finally {
    await engines.stop();
    await fixture.close();
  }
});
