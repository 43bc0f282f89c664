/** Every replica serves every request of a session: a session started at A continues at B. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FORM, textOf } from '../era-bridge/support/clients.js';
import { eventually, sleep } from '../era-bridge/support/wire.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { BOB, CLUSTERS, type Replica, type Replicas, startEngines } from './support/replicas.js';
import { progressOf, Session, upTo } from './support/session.js';
import { CountedServer } from './support/upstream.js';

describe.each(CLUSTERS)('a session on two replicas over %s', (engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let asking: HttpFixture;
  let a: Replica;
  let b: Replica;

  beforeAll(async () => {
    [engines, counted, asking] = await Promise.all([
      startEngines(engine),
      new CountedServer().start(),
      new HttpFixture({ revision: '2025-11-25' }).start(),
    ]);
    const servers = { counted: { url: counted.url }, asking: { url: asking.url, revision: '2025-11-25' } };
    [a, b] = (await engines.start(2, { servers })) as [Replica, Replica];
  });
  afterAll(async () => {
    await engines?.stop();
    await Promise.all([counted?.close(), asking?.close()]);
  });

  test('started at A, it continues at B, and after DELETE at B it has ended at A', async () => {
    const session = await Session.open(a);
    expect((await session.request(b, 'tools/list')).result.tools.length).toBeGreaterThan(2);
    expect(textOf(await session.request(b, 'tools/call', { name: 'counted__quick', arguments: { key: 'b' } }))).toBe(
      'b done',
    );
    expect((await session.request(a, 'ping')).result).toEqual({});
    expect(await session.as(BOB).end(b)).toBe(404);
    expect(await session.end(b)).toBe(200);
    const began = performance.now();
    await eventually(
      async () => {
        const { exchange } = session.start(a, 'ping');
        await exchange.ended;
        return exchange.status;
      },
      (status) => status === 404,
      1_000,
    );
    expect(performance.now() - began).toBeLessThan(1_000);
    expect((await session.start(b, 'ping').exchange.opened).statusCode).toBe(404);
  });

  test('its log level and subscriptions apply at B, whose stream gets the notifications', async () => {
    const session = await Session.open(a);
    await session.request(a, 'logging/setLevel', { level: 'debug' });
    expect((await session.request(a, 'resources/subscribe', { uri: 'test://one' })).result).toEqual({});
    const stream = session.listen(b);
    expect((await stream.opened).statusCode).toBe(200);
    const { exchange } = session.call(b, 'counted__ticks', { key: 'level', count: 1 });
    const messages = await exchange.ended;
    expect(
      messages.filter(({ method }) => method === 'notifications/message').map(({ params }) => params.level),
    ).toEqual(['debug']);
    await eventually(
      async () => {
        counted.announce('notifications/resources/updated', { uri: 'test://one' });
        counted.announce('notifications/tools/list_changed');
        await sleep(50);
        return new Set(stream.messages.map(({ method }) => method));
      },
      (heard) => heard.has('notifications/resources/updated') && heard.has('notifications/tools/list_changed'),
    );
    await session.request(b, 'resources/unsubscribe', { uri: 'test://one' });
    await sleep(100);
    stream.messages.length = 0;
    counted.announce('notifications/resources/updated', { uri: 'test://one' });
    counted.announce('notifications/tools/list_changed');
    await stream.until(({ method }) => method === 'notifications/tools/list_changed');
    expect(stream.messages.some(({ method }) => method === 'notifications/resources/updated')).toBe(false);
    stream.abort();
    await session.end(b);
  });

  test('a stream cut at A is resumed at B while its call runs at A: no gap, no duplicate, the tool runs once', async () => {
    const session = await Session.open(a);
    const first = session.call(a, 'counted__ticks', { key: 'cut', count: 40, every: 25 }, true);
    await first.exchange.until(({ params }) => params?.progress === 8);
    first.exchange.abort();
    await first.exchange.ended;
    const seen = progressOf(first.exchange.messages);
    const second = session.listen(b, first.exchange.lastEventId!);
    await second.until(({ params }) => params?.progress === 20);
    second.abort();
    await second.ended;
    // No client is connected for a while; events are kept meanwhile.
    await sleep(200);
    const third = session.listen(a, second.lastEventId!);
    await third.until(({ params }) => params?.progress === 30);
    third.abort();
    await third.ended;
    const last = session.listen(b, third.lastEventId!);
    await last.ended;
    const all = [...seen, ...progressOf(second.messages), ...progressOf(third.messages), ...progressOf(last.messages)];
    expect(all).toEqual(upTo(40));
    expect(last.messages.filter(({ id }) => id === first.id)).toHaveLength(1);
    // Resume again from the middle, after the end of the call.
    const again = session.listen(b, first.exchange.lastEventId!);
    await again.ended;
    expect(progressOf(again.messages)).toEqual(upTo(40).slice(seen.length));
    expect(counted.runs.filter((key) => key === 'cut')).toHaveLength(1);
  });

  test('expired, unknown and foreign event ids are refused, never replayed', async () => {
    const session = await Session.open(a);
    const call = session.call(a, 'counted__ticks', { key: 'many', count: 80, every: 0, size: 20_000 }, true);
    await call.exchange.until(({ params }) => params?.progress === 1);
    const early = call.exchange.lastEventId!;
    await call.exchange.ended;
    expect(progressOf(call.exchange.messages)).toEqual(upTo(80));
    const late = call.exchange.lastEventId!;
    const refused = async (of: Session, at: Replica, last: string): Promise<void> => {
      const stream = of.listen(at, last);
      expect(await stream.ended).toMatchObject([
        { id: call.id, error: { data: { reason: 'event_not_found', outcome: 'unknown' } } },
      ]);
      expect(stream.status).toBe(200);
    };
    await refused(session, b, early);
    expect(await session.status(b, late)).toBe(200);
    await refused(session, b, late.replace(/\d+$/, '999999'));
    await refused(session, b, `x${late}`);
    const other = await Session.open(b);
    await refused(other, b, late);
    await refused(other, a, late);
    expect(await session.as(BOB).status(b, late)).toBe(404);
  });

  test('a question sent through A is answered through B (BR-06)', async () => {
    const session = await Session.open(a, FORM);
    const { exchange, id } = session.call(a, 'asking__ask', { key: 'br06' });
    const question = await exchange.until(({ method }) => method === 'elicitation/create');
    expect(await session.respond(b, question.id!, { action: 'accept', content: { answer: 'from B' } })).toBe(202);
    const answer = await exchange.until((message) => message.id === id);
    expect(textOf(answer)).toBe('br06: from B');
    expect(asking.entries.filter((entry) => entry.kind === 'run' && entry.key === 'br06')).toHaveLength(1);
  });

  test('a call that runs at A is cancelled through B', async () => {
    const session = await Session.open(a);
    const { exchange, id } = session.call(a, 'counted__ticks', { key: 'cancel', count: 1_000, every: 20 }, true);
    await exchange.until(({ params }) => params?.progress === 2);
    const before = counted.cancelled.length;
    expect(await session.tell(b, 'notifications/cancelled', { requestId: id, reason: 'enough' })).toBe(202);
    await eventually(
      () => counted.cancelled.length,
      (count) => count > before,
    );
    const messages = await exchange.ended;
    expect(messages.some((message) => message.id === id)).toBe(false);
  });
});
