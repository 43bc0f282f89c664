import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually, exchange, sleep, Wire } from '../../../test/input/support/wire.js';
import { failed } from '../../../test/support/raw-http-clients.js';
import { TokenAuthenticator } from '../../identity/token-authenticator.js';
import { ProtocolError } from '../../protocol/errors.js';
import { SILENT } from '../../telemetry/log.js';
import { EventResponse } from './event-stream-response.js';
import { Origins } from './host-and-origin.js';
import { Listener, type ListenerSettings, SETTINGS } from './listener.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';
import type { ErrorFormat, Route } from './route.js';
import { RouteTable } from './route-table.js';
import { sendText } from './send-body.js';
import { HttpServer } from './server.js';

type Handle = (req: InboundRequest, res: InboundResponse) => void;

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';
const ok: Handle = (req, res) => res.sendText(200, [], req.target);

async function listen(
  handle: Handle = ok,
  settings: Partial<ListenerSettings> = {},
): Promise<{ listener: Listener; url: string; refused: string[] }> {
  const refused: string[] = [];
  const listener = new Listener({
    settings,
    handle,
    refuse: (_, res, error) => {
      if (!(error instanceof ProtocolError)) throw error;
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
  it('reports the problem with its address', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    const listener = new Listener({ handle: ok, refuse: () => {}, failed });
    await expect(listener.listen('127.0.0.1', port)).rejects.toMatchObject({ code: 'EADDRINUSE' });
    await listener.close();
    await new Promise((resolve) => taken.close(resolve));
  });

  it('refuses slow requests', async () => {
    const { listener, url, refused } = await listen(
      (req, res) => {
        if (req.method === 'GET') ok(req, res);
      },
      { times: { head: 500, request: 1_000, idle: 1_000 } },
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

  describe('at its connection limit', () => {
    const full = { limits: { ...SETTINGS.limits, connections: 3 } };
    const held: InboundResponse[] = [];
    const hold: Handle = (req, res) => {
      if (req.target === '/held') held.push(res);
      else ok(req, res);
    };
    const HELD = GET.replace('/', '/held');
    afterEach(() => void held.splice(0));

    it('closes the connection that has been idle the longest', async () => {
      const { listener, url } = await listen(hold, full);
      const busy = await sent(url, HELD);
      await eventually(
        () => held.length,
        (count) => count === 1,
      );
      const first = await sent(url, GET);
      await answered(first);
      const second = await sent(url, GET);
      await answered(second);
      // Now the second connection has been idle for longer.
      first.send(GET);
      await answered(first, 2);
      const third = await sent(url, GET);
      await answered(third);
      await second.until(() => second.closed);
      expect([busy.closed, first.closed, third.closed]).toEqual([false, false, false]);
      expect(listener.count).toBe(3);
    });

    it('closes a connection that never sent a request', async () => {
      const { url } = await listen(hold, full);
      const silent = [await sent(url, ''), await sent(url, ''), await sent(url, '')];
      await answered(await sent(url, GET));
      await silent[0]!.until(() => silent[0]!.closed);
      expect(silent.map(({ closed }) => closed)).toEqual([true, false, false]);
    });

    it('accepts no other while all of them are busy, and accepts again when one has closed', async () => {
      const { listener, url } = await listen(hold, full);
      const busy = [await sent(url, HELD), await sent(url, HELD), await sent(url, HELD)];
      await eventually(
        () => held.length,
        (count) => count === 3,
      );
      const fourth = await sent(url, GET);
      await fourth.until(() => fourth.closed);
      expect(fourth.text).toBe('');
      expect(listener.count).toBe(3);
      held[0]!.sendText(200, [], 'done');
      await answered(busy[0]!);
      await answered(await sent(url, GET));
    });
  });

  describe('with a limit for each address', () => {
    const few = { limits: { ...SETTINGS.limits, connectionsPerAddress: 2 } };

    it('refuses one more from the same address, and stops counting closed connections', async () => {
      const told: object[] = [];
      const log = { ...SILENT, warn: (fields: object) => void told.push(fields) };
      const counted: string[] = [];
      const { listener, url } = await listen(ok, { ...few, log, limited: (limit) => counted.push(limit) });
      const wires = [await sent(url, GET), await sent(url, GET)];
      await Promise.all(wires.map((wire) => answered(wire)));
      for (let i = 0; i < 3; i++) {
        const third = await sent(url, GET);
        await third.until(() => third.closed);
        expect(third.text).toBe('');
      }
      // Logged once per interval, because clients decide how often it happens.
      expect(told).toEqual([{ limit: 'limits.connectionsPerAddress', peer: '127.0.0.1' }]);
      expect(counted).toEqual(Array.from({ length: 3 }, () => 'limits.connectionsPerAddress'));
      wires[0]!.close();
      await eventually(
        () => listener.count,
        (count) => count === 1,
      );
      await answered(await sent(url, GET));
    });

    it('exempts trusted proxies', async () => {
      const { listener, url } = await listen(ok, { ...few, trustedProxies: ['127.0.0.0/8'] });
      const wires = await Promise.all([1, 2, 3, 4].map(() => sent(url, GET)));
      await Promise.all(wires.map((wire) => answered(wire)));
      expect(listener.count).toBe(4);
    });
  });

  it('announces that it stops, and ends each connection after its response', async () => {
    const { listener, url } = await listen();
    const wire = await sent(url, GET);
    await answered(wire);
    listener.leaving = true;
    wire.send(GET + GET);
    await wire.until(() => wire.closed);
    expect(wire.statuses).toEqual([200, 200]);
    expect(wire.text.match(/connection: .*/gi)).toEqual(['Connection: keep-alive', 'Connection: close']);
  });

  it('announces that it stops at the start of a stream, and ends the connection after it', async () => {
    const { listener, url } = await listen((_, res) => {
      res.open(200, []);
      setTimeout(() => res.end(), 10);
    });
    listener.leaving = true;
    expect((await exchange(url, GET)).text).toMatch(/\r\nConnection: close\r\n.*\r\n\r\n0\r\n\r\n$/s);
  });

  it('closes idle connections', async () => {
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

  it('closes all connections', async () => {
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
    ['a ProtocolError', () => new ProtocolError('internal', 'a bug')],
  ])('responds to a request that failed with %s', async (_, error) => {
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

const TEXT: ErrorFormat = {
  name: 'text',
  write: ({ res, headers }, error) => {
    if (res.begun) res.end();
    else
      sendText(
        res,
        error.row.http,
        [...headers, ...Object.entries(error.detail.headers ?? {}).flat()],
        'text/plain',
        error.reason,
      );
  },
};

describe('the gateway on a socket', () => {
  async function serve(
    handle: Route['handle'],
    listener: Partial<ListenerSettings> = {},
    hosts: string[] = [],
  ): Promise<{ url: string; failed: string[] }> {
    const failed: string[] = [];
    const server = new HttpServer({
      authenticator: new TokenAuthenticator([]),
      origins: new Origins({ loopback: true, hosts, origins: [], corsOrigins: [], credentials: false }),
      routes: new RouteTable({
        routes: (['GET', 'POST'] as const).map((method) => ({
          method,
          path: '/',
          access: 'public' as const,
          errors: TEXT,
          description: 'The route of a test',
          handle,
        })),
        errors: TEXT,
      }),
      listener,
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
  ])('responds if a route fails %s', async (_, handle) => {
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
    'responds if a route sends the invalid header value %j',
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

  it('responds to invalid requests', async () => {
    const { url } = await serve(({ res }) => sendText(res, 200, [], 'text/plain', 'abc'));
    expect((await exchange(url, 'nonsense\r\n\r\n')).statuses).toEqual([400]);
    expect((await exchange(url, `\x16\x03\x01`)).statuses).toEqual([400]);
  });

  it('refuses other hosts and keeps the connection', async () => {
    const { url } = await serve(({ res }) => sendText(res, 200, [], 'text/plain', 'abc'));
    const wire = await sent(url, GET.replace('localhost', 'elsewhere') + GET);
    await answered(wire, 2);
    expect(wire.statuses).toEqual([403, 200]);
  });

  describe('behind a proxy', () => {
    const told: Route['handle'] = ({ req, res }) =>
      sendText(res, 200, [], 'text/plain', `${req.clientAddress} ${req.forwardedUrl}`);
    const from = (...headers: string[]): string => GET.replace('\r\n\r\n', `\r\n${headers.join('\r\n')}\r\n\r\n`);
    const CLIENT = 'X-Forwarded-For: 192.0.2.1';
    const trusted = { trustedProxies: ['127.0.0.1'] };
    const bodyOf = ({ text }: Wire): string => text.slice(text.lastIndexOf('\r\n') + 2);

    it('uses its forwarding headers only if the proxy is trusted', async () => {
      const request = from(CLIENT, 'X-Forwarded-Proto: https', 'X-Forwarded-Host: gw.example', 'Connection: close');
      expect(bodyOf(await exchange((await serve(told)).url, request))).toBe('127.0.0.1 undefined');
      const { url } = await serve(told, trusted, ['gw.example']);
      expect(bodyOf(await exchange(url, request))).toBe('192.0.2.1 https://gw.example');
      // A host that the gateway does not serve is not echoed.
      const strange = await serve(told, trusted);
      expect(bodyOf(await exchange(strange.url, request))).toBe('192.0.2.1 https://localhost');
      // Most proxies pass the Host header on unchanged.
      const plain = from(CLIENT, 'X-Forwarded-Proto: https', 'Connection: close').replace('localhost', 'gw.example');
      expect(bodyOf(await exchange(url, plain))).toBe('192.0.2.1 https://gw.example');
    });

    it('bounds the requests of each client, not the connections of the proxy', async () => {
      const held: (() => void)[] = [];
      const { url } = await serve(
        ({ req, res }) => void held.push(() => sendText(res, 200, [], 'text/plain', req.clientAddress)),
        { ...trusted, limits: { ...SETTINGS.limits, connectionsPerAddress: 2 } },
      );
      const wires = [await sent(url, from(CLIENT)), await sent(url, from(CLIENT))];
      await eventually(
        () => held.length,
        (count) => count === 2,
      );
      const third = await sent(url, from(CLIENT));
      await answered(third);
      expect(third.text).toMatch(/^HTTP\/1\.1 429 .*\r\nRetry-After: 1\r\n/s);
      const other = await sent(url, from('X-Forwarded-For: 192.0.2.2'));
      // A health check of the proxy itself names no client.
      const own = [await sent(url, GET), await sent(url, GET), await sent(url, GET)];
      await eventually(
        () => held.length,
        (count) => count === 6,
      );
      for (const answer of held) answer();
      await Promise.all([...wires, other, ...own].map((wire) => answered(wire)));
      third.send(from(CLIENT));
      await eventually(
        () => held.length,
        (count) => count === 7,
      );
      held.at(-1)!();
      await answered(third, 2);
      expect(third.statuses).toEqual([429, 200]);
    });
  });

  it.each(['gzip', 'br', 'deflate, gzip'])('refuses a body with the content coding %s', async (coding) => {
    const { url } = await serve(({ res }) => sendText(res, 200, [], 'text/plain', 'abc'));
    const post = (value: string): string =>
      `POST / HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: ${value}\r\nContent-Length: 3\r\n\r\nabc`;
    const wire = await sent(url, post(coding) + post('identity'));
    await answered(wire, 2);
    expect(wire.statuses).toEqual([415, 200]);
    expect(wire.text).toContain('\r\nAccept-Encoding: identity\r\n');
  });
});
