import { afterEach, describe, expect, it } from 'vitest';
import {
  Client,
  closeAll,
  echo,
  get,
  post,
  type Reply,
  serve,
  sleep,
  turn,
  until,
} from '../../../test/support/raw-http-clients.js';
import type { ProtocolError } from '../../protocol/errors.js';
import { Connection } from './connection.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';

afterEach(closeAll);

const connectionOf = ({ source }: InboundRequest): Connection => {
  if (!(source instanceof Connection)) throw new Error('not on a connection');
  return source;
};

describe('a client that disconnects', () => {
  interface Seen {
    closes: number;
    finished: boolean | undefined;
    body: string;
  }
  /** Records the events of one request. */
  const watch = (req: InboundRequest, res: InboundResponse, seen: Seen): void => {
    res.onClose(() => {
      seen.closes++;
      seen.finished = res.finished;
    });
    void (async () => req.read(1_000_000))().then(
      () => {
        seen.body = 'read';
      },
      (error: ProtocolError) => {
        seen.body = error.reason;
      },
    );
  };
  const leave: Record<string, (client: Client) => void> = {
    FIN: ({ socket }) => void socket.end(),
    RST: ({ socket }) => void socket.resetAndDestroy(),
    'a destroyed socket': ({ socket }) => void socket.destroy(),
  };
  const ways = Object.keys(leave);

  it.each(ways)('before all of its body, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    let res: InboundResponse | undefined;
    const { port, listener } = await serve((req, given) => {
      res = given;
      watch(req, given, seen);
    });
    const client = (await Client.open(port, true)).send(post('/a', 'hello').slice(0, -1));
    await until(() => res !== undefined);
    leave[way]!(client);
    await until(() => seen.closes > 0 && listener.count === 0);
    await turn();
    expect(seen).toEqual({ closes: 1, finished: false, body: 'invalid_request' });
    // This call comes too late to have an effect.
    res!.sendText(200, [], 'late');
    res!.open(200, []);
    res!.write('late');
    res!.end();
    res!.destroy();
    await turn();
    expect(seen.closes).toBe(1);
    expect(res!.finished).toBe(false);
  });

  it.each(ways)('before its response, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    const { port, listener } = await serve((req, res) => watch(req, res, seen));
    const client = (await Client.open(port, true)).send(post('/a', 'hello'));
    await until(() => seen.body !== '');
    leave[way]!(client);
    await until(() => seen.closes > 0 && listener.count === 0);
    expect(seen).toEqual({ closes: 1, finished: false, body: 'read' });
  });

  it.each(ways)('during its response, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    let res: InboundResponse | undefined;
    const { port, listener } = await serve((req, given) => {
      res = given;
      watch(req, given, seen);
      given.open(200, []);
      given.write('abc');
    });
    const client = (await Client.open(port, true)).send(post('/a', 'hello'));
    await until(() => client.text.endsWith('abc\r\n'));
    leave[way]!(client);
    await until(() => seen.closes > 0 && listener.count === 0);
    res!.write('def');
    res!.end();
    await turn();
    expect(seen).toEqual({ closes: 1, finished: false, body: 'read' });
  });

  it.each(ways.slice(1))('during a response it does not read, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    const { port, listener } = await serve((req, res) => {
      watch(req, res, seen);
      res.send(200, [], [Buffer.alloc(50_000_000)]);
    });
    const client = await Client.open(port, true);
    client.send(post('/a', 'hello'));
    client.socket.pause();
    await sleep(50);
    expect(seen.closes).toBe(0);
    leave[way]!(client);
    await until(() => seen.closes > 0 && listener.count === 0);
    expect(seen).toEqual({ closes: 1, finished: false, body: 'read' });
  });

  const switches = [
    get('/b', 'Connection: Upgrade', 'Upgrade: websocket'),
    get('/b', 'Connection: Upgrade', 'Upgrade: h2c'),
    'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n',
  ];
  it.each(ways.flatMap((way) => switches.map((text) => [way, text] as const)))(
    'during a response after which it wants another protocol, by %s: %j',
    async (way, text) => {
      const uncaught: unknown[] = [];
      const note = (error: unknown): void => void uncaught.push(error);
      process.on('uncaughtExceptionMonitor', note);
      let closes = 0;
      const { port, listener } = await serve((_, res) => {
        res.onClose(() => closes++);
        res.open(200, []);
        const ticking = setInterval(() => res.write('data: x\n\n'), 5);
        res.onClose(() => clearInterval(ticking));
      });
      const client = (await Client.open(port)).send(get('/a') + text);
      await until(() => client.text.includes('data: x'));
      leave[way]!(client);
      if (way === 'FIN') client.socket.destroy();
      await until(() => closes === 1 && listener.count === 0);
      await sleep(20);
      process.off('uncaughtExceptionMonitor', note);
      expect(uncaught).toEqual([]);
    },
  );

  it.each(ways)('after its response, by %s', async (way) => {
    const seen: Seen = { closes: 0, finished: undefined, body: '' };
    const { port, listener } = await serve((req, res) => {
      watch(req, res, seen);
      res.sendText(200, [], 'hello');
    });
    const client = (await Client.open(port, true)).send(post('/a', 'hello'));
    await client.reply();
    leave[way]!(client);
    await until(() => listener.count === 0);
    expect(seen).toEqual({ closes: 1, finished: true, body: 'read' });
  });

  it('its response is not reported as finished if it failed: while the disconnect is processed', async () => {
    const finished: boolean[] = [];
    const { port } = await serve((req, res) => {
      res.onClose(() => finished.push(res.finished));
      connectionOf(req).socket.once('end', () =>
        // Continue after the socket has acknowledged the end.
        process.nextTick(() =>
          process.nextTick(() => {
            res.open(200, []);
            res.end();
          }),
        ),
      );
    });
    const client = (await Client.open(port, true)).send(get('/a'));
    await sleep(20);
    client.socket.end();
    await until(() => finished.length > 0);
    await client.end();
    expect(client.text).toBe('');
    expect(finished).toEqual([false]);
  });

  it.each<[string, (res: InboundResponse) => void]>([
    ['in one piece', (res) => res.sendText(200, [], 'late')],
    ['in pieces', (res) => res.send(200, [], [Buffer.alloc(20_000)])],
    [
      'as a stream',
      (res) => {
        res.open(200, []);
        res.end();
      },
    ],
  ])('its response is not reported as finished if it failed: after the connection was cut, %s', async (_, answer) => {
    const finished: boolean[] = [];
    const { port } = await serve((req, res) => {
      res.onClose(() => finished.push(res.finished));
      connectionOf(req).destroy();
      answer(res);
    });
    (await Client.open(port)).send(get('/a'));
    await until(() => finished.length > 0);
    await sleep(10);
    expect(finished).toEqual([false]);
  });

  it('its response is not reported as finished if it failed: before the disconnect is noticed', async () => {
    const finished: boolean[] = [];
    let answer: (() => void) | undefined;
    const { port, listener } = await serve((_, res) => {
      res.onClose(() => finished.push(res.finished));
      answer = () => res.sendText(200, [], 'late');
    });
    const client = await Client.open(port);
    // Send so many more requests that the gateway stops reading.
    client.send(get('/a') + get('/b').repeat(10_000));
    await sleep(100);
    client.socket.resetAndDestroy();
    await sleep(50);
    answer!();
    await until(() => listener.count === 0);
    expect(finished).toEqual([false]);
  });

  it('is noticed while its request runs, with a body of any size', async () => {
    let closes = 0;
    let waiting = 0;
    const { port } = await serve((req, res) => {
      res.onClose(() => closes++);
      void req.read(1_000_000).then(() => waiting++);
    });
    const client = (await Client.open(port)).send(post('/a', 'a'.repeat(100_000)));
    await until(() => waiting === 1);
    client.socket.destroy();
    await until(() => closes === 1);
  });

  it('a listener on a closed response is called', async () => {
    const heard: string[] = [];
    const { port } = await serve((_, res) => {
      res.onClose(() => {
        heard.push('first');
        res.onClose(() => heard.push('later'));
      });
    });
    const client = (await Client.open(port)).send(get('/a'));
    await sleep(20);
    client.socket.destroy();
    await until(() => heard.length === 2);
    expect(heard).toEqual(['first', 'later']);
  });
});

