import { createServer as createHttp } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTls } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { Authority } from '../../../test/support/certificate.js';
import { ask, type RawServer, rawServer } from '../../../test/support/raw-http-servers.js';
import { sleep } from '../../core/timing.js';
import { Egress } from '../egress.js';
import { HttpClient, type HttpClientOptions, proxyRule, proxyRuleOf } from './index.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const through = (setting: string | undefined, env: Record<string, string>, origin: string): string | undefined =>
  proxyRule(setting, env)(origin)?.origin;

describe('the proxy for an origin', () => {
  const env = { HTTP_PROXY: 'http://plain:3128', HTTPS_PROXY: 'http://secure:3129' };

  it.each([
    ['http://a.example', env, 'http://plain:3128'],
    ['https://a.example', env, 'http://secure:3129'],
    ['https://a.example', { HTTP_PROXY: 'http://plain:3128' }, 'http://plain:3128'],
    ['http://a.example', { HTTPS_PROXY: 'http://secure:3129' }, undefined],
    ['http://a.example', { http_proxy: 'http://lower:1', HTTP_PROXY: 'http://upper:1' }, 'http://lower:1'],
    ['http://a.example', { http_proxy: '', HTTP_PROXY: 'http://upper:1' }, undefined],
    ['http://a.example', { HTTP_PROXY: 'plain:3128' }, 'http://plain:3128'],
    ['http://a.example', {}, undefined],
  ])('%s with %j is %s', (origin, given, expected) => {
    expect(through(undefined, given as Record<string, string>, origin)).toBe(expected);
  });

  it.each([
    ['*', 'http://a.example', true],
    ['a.example', 'http://a.example', true],
    ['a.example', 'http://b.a.example', true],
    ['.a.example', 'http://a.example', true],
    ['*.a.example', 'http://b.a.example:8080', true],
    ['a.example', 'http://ba.example', false],
    ['a.example:8080', 'http://a.example', false],
    ['a.example:8080', 'http://a.example:8080', true],
    ['a.example:443', 'https://a.example', true],
    ['x, A.Example', 'http://a.example', true],
    ['x A.Example', 'http://a.example', true],
    ['127.0.0.1', 'http://127.0.0.1:4000', true],
    ['127.0.0.1', 'http://127.0.0.2:4000', false],
    ['[::1]:4000', 'http://[::1]:4000', true],
    ['::1', 'http://[::1]:4000', true],
    ['10.0.0.0/8', 'http://10.1.2.3:4000', true],
    ['10.0.0.0/8', 'http://11.1.2.3', false],
    ['10.0.0.0/8', 'http://a.example', false],
    ['fd00::/8, x', 'http://[fd12::5]', true],
    ['fd00::/8', 'http://[fe80::5]', false],
    ['10.0.0.0/40', 'http://10.0.0.0', false],
    ['0:0:0:0:0:0:0:1', 'http://[::1]', true],
    ['a.example.', 'http://a.example', true],
    ['bücher.example', 'http://bücher.example', true],
    ['2.3', 'http://10.1.2.3', false],
    ['a/b, x:y:z, [', 'http://a.example', false],
    ['', 'http://a.example', false],
  ])('NO_PROXY %j exempts %s: %s', (list, origin, exempt) => {
    expect(through(undefined, { ...env, NO_PROXY: list }, origin) === undefined).toBe(exempt);
    expect(through(undefined, { ...env, no_proxy: list, NO_PROXY: 'other' }, origin) === undefined).toBe(exempt);
  });

  it('comes from the setting, independent of the environment', () => {
    expect(through('http://own:1', { ...env, NO_PROXY: '*' }, 'http://a.example')).toBe('http://own:1');
    expect(through('none', env, 'http://a.example')).toBeUndefined();
  });

  it('gets the credentials of its URL', () => {
    expect(proxyRule('http://ada:s%40cret@own:1', {})('http://a.example')).toEqual({
      origin: 'http://own:1',
      headers: ['proxy-authorization', `Basic ${Buffer.from('ada:s@cret').toString('base64')}`],
    });
  });

  it('gets a password without a user name, and refuses a password that is not encoded', () => {
    expect(proxyRule('http://:secret@own:1', {})('http://a.example')?.headers).toEqual([
      'proxy-authorization',
      `Basic ${Buffer.from(':secret').toString('base64')}`,
    ]);
    expect(() => proxyRule('http://ada:50%@own:1', {})).toThrow(/proxy has .* not percent-encoded: write % as %25/);
  });

  it.each(['socks5://a:1', 'nonsense:// x'])('cannot be %s', (text) => {
    expect(() => proxyRule(undefined, { HTTP_PROXY: text })).toThrow('HTTP_PROXY is not an http or https URL');
  });
});

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => new Promise((resolve) => server.close(resolve)));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Seen {
  readonly url: string;
  readonly requests: string[];
}

