import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually, exchange, sleep, Wire } from '../../../test/input/support/wire.js';
import { failed } from '../../../test/support/http-wire.js';
import { Guard } from '../../identity/guard.js';
import { ProtocolError } from '../../protocol/errors.js';
import { TIMES, type Times } from './connection.js';
import { Listener } from './listener.js';
import { Origins } from './origin.js';
import { sendText } from './reply.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';
import { HttpServer, type Route } from './server.js';
import { EventResponse } from './stream.js';

type Handle = (req: InboundRequest, res: InboundResponse) => void;

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';
const ok: Handle = (req, res) => res.sendText(200, [], req.target);

async function listen(
  handle: Handle = ok,
  times: Times = TIMES,
  maxConnections = 100,
): Promise<{ listener: Listener; url: string; refused: string[] }> {
  const refused: string[] = [];
  const listener = new Listener({
    maxConnections,
    times,
    handle,
    refuse: (_, res, error: ProtocolError) => {
      refused.push(error.reason);
      res.sendText(error.row.http, [], error.reason);
    },
    failed,
  });
  const { port } = await listener.listen('127.0.0.1', 0);
  stops.push(async () => {
    const closed = listener.close();
    listener.closeAll();
    await closed;
  });
  return { listener, url: `http://127.0.0.1:${port}`, refused };
}

async function sent(url: string, text: string): Promise<Wire> {
  const wire = await Wire.open(url);
  if (text) wire.send(text);
  return wire;
}

const answered = (wire: Wire, count = 1): Promise<void> => wire.until(() => wire.statuses.length >= count);

