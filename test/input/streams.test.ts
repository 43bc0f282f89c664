/** Clients that disconnect, stop reading or vanish (cases 12, 13 and 15). */
import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Cancellation, principalOf } from '../../src/core/caller.js';
import type { RequestStates } from '../../src/core/era-bridge/sealed-request-states.js';
import { ALL_SERVERS, type Gateway } from '../../src/core/gateway.js';
import { EventResponse } from '../../src/inbound/http/event-stream-response.js';
import { Listener, SETTINGS } from '../../src/inbound/http/listener.js';
import { ModernRequestHandler } from '../../src/inbound/mcp/modern-requests.js';
import { type RpcRequest, readIncoming } from '../../src/protocol/jsonrpc/message.js';
import { type Classified, classify } from '../../src/protocol/mcp/client-version.js';
import { startFaultProxy } from '../support/fault-proxy.js';
import { failed } from '../support/raw-http-clients.js';
import { type Message, textOf } from './support/message.js';
import { BOTH, modernBody, modernHeaders, Session } from './support/speak.js';
import { ask, EventStream, eventually, sleep, Wire } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

let world: World;
/** Opened first and checked later, because its ping takes a quarter of a minute. */
let quiet: Promise<EventStream>;
let quietSse: Promise<EventStream>;
beforeAll(async () => {
  world = await startWorld();
  quiet = Session.open(world.mcp, '2025-06-18').then((session) => session.listen());
  quietSse = EventStream.open(`${world.url}/sse`, { headers: { accept: 'text/event-stream' } });
});
afterAll(() => world.close());
afterEach(() => world.wellBehaved());

const arrived = (text: string): Promise<unknown> =>
  eventually(() => world.echo.calls.some(({ args }) => args['text'] === text), Boolean);

const streamed = (name: string, args: object, meta: object = { progressToken: 1 }): Promise<EventStream> =>
  EventStream.open(world.mcp, {
    method: 'POST',
    headers: modernHeaders('tools/call', { name }),
    body: modernBody('tools/call', { name, arguments: args }, { meta: meta as Record<string, unknown> }),
  });

