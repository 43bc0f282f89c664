import { afterEach, describe, expect, it } from 'vitest';
import {
  Client,
  Clock,
  chunked,
  closeAll,
  echo,
  get,
  type Handle,
  post,
  serve,
  sleep,
  until,
} from '../../../test/support/http-wire.js';

afterEach(closeAll);

describe('time', () => {
  it('ends a connection that nobody uses, without a word', async () => {
    const { port, clock } = await Clock.serve(echo);
    const client = (await Client.open(port)).send(get('/a'));
    const { head } = await client.reply();
    expect(head).toContain('\r\nKeep-Alive: timeout=65\r\n');
    clock.pass(65);
    await sleep(10);
    expect(client.closed).toBe(false);
    clock.pass(1);
    await client.end();
    expect(client.statuses).toEqual([200]);
  });

  it.each([
    ['nothing', ''],
    ['an empty line', '\r\n'],
    ['half an empty line', '\r'],
    ['half a head', 'GET / HTTP/1.1\r\nHost'],
  ])('ends a connection on which %s comes', async (_, text) => {
    const { port, clock } = await Clock.serve(echo);
    const client = await Client.open(port);
    if (text) client.send(text);
    await until(() => clock.connections.size === 1);
    await sleep(10);
    clock.pass(5);
    await sleep(10);
    expect(client.text).toBe('');
    clock.pass(1);
    await client.reply();
    clock.pass(10);
    await client.end();
    expect(client.statuses).toEqual([408]);
    expect(clock.refused).toEqual(['request_timeout']);
  });

  it('does not look at a connection that ended a moment ago, and of which nobody was told yet', async () => {
    const { port, clock } = await Clock.serve((_, res) => {
      res.open(200, []);
    });
    const silent = await Client.open(port);
    const streaming = (await Client.open(port)).send(post('/a', 'hello').slice(0, -1));
    await until(() => clock.connections.size === 2 && streaming.text !== '');
    clock.pass(3);
    for (const connection of clock.connections) connection.destroy();
    clock.pass(40);
    expect(clock.refused).toEqual([]);
    await Promise.all([silent.end(), streaming.end()]);
  });

  it('leaves an answer alone that began before all of the request had come', async () => {
    const { port, clock } = await Clock.serve((_, res) => {
      res.open(200, []);
      setTimeout(() => res.end(), 100);
    });
    const client = (await Client.open(port)).send(post('/a', 'hello').slice(0, -1));
    await until(() => client.text !== '');
    clock.pass(40);
    expect((await client.reply()).status).toBe(200);
    expect(clock.refused).toEqual([]);
  });

  it.each([
    ['requests behind the one under way', `${get('/a')}${get('/b').repeat(6_000)}`],
    ['a body that nobody asks for', `${post('/a', 'x'.repeat(200_000)).slice(0, -1)}`],
  ])('ends a connection that is not read any more because of %s: it may be gone', async (_, text) => {
    let closes = 0;
    const { port, clock } = await Clock.serve((_, res) => {
      res.onClose(() => closes++);
    });
    const client = (await Client.open(port)).send(text);
    await until(() => [...clock.connections].some(({ socket }) => socket.isPaused()));
    client.socket.resetAndDestroy();
    clock.pass(30);
    await sleep(10);
    expect(closes).toBe(0);
    clock.pass(1);
    await until(() => closes === 1 && clock.connections.size === 0);
  });

  it('does not count for a head what passed before it', async () => {
    const { port, clock } = await Clock.serve(echo);
    const client = (await Client.open(port)).send(get('/a'));
    await client.reply();
    clock.pass(60);
    client.send(get('/b').slice(0, -2));
    await sleep(20);
    clock.pass(5);
    expect((await client.send('\r\n').reply(2)).status).toBe(200);
    client.send(get('/c').slice(0, -2));
    await sleep(20);
    clock.pass(6);
    expect((await client.reply(3)).status).toBe(408);
    await client.end();
  });

  it.each<[string, Handle]>([
    ['awaited', echo],
    ['not asked for', () => {}],
    [
      'asked for too late',
      (req, res) => {
        setTimeout(() => echo(req, res), 100);
      },
    ],
  ])('ends a request whose body does not come, and is %s', async (_, handle) => {
    let closes = 0;
    const { port, clock } = await Clock.serve((req, res) => {
      res.onClose(() => closes++);
      handle(req, res);
    });
    const client = (await Client.open(port)).send(post('/a', 'hello').slice(0, -1));
    await until(() => clock.connections.size === 1);
    await sleep(20);
    clock.pass(30);
    await sleep(10);
    expect(client.text).toBe('');
    clock.pass(5);
    await client.reply();
    clock.pass(40);
    await sleep(120);
    clock.pass(5);
    await client.end();
    expect(client.statuses).toEqual([408]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
    expect(closes).toBe(1);
  });

  it('does not end a request that takes long to answer', async () => {
    let answer: (() => void) | undefined;
    const { port, clock } = await Clock.serve((_, res) => {
      answer = () => res.sendText(200, [], 'ok');
    });
    const client = (await Client.open(port)).send(post('/a', 'hello'));
    await until(() => answer !== undefined);
    clock.pass(1_000);
    answer!();
    expect((await client.reply()).status).toBe(200);
    expect(clock.connections.size).toBe(1);
  });

  it('is given to a client that is to hear that the connection is over', async () => {
    const { port, clock } = await Clock.serve(echo);
    const client = (await Client.open(port, true)).send(get('/a', 'Connection: close'));
    await client.reply();
    await until(() => client.ended);
    expect(clock.connections.size).toBe(1);
    clock.pass(2);
    await until(() => clock.connections.size === 0);
  });
});

it('answers whatever its clients do, and forgets them', async () => {
  const { port, listener } = await serve((req, res) => {
    if (req.target === '/stream') {
      res.open(200, []);
      res.write('a');
    } else echo(req, res);
  });
  const texts = [get('/a'), get('/stream'), post('/b', 'abc').slice(0, -1), 'GET', chunked('/c', 'abc').slice(0, -3)];
  await Promise.all(
    Array.from({ length: 60 }, async (_, i) => {
      const client = (await Client.open(port)).send(texts[i % texts.length]!);
      await sleep(i % 7);
      if (i % 2) client.socket.resetAndDestroy();
      else client.socket.end();
      await client.end();
    }),
  );
  await until(() => listener.count === 0);
  expect((await (await Client.open(port)).send(get('/z')).reply()).status).toBe(200);
});