describe('a listener', () => {
  it('tells what is wrong with its address', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    const listener = new Listener({ maxConnections: 1, handle: ok, refuse: () => {}, failed });
    await expect(listener.listen('127.0.0.1', port)).rejects.toMatchObject({ code: 'EADDRINUSE' });
    await listener.close();
    await new Promise((resolve) => taken.close(resolve));
  });

  it('sees by its clock who takes too long', async () => {
    const { listener, url, refused } = await listen(
      (req, res) => {
        if (req.complete) ok(req, res);
      },
      { ...TIMES, head: 1, request: 2, idle: 1, parting: 0 },
    );
    const idle = await sent(url, GET);
    const silent = await sent(url, '');
    const half = await sent(url, GET.slice(0, -2));
    const body = await sent(url, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc');
    const all = [idle, silent, half, body];
    await Promise.all(all.map((wire) => wire.until(() => wire.closed)));
    expect(all.map(({ statuses }) => statuses)).toEqual([[200], [408], [408], [408]]);
    expect(idle.text).toContain('\r\nKeep-Alive: timeout=1\r\n');
    expect(refused).toHaveLength(3);
    await eventually(
      () => listener.count,
      (count) => count === 0,
    );
  });

  it('takes no more connections than it may, and others when one has gone', async () => {
    const { listener, url } = await listen(ok, TIMES, 2);
    const wires = [await sent(url, GET), await sent(url, GET)];
    await Promise.all(wires.map((wire) => answered(wire)));
    const third = await sent(url, GET);
    await third.until(() => third.closed);
    expect(third.text).toBe('');
    expect(listener.count).toBe(2);
    wires[0]!.close();
    await eventually(
      () => listener.count,
      (count) => count === 1,
    );
    await answered(await sent(url, GET));
  });

  it('says that it leaves, and ends each connection with its answer', async () => {
    const { listener, url } = await listen();
    const wire = await sent(url, GET);
    await answered(wire);
    listener.leaving = true;
    wire.send(GET + GET);
    await wire.until(() => wire.closed);
    expect(wire.statuses).toEqual([200, 200]);
    expect(wire.text.match(/connection: .*/gi)).toEqual(['Connection: keep-alive', 'Connection: close']);
  });

  it('says that it leaves where a stream begins, and ends the connection with it', async () => {
    const { listener, url } = await listen((_, res) => {
      res.open(200, []);
      setTimeout(() => res.end(), 10);
    });
    listener.leaving = true;
    expect((await exchange(url, GET)).text).toMatch(/\r\nConnection: close\r\n\r\n0\r\n\r\n$/);
  });

  it('lets go of those that wait for nothing', async () => {
    const held: InboundResponse[] = [];
    const { listener, url } = await listen((req, res) => {
      if (req.target === '/held') held.push(res);
      else ok(req, res);
    });
    const [fresh, kept, half, busy] = [
      await sent(url, ''),
      await sent(url, GET),
      await sent(url, GET.slice(0, -2)),
      await sent(url, GET.replace('/', '/held')),
    ];
    await answered(kept);
    await eventually(
      () => [held.length, listener.count],
      ([holding, count]) => holding === 1 && count === 4,
    );
    const closed = listener.close();
    listener.closeIdle();
    await Promise.all([fresh, kept].map((wire) => wire.until(() => wire.closed)));
    expect([half.closed, busy.closed]).toEqual([false, false]);
    half.send('\r\n');
    held[0]!.sendText(200, [], 'late');
    await Promise.all([half, busy].map((wire) => answered(wire)));
    listener.closeIdle();
    await closed;
    expect(listener.count).toBe(0);
  });

  it('lets go of everybody', async () => {
    const finished: boolean[] = [];
    const { listener, url } = await listen((_, res) => res.onClose(() => finished.push(res.finished)));
    const wires = [await sent(url, ''), await sent(url, GET), await sent(url, GET.slice(0, 9))];
    await eventually(
      () => listener.count,
      (count) => count === 3,
    );
    await sleep(20);
    const closed = listener.close();
    listener.closeAll();
    await closed;
    await Promise.all(wires.map((wire) => wire.until(() => wire.closed)));
    expect(finished).toEqual([false]);
    await expect(Wire.open(url)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it.each<[string, () => Error]>([
    ['an error', () => new Error('a bug')],
    ['one that belongs to a protocol', () => new ProtocolError('internal', 'a bug')],
  ])('does not leave a client waiting whose request failed with %s', async (_, error) => {
    const { url } = await listen((req, res) => {
      if (req.target === '/fail') throw error();
      ok(req, res);
    });
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', () => {});
    try {
      const wire = await sent(url, GET.replace('/', '/fail'));
      await wire.until(() => wire.closed || wire.statuses.length > 0, 3_000);
      await answered(await sent(url, GET));
    } finally {
      process.removeAllListeners('uncaughtException');
      for (const other of others) process.on('uncaughtException', other);
    }
  });
});

describe('the gateway at its address', () => {
  async function serve(handle: Route['handle'], refuseWith: string[] = []): Promise<{ url: string; failed: string[] }> {
    const failed: string[] = [];
    const server = new HttpServer({
      guard: new Guard([]),
      origins: new Origins({ loopback: true, hosts: [], origins: [], corsOrigins: [], credentials: false }),
      router: () => ({ open: true, handle }),
      maxConnections: 100,
      refuse: ({ res, headers }, error) => {
        if (res.begun) res.end();
        else
          sendText(
            res,
            error.row.http,
            [...headers, ...Object.entries(error.detail.headers ?? {}).flat(), ...refuseWith],
            'text/plain',
            error.reason,
          );
      },
      failed: (error) => void failed.push((error as Error).message),
    });
    const { port } = await server.listen('127.0.0.1', 0);
    stops.push(() => server.close(Promise.resolve()));
    return { url: `http://127.0.0.1:${port}`, failed };
  }

  it.each<[string, Route['handle']]>([
    [
      'at once',
      () => {
        throw new Error('a bug');
      },
    ],
    ['later', () => sleep(5).then(() => Promise.reject(new Error('a bug')))],
  ])('answers where a route fails %s', async (_, handle) => {
    const { url, failed } = await serve(handle);
    const wire = await sent(url, GET + GET);
    await answered(wire, 2);
    expect(wire.statuses).toEqual([500, 500]);
    expect(failed).toEqual(['a bug', 'a bug']);
  });

  it('ends a stream whose route fails', async () => {
    const { url } = await serve(({ res }) => {
      res.open(200, []);
      res.write('abc');
      throw new Error('a bug');
    });
    const wire = await sent(url, GET);
    await wire.until(() => wire.text.endsWith('3\r\nabc\r\n0\r\n\r\n'));
  });

  it.each(['a\r\nSet-Cookie: b', 'a\nb', '\0', '\u2028'])(
    'answers where a route would send the value %j',
    async (value) => {
      for (const handle of [
        ({ res }) => sendText(res, 200, ['X', value], 'text/plain', 'abc'),
        ({ res }) => res.send(200, ['X', value], [Buffer.alloc(100_000)]),
        ({ res }) => void new EventResponse(res, ['X', value]),
      ] as Route['handle'][]) {
        const { url, failed } = await serve(handle);
        const wire = await sent(url, GET);
        await answered(wire);
        expect(wire.statuses).toEqual([500]);
        expect(wire.text).not.toContain('Set-Cookie');
        expect(failed).toHaveLength(1);
      }
    },
  );

  it('answers what is no request', async () => {
    const { url } = await serve(({ res }) => sendText(res, 200, [], 'text/plain', 'abc'));
    expect((await exchange(url, 'nonsense\r\n\r\n')).statuses).toEqual([400]);
    expect((await exchange(url, `\x16\x03\x01`)).statuses).toEqual([400]);
  });

  it('has no say for other hosts, and keeps the connection', async () => {
    const { url } = await serve(({ res }) => sendText(res, 200, [], 'text/plain', 'abc'));
    const wire = await sent(url, GET.replace('localhost', 'elsewhere') + GET);
    await answered(wire, 2);
    expect(wire.statuses).toEqual([403, 200]);
  });
});