/** A proxy that opens all tunnels to a port of this machine, whatever the requested host. */
async function tunnelling(answer = 'HTTP/1.1 200 OK\r\n\r\n'): Promise<Seen> {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    sockets.add(near);
    near.on('error', () => {});
    near.once('data', (head) => {
      const text = head.toString('latin1');
      requests.push(text);
      const [, port] = /^CONNECT \S+:(\d+) /.exec(text) ?? [];
      if (port === undefined || !answer.includes('200')) {
        if (answer === '') near.destroy();
        else near.end(answer);
        return;
      }
      const far = connect(Number(port), '127.0.0.1', () => {
        near.write(answer);
        near.pipe(far).pipe(near);
      });
      sockets.add(far);
      far.on('error', () => near.destroy());
    });
  });
  const address = await listen(server);
  closing.push(() => {
    for (const socket of sockets) socket.destroy();
  });
  return { url: `http://${address}`, requests };
}

function client(options: Partial<HttpClientOptions>): HttpClient {
  const made = new HttpClient({ connectTimeout: 2_000, ...options });
  closing.push(() => made.close());
  return made;
}

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi';
const HI = { status: 200, body: 'hi' };

async function raw(): Promise<RawServer> {
  const server = await rawServer((socket) => socket.write(OK));
  closing.push(() => server.close());
  return server;
}

describe('through a proxy', () => {
  it('http requests carry the whole URL and the credentials for the proxy, and connections are used again', async () => {
    const heard: string[] = [];
    const proxy = await rawServer((socket, request) => {
      heard.push(request);
      socket.write(OK);
    });
    closing.push(() => proxy.close());
    const http = client({ proxy: proxyRule(`http://ada:secret@127.0.0.1:${proxy.port}`) });
    for (let i = 0; i < 3; i++) {
      const ear = ask(http, 'http://server.example:8080/mcp?a=b', { method: 'POST', body: Buffer.from('{}') });
      await ear.over;
      expect(ear.outcome).toEqual(HI);
      await new Promise(setImmediate);
    }
    expect(proxy.sockets).toHaveLength(1);
    expect(heard[0]).toContain('POST http://server.example:8080/mcp?a=b HTTP/1.1\r\nhost: server.example:8080\r\n');
    expect(heard[0]).toContain(`proxy-authorization: Basic ${Buffer.from('ada:secret').toString('base64')}\r\n`);
  });

  it('https goes through a tunnel, and its certificate is checked for the server', async () => {
    const authority = new Authority();
    const good = await rawServer((socket) => socket.write(OK), {
      server: createTls(authority.sign('good', 'good.example')),
    });
    const other = await rawServer((socket) => socket.write(OK), {
      server: createTls(authority.sign('other', 'other.example')),
    });
    closing.push(good.close, other.close);
    const proxy = await tunnelling();
    const http = client({ proxy: proxyRule(proxy.url), tls: { ca: authority.cert } });
    for (let i = 0; i < 2; i++) {
      const ear = ask(http, `https://good.example:${good.port}/`);
      await ear.over;
      expect(ear.outcome).toEqual(HI);
      await new Promise(setImmediate);
    }
    expect(proxy.requests).toHaveLength(1);
    expect(proxy.requests[0]).toMatch(`CONNECT good.example:${good.port} HTTP/1.1\r\n`);
    const wrong = ask(http, `https://good.example:${other.port}/`);
    await wrong.over;
    expect(wrong.failure).toMatchObject({ sent: false, error: { code: 'ERR_TLS_CERT_ALTNAME_INVALID' } });
  });

  it.each([
    ['refuses the tunnel', 'HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n', 403],
    ['requires credentials', 'HTTP/1.1 407 Proxy Authentication Required\r\n\r\n', 407],
    ['closes the connection', '', undefined],
    ['speaks another protocol', 'SSH-2.0-OpenSSH_9.6\r\n', undefined],
  ])('an https request is not sent if the proxy %s; the proxy gets one request', async (_, answer, status) => {
    const proxy = await tunnelling(answer);
    const ear = ask(client({ proxy: proxyRule(proxy.url) }), 'https://server.example/');
    await ear.over;
    expect(ear.failure).toMatchObject({ sent: false, error: { code: 'HTTP_PROXY', status, proxy: proxy.url } });
    await sleep(50);
    expect(proxy.requests).toHaveLength(1);
  });

  it('an https request is not sent if the proxy cannot be reached or never answers', async () => {
    const gone = await raw();
    await gone.close();
    const refused = ask(client({ proxy: proxyRule(`http://127.0.0.1:${gone.port}`) }), 'https://server.example/');
    await refused.over;
    expect(refused.failure).toMatchObject({
      sent: false,
      error: { code: 'HTTP_PROXY', status: undefined, cause: { code: 'ECONNREFUSED' } },
    });
    const mute = await listen(createServer((socket) => void socket.on('error', () => {}).resume()));
    const late = ask(client({ proxy: proxyRule(`http://${mute}`), connectTimeout: 100 }), 'https://server.example/');
    await late.over;
    expect(late.failure).toMatchObject({ sent: false, error: { code: 'ETIMEDOUT' } });
  });
});