describe('case 12: a client that closes the stream of its call', () => {
  it('case 12: modern: the call is cancelled upstream, before and after the stream began (HM-10)', async () => {
    const stream = await streamed('echo__steps', { text: 'left streaming', count: 500, size: 1, pause: 20 });
    await stream.until(({ messages }) => messages.length > 2);
    stream.close();
    await eventually(() => world.echo.cancelled.includes('left streaming'), Boolean);

    const abort = new AbortController();
    const silent = ask(world.mcp, {
      headers: modernHeaders('tools/call', { name: 'echo__wait' }),
      body: modernBody('tools/call', { name: 'echo__wait', arguments: { text: 'left silent', ms: 20_000 } }),
      signal: abort.signal,
    });
    silent.catch(() => {});
    await arrived('left silent');
    abort.abort();
    await eventually(() => world.echo.cancelled.includes('left silent'), Boolean);
    await expect(silent).rejects.toThrow();
  });

  it('case 12: modern: a cut connection cancels the call too', async () => {
    const { hostname, port } = new URL(world.url);
    const socket = connect(Number(port), hostname);
    const body = JSON.stringify(
      modernBody('tools/call', { name: 'echo__wait', arguments: { text: 'reset', ms: 20_000 } }),
    );
    const headers = Object.entries(modernHeaders('tools/call', { name: 'echo__wait' }))
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');
    socket.write(
      `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${headers}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await arrived('reset');
    socket.resetAndDestroy();
    await eventually(() => world.echo.cancelled.includes('reset'), Boolean);
  });

  it('case 12: legacy: the call continues and its result is kept for a resume (HL-09)', async () => {
    const session = await Session.open(world.mcp, '2025-11-25');
    const stream = await session.stream('tools/call', {
      name: 'echo__steps',
      arguments: { text: 'left legacy', count: 20, size: 1, pause: 20 },
      _meta: { progressToken: 1 },
    });
    await stream.until(({ messages }) => messages.length > 2);
    const last = stream.events.at(-1)!.id!;
    stream.close();
    await sleep(800);
    expect(world.echo.cancelled).not.toContain('left legacy');
    const again = await session.listen({ 'last-event-id': last });
    await again.end();
    expect(textOf(again.messages.at(-1)!)).toBe('left legacy');
  });
});

describe('case 13: a client that stops reading', () => {
  /** Sends a request and never reads a byte of the reply. */
  async function stalled(headers: Record<string, string>, body: object): Promise<Wire> {
    const wire = await Wire.open(world.url);
    wire.socket.pause();
    const text = JSON.stringify(body);
    const lines = Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');
    wire.send(
      `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${lines}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
    return wire;
  }

  const flood = (text: string) => ({ name: 'echo__steps', arguments: { text, count: 1_500, size: 20_000, pause: 0 } });

  it('case 13: modern: its socket is destroyed at about 1 MiB, and the call is cancelled', async () => {
    const before = world.memory();
    const params = flood('stalled modern');
    const wire = await stalled(
      modernHeaders('tools/call', params),
      modernBody('tools/call', params, { meta: { progressToken: 1 } }),
    );
    await eventually(() => world.echo.cancelled.includes('stalled modern'), Boolean, 30_000);
    // 30 MB were to be sent; the bytes kept for one client are bounded.
    expect(world.memory() - before).toBeLessThan(64);
    wire.socket.resume();
    await wire.until(() => wire.closed);
    expect(wire.received.length).toBeLessThan(16 * 1024 * 1024);
    expect(wire.text).not.toContain('"text":"stalled modern"');
  });

  it('case 13: a message of more than 1 MiB reaches a client that reads', async () => {
    const stream = await streamed('echo__steps', { text: 'large', count: 3, size: 4_000_000, pause: 1_500 });
    const { result } = await stream.until<Message>(({ messages }) => messages.find(({ id }) => id !== undefined));
    expect(textOf({ result } as Message)).toBe('large');
    expect(stream.messages.filter(({ method }) => method === 'notifications/progress')).toHaveLength(3);
    stream.close();
  });

  it('case 13: legacy: its socket is destroyed too, but the call continues, and a resume gets the kept events or an error', async () => {
    const session = await Session.open(world.mcp, '2025-11-25');
    const before = world.memory();
    const params = { ...flood('stalled legacy'), _meta: { progressToken: 1 } };
    const wire = await stalled(session.headers, { jsonrpc: '2.0', id: 9, method: 'tools/call', params });
    await eventually(() => world.echo.done.includes('stalled legacy'), Boolean, 60_000);
    wire.socket.resume();
    await wire.until(() => wire.closed, 30_000);
    const ids = [...wire.text.matchAll(/^id: (\S+)$/gm)].map((match) => match[1]!);
    expect(ids.length).toBeGreaterThan(0);
    const early = await ask(world.mcp, {
      method: 'GET',
      headers: { ...session.headers, accept: 'text/event-stream', 'last-event-id': ids[1]! },
    });
    expect(early.status).toBe(200);
    const refusal = JSON.parse(/^data: (.*)$/m.exec(early.body)![1]!);
    expect(refusal).toMatchObject({ id: 9, error: { data: { reason: 'event_not_found', outcome: 'unknown' } } });
    expect(world.echo.cancelled).not.toContain('stalled legacy');
    expect(world.memory() - before).toBeLessThan(96);
    await session.end();
  });

  it('case 13: an unread GET stream holds no more than its buffer', async () => {
    const session = await Session.open(world.mcp, '2025-06-18');
    const stream = await session.listen();
    stream.res.pause();
    for (let i = 0; i < 30; i++) {
      world.echo.announce();
      await sleep(5);
    }
    expect((await session.request('ping')).status).toBe(200);
    stream.close();
  });
});

describe('case 15: a client that vanished silently', () => {
  it('case 15 S0-05 S1-29: streams are pinged with comments (HM-09), those of HTTP+SSE too', async () => {
    for (const stream of [await quiet, await quietSse]) {
      await stream.until(({ comments }) => comments.some((comment) => /^\s*ping \d+/.test(comment)), 20_000);
      stream.close();
    }
  });

  it('case 15: behind a black hole neither the stream nor its session blocks others', async () => {
    const proxy = await startFaultProxy({ port: Number(new URL(world.url).port) });
    const session = await Session.open(world.mcp, '2025-11-25');
    const stream = await EventStream.open(`http://127.0.0.1:${proxy.port}/mcp`, {
      headers: { ...session.headers, accept: 'text/event-stream' },
    });
    await stream.until(({ events }) => events[0]);
    proxy.set({ blackHole: true });
    world.echo.announce();
    // The client reconnects by another path while the old connection looks open: it resumes and gets the missed events.
    const again = await session.listen({ 'last-event-id': stream.events[0]!.id! });
    expect(again.status).toBe(200);
    await again.until<Message>(({ messages }) =>
      messages.find(({ method }) => method === 'notifications/tools/list_changed'),
    );
    again.close();
    await proxy.close();
    stream.close();
  });

  it('case 15: a resumed stream ends on its previous connection', async () => {
    const session = await Session.open(world.mcp, '2025-11-25');
    const stream = await session.listen();
    const { id } = await stream.until(({ events }) => events[0]);
    const again = await session.listen({ 'last-event-id': id! });
    await stream.end();
    expect(again.ended).toBe(false);
    again.close();
  });

  it('case 15: a subscription beyond its maximum age ends with its result (SUB-06)', async () => {
    const said: Message[] = [];
    let closed = 0;
    const gateway = {
      call: () => Promise.reject(new Error('not asked')),
      listen: () => Promise.resolve({ honoured: { toolsListChanged: true }, close: () => closed++ }),
    };
    const endpoint = new ModernRequestHandler(
      gateway as unknown as Gateway,
      { name: 'parley', version: '1' },
      {} as RequestStates,
    );
    const message = readIncoming(
      Buffer.from(
        JSON.stringify(
          modernBody('subscriptions/listen', { notifications: { toolsListChanged: true } }, { id: 'old' }),
        ),
      ),
      { depth: 64 },
    ) as RpcRequest;
    const { envelope } = classify(message) as Extract<Classified, { kind: 'modern' }>;
    await endpoint.handle({
      principal: principalOf({ subject: 'local' }),
      view: ALL_SERVERS,
      message,
      envelope,
      channel: {
        send: (text) => said.push(JSON.parse(text.toString()) as Message),
        finish: (parts) => said.push(JSON.parse(Buffer.concat(parts).toString()) as Message),
      },
      cancellation: new Cancellation(),
      header: undefined,
      maxAge: 100,
    });
    await eventually(
      () => said.length,
      (count) => count === 2,
    );
    expect(said[1]).toMatchObject({
      id: 'old',
      result: { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': 'old' } },
    });
    expect(closed).toBe(1);
  });

  /** Tests the class that the gateway uses, with shorter times. */
  describe('the age of a stream', () => {
    let server: Listener;
    let url: string;
    let aged: string[] = [];
    beforeAll(async () => {
      server = new Listener({
        settings: { times: { ...SETTINGS.times, idle: 1_000 } },
        handle: (_, res) => {
          const response = new EventResponse(res, [], {
            ping: 50,
            maxAge: 400,
            aged: () => {
              aged.push('aged');
              response.write('retry: 1000\n\n');
            },
          });
        },
        refuse: (_, __, error) => {
          throw error;
        },
        failed,
      });
      url = `http://127.0.0.1:${(await server.listen('127.0.0.1', 0)).port}`;
    });
    afterAll(async () => {
      const closed = server.close();
      server.closeAll();
      await closed;
    });

    it('case 15: is limited: the stream gets a closing message, and then ends', async () => {
      aged = [];
      const stream = await EventStream.open(url);
      await stream.end(5_000);
      expect(stream.comments.length).toBeGreaterThan(3);
      expect(stream.retries).toEqual([1_000]);
      expect(aged).toEqual(['aged']);
    });

    it('case 15: is limited behind a black hole too, and the connection is freed', async () => {
      const proxy = await startFaultProxy({ port: Number(new URL(url).port) });
      const stream = await EventStream.open(`http://127.0.0.1:${proxy.port}`);
      proxy.set({ blackHole: true });
      await eventually(
        () => server.count,
        (count) => count === 0,
        10_000,
      );
      await proxy.close();
      stream.close();
    });
  });
});

it('HM-05: a reply larger than the limit of unread bytes reaches a client that reads', async () => {
  const text = 'y'.repeat(3 * 1024 * 1024);
  const session = await Session.open(world.mcp, '2025-06-18');
  const reply = await session.post(
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo__echo', arguments: { text } } },
    { accept: BOTH },
  );
  expect(textOf(reply.json)).toHaveLength(text.length);
});
