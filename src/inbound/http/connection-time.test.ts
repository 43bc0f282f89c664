import { afterEach, describe, expect, it } from 'vitest';
import {
  Client,
  chunked,
  closeAll,
  echo,
  get,
  type Handle,
  post,
  serve,
  sleep,
  until,
} from '../../../test/support/raw-http-clients.js';

afterEach(closeAll);

/**
 * Time limits that are short enough for a test. To show that an event does not happen, a test waits for the time in
 * which the event would happen.
 */
const TIMES = { head: 400, request: 1_200, idle: 800 };
const LATER = 2_500;

describe('time', () => {
  it('ends an idle connection without a response', async () => {
    const { port } = await serve(echo, { times: TIMES });
    const client = (await Client.open(port)).send(get('/a'));
    await client.reply();
    await client.end();
    expect(client.statuses).toEqual([200]);
  });

  it.each([
    ['nothing', ''],
    ['an empty line', '\r\n'],
    ['half an empty line', '\r'],
    ['half a head', 'GET / HTTP/1.1\r\nHost'],
  ])('ends a connection that sends only %s', async (_, text) => {
    const { port } = await serve(echo, { times: TIMES });
    const client = await Client.open(port);
    if (text) client.send(text);
    const { body } = await client.reply();
    await client.end();
    expect(client.statuses).toEqual([408]);
    expect(body).toMatch(/^request_timeout: .* within 0.4 seconds/);
  });

  it('does not cut a response that began before the request was complete', async () => {
    const { port } = await serve(
      (_, res) => {
        res.open(200, []);
        setTimeout(() => res.end(), LATER);
      },
      { times: TIMES },
    );
    const client = (await Client.open(port)).send(post('/a', 'hello').slice(0, -1));
    expect((await client.reply()).status).toBe(200);
  });

  it('counts the time for a head from its first byte', async () => {
    const { port } = await serve(echo, { times: { ...TIMES, idle: 60_000 } });
    const client = (await Client.open(port)).send(get('/a'));
    await client.reply();
    await sleep(2 * TIMES.head);
    client.send(get('/b').slice(0, -2));
    await sleep(TIMES.head / 4);
    expect((await client.send('\r\n').reply(2)).status).toBe(200);
    client.send(get('/c').slice(0, -2));
    expect((await client.reply(3)).status).toBe(408);
    await client.end();
  });

  it.each<[string, Handle]>([
    ['awaited', echo],
    ['not read', () => {}],
    ['read too late', (req, res) => void setTimeout(() => echo(req, res), LATER)],
  ])('ends a request whose body does not arrive and is %s', async (_, handle) => {
    let closes = 0;
    const { port } = await serve(
      (req, res) => {
        res.onClose(() => closes++);
        handle(req, res);
      },
      { times: TIMES },
    );
    const client = (await Client.open(port)).send(post('/a', 'hello').slice(0, -1));
    await client.end();
    expect(client.statuses).toEqual([408]);
    expect(client.replies[0]!.head).toContain('\r\nConnection: close\r\n');
    await until(() => closes === 1);
  });

  it('does not end a request with a slow handler', async () => {
    const { port, listener } = await serve((_, res) => void setTimeout(() => res.sendText(200, [], 'ok'), LATER), {
      times: TIMES,
    });
    const client = (await Client.open(port)).send(post('/a', 'hello'));
    expect((await client.reply()).status).toBe(200);
    expect(listener.count).toBe(1);
  });

  it('leaves a client time to read the last response', async () => {
    const { port, listener } = await serve(echo);
    const client = (await Client.open(port, true)).send('nonsense\r\n\r\n');
    await client.reply();
    await until(() => client.ended);
    expect(listener.count).toBe(1);
    await until(() => listener.count === 0);
  });
});

it('survives any client behavior and releases the connections', async () => {
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

it('does not count the time in which the process was blocked', async () => {
  const { port } = await serve(echo, { times: { head: 300, request: 600, idle: 60_000 } });
  const clients = await Promise.all(Array.from({ length: 5 }, () => Client.open(port)));
  const half = (await Client.open(port)).send(post('/b', 'hello').slice(0, -2));
  await sleep(50);
  // These bytes wait until the process runs again, after the time limit has passed.
  for (const client of clients) client.send(get('/a'));
  half.send('lo');
  const until = performance.now() + 1_000;
  while (performance.now() < until);
  for (const client of clients) expect((await client.reply()).body).toBe('GET /a ');
  expect((await half.reply()).body).toBe('POST /b hello');
});