describe('URLs of strangers through a proxy', () => {
  const policy = (address: string): Egress =>
    new Egress({ allowPrivate: false, ports: [] }, (_, __, done) =>
      done(null, [{ address, family: address.includes(':') ? 6 : 4 }]),
    );

  it.each(['http', 'https'])('%s: the proxy gets a checked address instead of the name', async (scheme) => {
    const proxy = await tunnelling('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    const http = client({ proxy: proxyRule(proxy.url), egress: policy('93.184.216.34') });
    await ask(http, `${scheme}://server.example/`).over;
    const port = scheme === 'http' ? 80 : 443;
    expect(proxy.requests.map((request) => request.split('\r\n')[0])).toEqual([
      `CONNECT 93.184.216.34:${port} HTTP/1.1`,
    ]);
  });

  it.each([
    ['http://10.0.0.1/', '93.184.216.34'],
    ['http://[::1]/', '93.184.216.34'],
    ['http://2130706433/', '93.184.216.34'],
    ['http://localhost/', '93.184.216.34'],
    ['https://server.example:22/', '93.184.216.34'],
    ['https://rebound.example/', '127.0.0.1'],
    ['http://rebound.example/', '::ffff:10.0.0.1'],
  ])('%s is not requested if its name resolves to %s', async (url, address) => {
    const proxy = await tunnelling();
    const ear = ask(client({ proxy: proxyRule(proxy.url), egress: policy(address) }), url);
    await ear.over;
    expect(ear.failure).toMatchObject({ sent: false, error: { code: 'EGRESS_REFUSED' } });
    expect(proxy.requests).toEqual([]);
  });

  it('the answer of the server arrives', async () => {
    const host = createHttp((request, response) => response.end(`hi ${request.headers.host}`));
    const address = await listen(host);
    const proxy = await tunnelling();
    const ports = [Number(address.split(':')[1])];
    const egress = new Egress({ allowPrivate: false, ports }, (_, __, done) =>
      done(null, [{ address: '93.184.216.34', family: 4 }]),
    );
    const ear = ask(client({ proxy: proxyRule(proxy.url), egress }), `http://server.example:${ports[0]}/`);
    await ear.over;
    expect(ear.outcome).toEqual({ status: 200, body: `hi server.example:${ports[0]}` });
  });
});

describe('a proxy that a caller supplied', () => {
  /** The target is public, the proxy at a private address. */
  const rules = (port: number): Egress =>
    new Egress({ allowPrivate: false, ports: [port] }, (host, _, done) =>
      done(null, [{ address: host === 'server.example' ? '93.184.216.34' : '127.0.0.1', family: 4 }]),
    );

  it.each(['proxy.example', '127.0.0.1', '[::ffff:7f00:1]', '0x7f.1', 'localhost'])(
    'S11: %s is not dialled where its address is private',
    async (host) => {
      const { requests, url } = await tunnelling();
      const port = Number(new URL(url).port);
      const egress = rules(port);
      const proxy = proxyRuleOf(`http://${host}:${port}`, { egress });
      for (const target of ['http://server.example/', 'https://server.example/']) {
        const ear = ask(client({ proxy, egress }), target);
        await ear.over;
        expect(ear.failure).toMatchObject({
          sent: false,
          error: { code: 'HTTP_PROXY', cause: { code: 'EGRESS_REFUSED' } },
        });
      }
      expect(requests).toEqual([]);
    },
  );

  it('is optional: without it, the proxy of the operator is used, which may be private', async () => {
    const { requests, url } = await tunnelling('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    const egress = rules(Number(new URL(url).port));
    await ask(
      client({ proxy: proxyRuleOf(undefined, { egress, proxy: proxyRule(url) }), egress }),
      'http://server.example/',
    ).over;
    expect(requests).toHaveLength(1);
  });
});
