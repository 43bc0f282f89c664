import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Egress, EgressRefused, type EgressSettings, type LookupAll } from './egress.js';
import { HttpClient, HttpError } from './http/index.js';
import { SafeHttp } from './safe-http.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function safe(settings: Partial<EgressSettings> = {}, lookup?: LookupAll): SafeHttp {
  const made = new SafeHttp({
    egress: new Egress({ allowPrivate: true, ports: [], ...settings }, lookup),
    connectTimeout: 2_000,
  });
  closing.push(() => made.close());
  return made;
}

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
};

describe('a fetch of a supplied URL', () => {
  it('sends method, headers and body, and returns status, headers and body', async () => {
    const url = await serve(async (request, response) => {
      const body = await bodyOf(request);
      response.writeHead(201, { 'content-type': 'application/json', 'x-own': 'yes' });
      response.end(JSON.stringify({ method: request.method, type: request.headers['content-type'], body }));
    });
    const reply = await safe().fetch(`${url}/token`, {
      method: 'POST',
      headers: { host: 'other.example', accept: 'application/json' },
      body: new URLSearchParams({ grant_type: 'client_credentials' }),
    });
    expect(reply.status).toBe(201);
    expect(reply.url).toBe(`${url}/token`);
    expect(reply.headers.get('x-own')).toBe('yes');
    expect(await reply.json()).toEqual({
      method: 'POST',
      type: 'application/x-www-form-urlencoded;charset=UTF-8',
      body: 'grant_type=client_credentials',
    });
  });

  it('accepts a Request and answers without a body', async () => {
    const url = await serve((_, response) => response.writeHead(204).end());
    const reply = await safe().fetch(new Request(url));
    expect(reply.status).toBe(204);
    expect(reply.body).toBeNull();
  });

  it('S9: needs https, except on a private host that is allowed', async () => {
    for (const url of ['http://example.com/', 'http://93.184.216.34/', 'ftp://example.com/', 'javascript:alert(1)'])
      await expect(safe().fetch(url), url).rejects.toThrow(EgressRefused);
    for (const url of ['file:///etc/passwd', '$(touch /tmp/x)', '--flag', 'data:text/plain,x', 'unix:/run/x'])
      await expect(safe().fetch(url), url).rejects.toThrow(EgressRefused);
    expect(() => safe().check('http://example.com/')).toThrow(/https/);
    expect(safe().check('https://example.com/.well-known/x').host).toBe('example.com');
    expect(safe({ allow: ['plain.example'] }).check('http://plain.example/').host).toBe('plain.example');
  });

  it('S11: refuses private addresses, user names and ports before it dials', async () => {
    let hits = 0;
    const url = await serve((_, response) => {
      hits++;
      response.end();
    });
    const closed = safe({ allowPrivate: false });
    for (const refused of [url, 'https://10.0.0.1/', 'https://a:b@example.com/', 'https://example.com:6379/'])
      await expect(closed.fetch(refused), refused).rejects.toThrow(EgressRefused);
    expect(hits).toBe(0);
  });

  it('S11: refuses a name that resolves to a private address', async () => {
    const rebinding = safe({ allowPrivate: false }, (_, __, done) => done(null, [{ address: '127.0.0.1', family: 4 }]));
    await expect(rebinding.fetch('https://rebind.example/')).rejects.toThrow(/https:\/\/rebind\.example resolves to/);
  });

  it('S11: follows a redirect to the same origin only, and only of GET', async () => {
    let canary = 0;
    const other = await serve((_, response) => {
      canary++;
      response.end();
    });
    const url = await serve(({ url: path }, response) => {
      const to = { '/far': `${other}/x`, '/near': '/here', '/loop': '/loop' }[path ?? ''];
      if (to === undefined) response.end('arrived');
      else response.writeHead(302, { location: to }).end();
    });
    const { fetch } = safe();
    const near = await fetch(`${url}/near`);
    expect([await near.text(), near.url, near.redirected]).toEqual(['arrived', `${url}/here`, true]);
    await expect(fetch(`${url}/far`)).rejects.toThrow(/another origin/);
    await expect(fetch(`${url}/loop`)).rejects.toThrow(/not followed/);
    await expect(fetch(`${url}/near`, { method: 'POST' })).rejects.toThrow(/not followed/);
    await expect(fetch(`${url}/near`, { redirect: 'error' })).rejects.toThrow(/not followed/);
    expect((await fetch(`${url}/far`, { redirect: 'manual' })).status).toBe(302);
    expect(canary).toBe(0);
  });

  it('limits the size and the time of a reply, and stops when the signal fires', async () => {
    const url = await serve((request, response) => {
      if (request.url === '/long') response.end(Buffer.alloc(2_000));
      else response.write('never complete');
    });
    const short = safe().fetchWith({ limit: 1_000 });
    await expect(short(`${url}/long`)).rejects.toThrow(/longer than 1000 bytes/);
    const quick = safe().fetchWith({ timeout: 150 });
    await expect(quick(`${url}/slow`)).rejects.toMatchObject({ name: 'HttpError', code: 'ETIMEDOUT' });
    const stop = new AbortController();
    const slow = safe().fetch(`${url}/slow`, { signal: stop.signal });
    setTimeout(() => stop.abort(), 50);
    await expect(slow).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('reaches the configured origin at a private address, and no other private origin', async () => {
    const url = await serve((_, response) => response.end('own'));
    const client = new HttpClient({ connectTimeout: 2_000 });
    closing.push(() => client.close());
    const closed = safe({ allowPrivate: false });
    const fetch = closed.fetchWith({ configured: { origin: url, client } });
    expect(await (await fetch(`${url}/mcp`)).text()).toBe('own');
    await expect(fetch('http://127.0.0.1:1/')).rejects.toThrow(EgressRefused);
    await expect(closed.fetch(url)).rejects.toThrow(EgressRefused);
  });

  it('refuses methods that it does not know', async () => {
    await expect(safe().fetch('https://example.com/', { method: 'PATCH' })).rejects.toThrow(HttpError);
  });
});