describe('large responses to slow readers', () => {
  it('arrive completely, finish at their end, and keep the connection open', async () => {
    const body = Buffer.alloc(5_000_000);
    for (let i = 0; i < body.length; i += 4) body.writeUInt32LE(i, i);
    const closed: [string, boolean][] = [];
    const { port } = await serve((req, res) => {
      res.onClose(() => closed.push([req.target, res.finished]));
      if (req.target === '/stream') {
        res.open(200, []);
        for (let at = 0; at < body.length; at += 70_000) res.write([body.subarray(at, at + 70_000)]);
        res.end();
      } else if (req.target === '/one') res.send(200, [], [body.subarray(0, 1_000), body.subarray(1_000)]);
      else res.sendText(200, [], 'next');
    });
    const client = await Client.open(port);
    const { socket } = client;
    let unread = true;
    socket.on('data', () => {
      socket.pause();
      unread = closed.length === 0;
      setTimeout(() => socket.resume(), 1);
    });
    client.send(get('/one') + get('/stream') + get('/next'));
    const seen: Reply[] = await (async () => {
      await until(
        () => closed.length === 3,
        () => closed,
      );
      await client.reply(3);
      return client.replies;
    })();
    expect(unread).toBe(false);
    expect(seen[0]!.body === body.toString('latin1')).toBe(true);
    expect(seen[1]!.body === body.toString('latin1')).toBe(true);
    expect(seen[2]!.body).toBe('next');
    expect(closed).toEqual([
      ['/one', true],
      ['/stream', true],
      ['/next', true],
    ]);
  });

  it('do not finish before the client reads them', async () => {
    const closed: boolean[] = [];
    const { port } = await serve((_, res) => {
      res.onClose(() => closed.push(res.finished));
      res.send(200, [], [Buffer.alloc(30_000_000)]);
    });
    const client = await Client.open(port);
    client.socket.pause();
    client.send(get('/a'));
    await sleep(100);
    expect(closed).toEqual([]);
    client.socket.resume();
    await until(() => client.size > 30_000_000);
    await until(() => closed.length > 0);
    expect(closed).toEqual([true]);
  });
});

describe('a client that sends without reading', () => {
  it('is not read until its request is answered, and then found disconnected', async () => {
    let source: Connection | undefined;
    let answer: (() => void) | undefined;
    const { port, listener } = await serve((req, res) => {
      source = connectionOf(req);
      answer = () => res.sendText(200, [], 'ok');
    });
    const client = (await Client.open(port)).send(get('/a'));
    await until(() => source !== undefined);
    const part = Buffer.alloc(1_000_000, 97);
    for (let i = 0; i < 100; i++) client.send(part);
    let read = -1;
    while (read !== source!.socket.bytesRead) {
      read = source!.socket.bytesRead;
      await sleep(50);
    }
    expect(read).toBeLessThan(500_000);
    expect(listener.count).toBe(1);
    client.socket.destroy();
    await sleep(50);
    answer!();
    await until(() => listener.count === 0);
  });

  it('is closed as idle although it sends empty lines', async () => {
    const { port, listener } = await serve(echo, { times: { head: 300, request: 600, idle: 300 } });
    const client = (await Client.open(port)).send(get('/a'));
    await client.reply();
    await until(() => {
      client.send('\r\n');
      return listener.count === 0;
    });
  });
});
