/** Messages of a session outside of requests reach its GET stream, from any replica to any replica. */
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Exchange, Message } from '../era-bridge/support/wire.js';
import { eventually } from '../era-bridge/support/wire.js';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from './support/replicas.js';
import { Session } from './support/session.js';
import { CountedServer } from './support/upstream.js';

const logged = (messages: readonly Message[]): string[] =>
  messages.filter(({ method }) => method === 'notifications/message').map(({ params }) => params.data);

describe.each(CLUSTERS)('the GET stream of a session on replicas over %s', (engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let a: Replica;
  let b: Replica;
  let doomed: Replica[];

  beforeAll(async () => {
    [engines, counted] = await Promise.all([startEngines(engine), new CountedServer().start()]);
    const servers = { counted: { url: counted.url } };
    [a, b, ...doomed] = (await engines.start(4, { servers })) as [Replica, Replica];
  });
  afterAll(async () => {
    await engines?.stop();
    await counted?.close();
  });

  /** A session with a call at one replica, which opens the session with the server there. */
  const callingAt = async (replica: Replica): Promise<Session> => {
    const session = await Session.open(replica);
    const listening = counted.listening;
    await session.request(replica, 'tools/call', { name: 'counted__quick', arguments: { key: 'warm' } });
    await eventually(
      () => counted.listening,
      (now) => now > listening,
    );
    return session;
  };
  const listen = async (session: Session, at: Replica, last?: string): Promise<Exchange> => {
    const stream = session.listen(at, last);
    expect((await stream.opened).statusCode).toBe(200);
    await eventually(
      () => stream.lastEventId,
      (id) => id !== undefined,
    );
    return stream;
  };
  const hears = (stream: Exchange, texts: string[]): Promise<unknown> =>
    eventually(
      () => logged(stream.messages),
      (now) => now.length >= texts.length,
    ).then((now) => expect(now).toEqual(texts));
  const say = (data: string): void => counted.announce('notifications/message', { level: 'error', data });

  test('messages made at A reach a GET open at B, in order and once', async () => {
    const session = await callingAt(a);
    const stream = await listen(session, b);
    const texts = Array.from({ length: 30 }, (_, i) => `live ${i}`);
    for (const text of texts) say(text);
    await hears(stream, texts);
    stream.abort();
  });

  test('messages made at A before the first GET reach it at B', async () => {
    const session = await callingAt(a);
    say('early 1');
    say('early 2');
    // The messages arrive only after the stream is open; nothing is visible before.
    const stream = await listen(session, b);
    await hears(stream, ['early 1', 'early 2']);
    say('late');
    await hears(stream, ['early 1', 'early 2', 'late']);
    stream.abort();
  });

  test('a GET at A is resumed at B after its last event, and then at A again', async () => {
    const session = await callingAt(a);
    const first = await listen(session, a);
    say('one');
    await hears(first, ['one']);
    first.abort();
    say('two');
    say('three');
    const second = await listen(session, b, first.lastEventId!);
    await hears(second, ['two', 'three']);
    say('four');
    await hears(second, ['two', 'three', 'four']);
    second.abort();
    const third = await listen(session, a, second.lastEventId!);
    say('five');
    await hears(third, ['five']);
    third.abort();
  });

  test('a GET continues at B after its replica died, and gets later messages', async () => {
    const dying = doomed.pop()!;
    const session = await callingAt(dying);
    const first = await listen(session, dying);
    await dying.kill();
    await first.ended;
    const second = await listen(session, b, first.lastEventId!);
    const listening = counted.listening;
    await session.request(a, 'tools/call', { name: 'counted__quick', arguments: { key: 'after' } });
    await eventually(
      () => counted.listening,
      (now) => now > listening,
    );
    say('after');
    await hears(second, ['after']);
    expect((await session.request(b, 'ping')).result).toEqual({});
    second.abort();
  });

  test('sdk 1: calls at a replica that dies, listens at B, and then gets messages from A', async () => {
    const dying = doomed.pop()!;
    let getAt = dying;
    let postAt = dying;
    const client = new ClientV1({ name: 'genuine', version: '1' });
    const heard: unknown[] = [];
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard.push(params.data));
    const transport = new TransportV1(new URL(dying.mcp), {
      requestInit: { headers: { authorization: `Bearer ${ALICE}` } },
      fetch: (_, init) => fetch(init?.method === 'GET' ? getAt.mcp : postAt.mcp, init),
    });
    await client.connect(transport as Parameters<ClientV1['connect']>[0]);
    await client.callTool({ name: 'counted__quick', arguments: { key: 'sdk' } });
    getAt = b;
    postAt = a;
    await dying.kill();
    const listening = counted.listening;
    await client.callTool({ name: 'counted__quick', arguments: { key: 'sdk again' } });
    await eventually(
      () => counted.listening,
      (now) => now > listening,
    );
    await eventually(
      () => {
        say('for the sdk');
        return heard;
      },
      (now) => now.includes('for the sdk'),
      20_000,
    );
    await client.close();
  });
});
