/** Sessions of the legacy era over Streamable HTTP: their owners, their lifetime, and resuming of streams. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Message, textOf } from './support/message.js';
import { BOTH, LEGACY, modernCall, Session } from './support/speak.js';
import { ADA, AUTH, as, BOB } from './support/tokens.js';
import { ask, eventually, readEvents, sleep } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

let world: World;
let brief: World;
beforeAll(async () => {
  world = await startWorld(
    {
      auth: AUTH,
    },
    { bystander: as(ADA) },
  );
  brief = await startWorld({ session: { idle: '2s' } });
});
afterAll(async () => {
  await Promise.all([world.close(), brief.close()]);
});
afterEach(() => world.wellBehaved());

const open = (version: string, token = ADA, path = '/mcp'): Promise<Session> =>
  Session.open(`${world.url}${path}`, version, as(token));

describe('the owner of a session', () => {
  it('HL-12 C-04 S7 S0-27 S1-16 S2-13 S2-14: its id is created by the server, visible ASCII, long and unique', async () => {
    const ids = new Set<string>();
    for (let i = 0; i < 20; i++) {
      const asked = await ask(world.mcp, {
        headers: { accept: BOTH, ...as(ADA), 'mcp-session-id': 'chosen-by-the-client' },
        body: {
          jsonrpc: '2.0',
          id: 0,
          method: 'initialize',
          params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
        },
      });
      const id = String(asked.headers['mcp-session-id']);
      expect(id).toMatch(/^[\x21-\x7e]{32,}$/);
      expect(id).not.toContain('ada');
      ids.add(id);
    }
    expect(ids.size).toBe(20);
    expect(ids.has('chosen-by-the-client')).toBe(false);
  });

  it('HL-18 S3 S7 S1-16: the session of one caller does not exist for another, on any method', async () => {
    const session = await open('2025-11-25');
    const stolen = { accept: BOTH, 'mcp-session-id': session.id, ...as(BOB) };
    const unknown = { ...stolen, 'mcp-session-id': 'made-up' };
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const attempts = async (headers: Record<string, string>) => [
      await ask(world.mcp, { headers, body: ping }),
      await ask(world.mcp, {
        headers,
        body: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
      }),
      await ask(world.mcp, { headers, body: { jsonrpc: '2.0', id: 'parley-1', result: {} } }),
      await ask(world.mcp, { method: 'GET', headers: { ...headers, accept: 'text/event-stream' } }),
      await ask(world.mcp, {
        method: 'GET',
        headers: { ...headers, accept: 'text/event-stream', 'last-event-id': 's0.0' },
      }),
      await ask(world.mcp, { method: 'DELETE', headers }),
    ];
    const stolenReplies = await attempts(stolen);
    const unknownReplies = await attempts(unknown);
    for (const [index, reply] of stolenReplies.entries()) {
      expect(reply.status).toBe(404);
      expect(reply.json.error).toMatchObject({ code: -32000, data: { reason: 'session_not_found' } });
      // A foreign session and a session that never existed get the same response.
      expect(reply.body).toBe(unknownReplies[index]!.body);
    }
    expect((await session.request('ping')).status).toBe(200);
  });

  it('HL-14 S20 S0-27 S2-22: an id with one character changed, cut or added is unknown', async () => {
    const session = await open('2025-06-18');
    const { id } = session;
    const flip = (at: number): string => `${id.slice(0, at)}${id[at] === 'A' ? 'B' : 'A'}${id.slice(at + 1)}`;
    for (const wrong of [
      flip(4),
      flip(Math.floor(id.length / 2)),
      flip(id.length - 2),
      id.slice(0, -1),
      `${id}A`,
      id.toUpperCase(),
      `${id}, ${id}`,
    ]) {
      const reply = await ask(world.mcp, {
        headers: { accept: BOTH, 'mcp-session-id': wrong, ...as(ADA) },
        body: { jsonrpc: '2.0', id: 1, method: 'ping' },
      });
      expect(reply.status, wrong).toBe(404);
      expect(reply.json.error.code).toBe(-32000);
    }
  });

  it('a session belongs to the endpoint it was opened at', async () => {
    const session = await open('2025-11-25', ADA, '/mcp/echo');
    const elsewhere = await ask(world.mcp, {
      headers: session.headers,
      body: { jsonrpc: '2.0', id: 1, method: 'ping' },
    });
    expect(elsewhere.status).toBe(404);
    expect((await session.request('ping')).status).toBe(200);
  });

  it('HL-13 C-04 S0-27: a request without a session is 400, and no session is created for it', async () => {
    const reply = await ask(world.mcp, {
      headers: { accept: BOTH, ...as(ADA) },
      body: { jsonrpc: '2.0', id: 4, method: 'tools/list' },
    });
    expect(reply.status).toBe(400);
    expect(reply.json).toMatchObject({ id: 4, error: { code: -32000, data: { reason: 'session_required' } } });
    expect(reply.headers['mcp-session-id']).toBeUndefined();
  });

  it('S2-15: many concurrent requests share the same session', async () => {
    const session = await open('2025-06-18');
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, id) => session.call('echo__echo', { text: `t${id}` }, id)),
    );
    expect(replies.map((reply) => textOf(reply.json))).toEqual(Array.from({ length: 20 }, (_, id) => `t${id}`));
  });
});

describe.concurrent('the lifetime of a session', () => {
  it('C-04 S7: an unused session expires: 404, and a new one can be opened', async () => {
    const session = await Session.open(brief.mcp, '2025-11-25');
    expect((await session.request('ping')).status).toBe(200);
    await sleep(4_500);
    const reply = await session.request('ping');
    expect(reply.status).toBe(404);
    expect(reply.json.error.data.reason).toBe('session_not_found');
    await Session.open(brief.mcp, '2025-11-25');
  });

  it('a session with an open stream does not expire', async () => {
    const session = await Session.open(brief.mcp, '2025-11-25');
    const stream = await session.listen();
    await sleep(4_500);
    expect(stream.ended).toBe(false);
    expect((await session.request('ping')).status).toBe(200);
    stream.close();
  });

  it('a session with a running call does not expire', async () => {
    const session = await Session.open(brief.mcp, '2025-06-18');
    const reply = await session.call('echo__wait', { text: 'long', ms: 4_500 });
    expect(textOf(reply.json)).toBe('long');
    expect((await session.request('ping')).status).toBe(200);
  });

  it('C-05 S0-22: DELETE cancels the running upstream calls and ends the streams', async () => {
    const session = await open('2025-06-18');
    const stream = await session.listen();
    const call = session.stream('tools/call', { name: 'echo__wait', arguments: { text: 'deleted', ms: 20_000 } });
    await eventually(
      () => world.echo.calls.some(({ args }) => args['text'] === 'deleted'),
      (arrived) => arrived,
    );
    expect((await session.end()).status).toBe(200);
    await stream.end();
    await (await call).end();
    await eventually(
      () => world.echo.cancelled.includes('deleted'),
      (cancelled) => cancelled,
    );
  });
});

describe('streams', () => {
  const steps = {
    name: 'echo__steps',
    arguments: { text: 'st', count: 3, size: 1, pause: 5 },
    _meta: { progressToken: 7 },
  };

  it.each(LEGACY.slice(1))(
    'HL-03 HL-04 HL-06: %s: the stream of a POST carries its progress, then its answer, and ends',
    async (version) => {
      const session = await open(version);
      const reply = await session.request('tools/call', steps, 'x');
      expect(reply.headers['content-type']).toBe('text/event-stream');
      const messages = readEvents(reply.body)
        .filter(({ data }) => data !== '')
        .map(({ data }) => JSON.parse(data) as Message);
      expect(messages.map(({ method }) => method)).toEqual([...Array(3).fill('notifications/progress'), undefined]);
      expect(messages.every(({ params }) => params === undefined || params.progressToken === 7)).toBe(true);
      expect(messages.at(-1)).toMatchObject({ id: 'x' });
    },
  );

  it('HL-05: 2025-11-25 begins each stream with a priming event and a retry; older revisions do not', async () => {
    for (const version of LEGACY.slice(1)) {
      const session = await open(version);
      const post = await session.stream('tools/call', steps);
      const get = await session.listen();
      if (version === '2025-11-25') {
        for (const stream of [post, get]) {
          const first = await stream.until(({ events }) => events[0]);
          expect(first.data).toBe('');
          expect(first.id).toMatch(/./);
          expect(stream.retries.length).toBeGreaterThan(0);
        }
      } else {
        await post.end();
        expect(post.events.every(({ data }) => data !== '')).toBe(true);
        expect(get.events).toEqual([]);
      }
      post.close();
      get.close();
    }
  });

  it('HL-10: event ids are unique across all streams of a session', async () => {
    const session = await open('2025-11-25');
    const get = await session.listen();
    const replies = await Promise.all(Array.from({ length: 5 }, (_, id) => session.request('tools/call', steps, id)));
    world.echo.announce();
    await get.until(({ messages }) => messages.some(({ method }) => method === 'notifications/tools/list_changed'));
    const ids = [...replies.flatMap((reply) => readEvents(reply.body)), ...get.events].map(({ id }) => id);
    expect(ids).not.toContain(undefined);
    expect(new Set(ids).size).toBe(ids.length);
    get.close();
  });

  it('HL-07 C-01.2: a session has one general stream: the second GET is 409, and after it closed another is accepted', async () => {
    const session = await open('2025-11-25');
    const first = await session.listen();
    expect(first.status).toBe(200);
    const second = await ask(world.mcp, {
      method: 'GET',
      headers: { ...session.headers, accept: 'text/event-stream' },
    });
    expect(second.status).toBe(409);
    expect(second.json.error).toMatchObject({ code: -32000, data: { reason: 'stream_conflict' } });
    first.close();
    const third = await eventually(
      () => session.listen(),
      (stream) => stream.status === 200,
    );
    third.close();
  });

  it('HL-08 TOOL-04 S0-26 S0-34 S2-17: unsolicited messages go to the GET stream only, and wait for it', async () => {
    const session = await open('2025-06-18');
    world.echo.announce();
    await sleep(600);
    const stream = await session.listen();
    await stream.until(({ messages }) => messages.some(({ method }) => method === 'notifications/tools/list_changed'));
    const reply = await session.request('tools/list');
    expect(readEvents(reply.body).some(({ data }) => data.includes('list_changed'))).toBe(false);
    stream.close();
  });

  it('HL-09 HL-11 HLC-06 case 12 S1-17: a lost POST stream is not a cancellation; GET with Last-Event-ID returns the rest once', async () => {
    const session = await open('2025-11-25');
    const text = 'resumed';
    const stream = await session.stream('tools/call', {
      name: 'echo__steps',
      arguments: { text, count: 10, size: 1, pause: 100 },
      _meta: { progressToken: 1 },
    });
    await stream.until(({ messages }) => messages.length >= 2);
    const seen = stream.messages.length;
    const last = stream.events.at(-1)!.id!;
    stream.close();
    await sleep(300);
    const again = await session.listen({ 'last-event-id': last });
    expect(again.status).toBe(200);
    await again.end();
    const progress = again.messages
      .filter(({ method }) => method === 'notifications/progress')
      .map(({ params }) => params.progress);
    expect(progress).toEqual(Array.from({ length: 10 - seen }, (_, n) => seen + n + 1));
    expect(textOf(again.messages.at(-1)!)).toBe(text);
    expect(world.echo.cancelled).not.toContain(text);
    // The same point can be requested again while it is kept.
    const third = await session.listen({ 'last-event-id': last });
    await third.end();
    expect(third.messages).toEqual(again.messages);
  });

  it('HL-09 HLC-06: a call whose stream had no messages yet is resumed from its priming event', async () => {
    const session = await open('2025-11-25');
    const stream = await session.stream('tools/call', { name: 'echo__wait', arguments: { text: 'quiet', ms: 1_500 } });
    const primed = await stream.until(({ events }) => events[0]);
    stream.close();
    const again = await session.listen({ 'last-event-id': primed.id! });
    await again.end();
    expect(textOf(again.messages.at(-1)!)).toBe('quiet');
  });

  it('case 14: an unknown, foreign or invalid Last-Event-ID returns no events of others and is not reported as a lost session', async () => {
    const mine = await open('2025-11-25');
    const other = await open('2025-11-25');
    const theirs = await open('2025-11-25', BOB);
    for (const [session, text] of [
      [other, 'of the other session'],
      [theirs, 'of bob'],
    ] as const) {
      const reply = await session.request('tools/call', { ...steps, arguments: { ...steps.arguments, text } });
      expect(reply.status).toBe(200);
    }
    const lastOf = async (session: Session): Promise<string> => {
      const reply = await session.request('tools/call', steps);
      return readEvents(reply.body).at(-1)!.id!;
    };
    const foreign = [await lastOf(other), await lastOf(theirs)];
    for (const last of [
      ...foreign,
      's999.1',
      's0.999999',
      's0.-1',
      's1.0.0',
      '__proto__.1',
      'constructor.1',
      '0',
      '../../etc/passwd',
      "' OR 1=1 --",
      'x'.repeat(10_000),
      '9'.repeat(400),
    ]) {
      const reply = await ask(world.mcp, {
        method: 'GET',
        headers: { ...mine.headers, accept: 'text/event-stream', 'last-event-id': last },
      });
      const [event] = reply.status === 200 ? readEvents(reply.body) : [];
      const { error } = event ? JSON.parse(event.data) : reply.json;
      // An id that names its request is refused as the answer to that request.
      expect([200, 400], `${last.slice(0, 30)}: ${reply.body.slice(0, 200)}`).toContain(reply.status);
      expect(reply.body).not.toContain('of the other session');
      expect(reply.body).not.toContain('of bob');
      expect(error.data.reason).toBe('event_not_found');
    }
  });

  it('case 14: an id of a stream of the same session returns that stream and no other (HL-11)', async () => {
    const session = await open('2025-11-25');
    const run = async (text: string) => {
      const reply = await session.request('tools/call', { ...steps, arguments: { ...steps.arguments, text } }, text);
      return readEvents(reply.body);
    };
    const first = await run('first');
    await run('second');
    const again = await session.listen({ 'last-event-id': first[1]!.id! });
    await again.end();
    expect(again.messages).toHaveLength(3);
    expect(JSON.stringify(again.messages)).not.toContain('second');
    expect(textOf(again.messages.at(-1)!)).toBe('first');
  });

  it('case 14: events beyond the buffer are refused explicitly, not skipped', async () => {
    const session = await open('2025-11-25');
    const reply = await session.request('tools/call', {
      name: 'echo__steps',
      // Slow enough that the gateway drops no progress.
      arguments: { text: 'many', count: 1_200, size: 1, pause: 2 },
      _meta: { progressToken: 1 },
    });
    const events = readEvents(reply.body);
    expect(events.length).toBeGreaterThan(1_200);
    const expired = await ask(world.mcp, {
      method: 'GET',
      headers: { ...session.headers, accept: 'text/event-stream', 'last-event-id': events[1]!.id! },
    });
    expect(expired.status).toBe(200);
    const [refusal, ...more] = readEvents(expired.body).map(({ data }) => JSON.parse(data));
    expect(refusal.id).toBe(JSON.parse(events.at(-1)!.data).id);
    expect(refusal.error).toMatchObject({ code: -32000, data: { reason: 'event_not_found', outcome: 'unknown' } });
    expect(more).toEqual([]);
    const kept = await session.listen({ 'last-event-id': events.at(-3)!.id! });
    await kept.end();
    expect(kept.messages).toHaveLength(2);
  });
});

describe('messages inside a session', () => {
  it.each(LEGACY.slice(1))(
    'HL-02 BASE-06 S0-21: %s: notifications and responses are 202 and empty',
    async (version) => {
      const session = await open(version);
      for (const message of [
        { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 99 } },
        { jsonrpc: '2.0', method: 'notifications/unknown' },
        { jsonrpc: '2.0', id: 'nobody-asked', result: {} },
        { jsonrpc: '2.0', id: 7, error: { code: 1, message: 'no' } },
      ]) {
        const reply = await session.post(message);
        expect(reply.status).toBe(202);
        expect(reply.body).toBe('');
      }
    },
  );

  it.each([
    ['a string', 'abc'],
    ['an empty string', ''],
    ['zero', 0],
    ['a negative number', -5],
    ['a large number', 9007199254740991],
  ])('BASE-04 S2-24: the id is returned unchanged: %s', async (_, id) => {
    const session = await open('2025-11-25');
    expect((await session.request('ping', undefined, id)).json.id).toBe(id);
    expect((await session.call('echo__echo', { text: 'x' }, id)).json.id).toBe(id);
    expect((await session.request('no/such', undefined, id)).json.id).toBe(id);
  });

  it('C-06 C-07 S0-12 S0-37 S0-39 S0-48 S1-62 S4-14: an unknown method is 200 and -32601, an unknown tool -32602, an unknown resource -32002', async () => {
    const session = await open('2025-11-25');
    const method = await session.request('no/such');
    expect([method.status, method.json.error.code, method.json.error.data.reason]).toEqual([
      200,
      -32601,
      'method_not_found',
    ]);
    const tool = await session.call('nowhere__nothing');
    expect([tool.status, tool.json.error.code, tool.json.error.data.reason]).toEqual([200, -32602, 'tool_not_found']);
    const theirs = await session.call('echo__nothing');
    expect([theirs.status, theirs.json.error.code]).toEqual([200, -32602]);
    const resource = await session.request('resources/read', { uri: 'nowhere://x' });
    expect([resource.status, resource.json.error.code, resource.json.error.data.reason]).toEqual([
      200,
      -32002,
      'resource_not_found',
    ]);
    const asModern = await modernCall(world.mcp, 'echo__nothing', {}, { headers: as(ADA) });
    expect([asModern.status, asModern.json.error.code]).toEqual([200, -32602]);
  });

  it('VER-07: a modern request beside a session, on its connection and with its id, is served statelessly', async () => {
    const session = await open('2025-11-25');
    const reply = await modernCall(
      world.mcp,
      'echo__echo',
      { text: 'both' },
      { headers: { ...as(ADA), 'mcp-session-id': session.id } },
    );
    expect(textOf(reply.json)).toBe('both');
    expect(reply.json.result.resultType).toBe('complete');
  });

  it('CAN-01 S1-18: notifications/cancelled ends the call upstream, without a response', async () => {
    const session = await open('2025-11-25');
    const call = await session.stream(
      'tools/call',
      { name: 'echo__wait', arguments: { text: 'cancel me', ms: 20_000 } },
      'c1',
    );
    await session.post({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 'c1', reason: 'no longer' },
    });
    await call.end();
    expect(call.messages).toEqual([]);
    await eventually(
      () => world.echo.cancelled.includes('cancel me'),
      (cancelled) => cancelled,
    );
  });

  it('CAN-01 S3: a session cannot cancel the call of another session', async () => {
    const session = await open('2025-11-25');
    const other = await open('2025-11-25');
    const call = session.call('echo__wait', { text: 'mine', ms: 800 }, 'same');
    await sleep(200);
    await other.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'same' } });
    expect(textOf((await call).json)).toBe('mine');
  });
});
