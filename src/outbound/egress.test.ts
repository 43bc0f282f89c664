import type { LookupAddress } from 'node:dns';
import { createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Egress, EgressRefused, type LookupAll } from './egress.js';
import { HttpClient, type HttpFailure, httpTarget } from './http/index.js';

const closed = new Egress({ allowPrivate: false, ports: [] });
const open = new Egress({ allowPrivate: true, ports: [] });

describe('the check of a URL', () => {
  it.each([
    ['ftp://example.com/', /http or https/],
    ['unix:/run/agent.sock', /http or https/],
    ['javascript:alert(1)', /http or https/],
    ['nonsense', /not a URL/],
    ['https://user:secret@example.com/', /user name/],
    ['https://user@example.com/', /user name/],
    ['https://example.com:22/', /port 22/],
    ['http://example.com:8080/', /port 8080/],
    ['http://metadata.google.internal/', /host/],
    ['http://metadata.google.internal./', /host/],
    ['http://METADATA/', /host/],
    ['http://instance-data/latest', /host/],
    ['http://localhost/', /host/],
    ['http://localhost./', /host/],
    ['http://foo.localhost/', /host/],
    ['http://printer.local/', /host/],
    ['http://intranet/', /host/],
    ['http://169.254.169.254/latest/meta-data', /address/],
    ['http://[fd00:ec2::254]/', /address/],
    ['http://168.63.129.16/', /address/],
    ['http://100.100.100.200/', /address/],
  ])('refuses %s', (url, why) => {
    expect(() => closed.checkUrl(url)).toThrow(EgressRefused);
    expect(() => closed.checkUrl(url)).toThrow(why);
  });

  it('allows ordinary URLs and the configured ports', () => {
    closed.checkUrl('https://example.com/hook?x=1');
    closed.checkUrl('http://example.com/');
    closed.checkUrl('https://93.184.216.34/');
    closed.checkUrl('https://[2606:2800:220:1::1]/');
    new Egress({ allowPrivate: false, ports: [8443] }).checkUrl('https://example.com:8443/');
  });

  it('allows private addresses if configured, but never metadata services', () => {
    for (const url of [
      'http://localhost:4000/',
      'http://127.0.0.1:9/',
      'http://10.1.2.3/',
      'http://[::1]:80/',
      'http://agent/',
    ])
      open.checkUrl(url);
    for (const url of [
      'http://169.254.169.254/',
      'http://metadata/',
      'http://[fd00:ec2::254]/',
      // The credentials of containers.
      'http://169.254.170.2/',
      'http://[fd00:ec2::23]/',
      'http://[fe80::1]/',
    ])
      expect(() => open.checkUrl(url)).toThrow(EgressRefused);
    expect(() => new Egress({ allowPrivate: true, ports: [4000] }).checkUrl('http://localhost:4001/')).toThrow(/port/);
  });
});

describe('hosts and networks of the operator', () => {
  const rules = new Egress({
    allowPrivate: false,
    ports: [],
    allow: ['login.corp.internal', '*.hooks.internal', '10.20.0.0/16', 'fd12::/32', '169.254.169.254'],
    deny: ['evil.example', '*.bad.example', '10.20.3.0/24', '93.184.216.0/24'],
  });

  it('S11: allow private addresses, and no address next to them', () => {
    for (const url of [
      'https://login.corp.internal/',
      'https://LOGIN.corp.internal./',
      'https://a.hooks.internal/',
      'https://10.20.1.1/',
      'https://[::ffff:10.20.1.1]/',
      'https://[fd12::1]/',
    ])
      rules.checkUrl(url);
    for (const url of [
      'https://corp.internal/',
      'https://hooks.internal/',
      'https://xhooks.internal/',
      'https://10.21.0.1/',
      'https://[fd13::1]/',
      'https://169.254.169.254/',
    ])
      expect(() => rules.checkUrl(url), url).toThrow(EgressRefused);
  });

  it('S11: refuse denied hosts, even if private addresses are allowed', () => {
    const wide = new Egress({ allowPrivate: true, ports: [], deny: ['evil.example', '*.bad.example', '10.20.3.0/24'] });
    for (const url of ['https://evil.example/', 'https://x.bad.example./', 'https://10.20.3.9/']) {
      expect(() => wide.checkUrl(url), url).toThrow(EgressRefused);
      expect(() => rules.checkUrl(url), url).toThrow(EgressRefused);
    }
    expect(rules.allows('93.184.216.34', 'any.example')).toBe(false);
  });

  it('S11: decide about the addresses of a name when it is dialled', () => {
    expect(rules.allows('10.9.9.9', 'login.corp.internal')).toBe(true);
    expect(rules.allows('10.9.9.9', 'other.example')).toBe(false);
    expect(rules.allows('10.20.3.1', 'login.corp.internal')).toBe(false);
    expect(rules.allows('169.254.169.254', 'login.corp.internal')).toBe(false);
  });

  it('S9: need https unless the host is private and allowed', () => {
    rules.checkSecureUrl('http://login.corp.internal/');
    rules.checkSecureUrl('http://10.20.1.1/');
    expect(() => rules.checkSecureUrl('http://example.com/')).toThrow(/https/);
    expect(() => open.checkSecureUrl('http://example.com/')).toThrow(/https/);
    open.checkSecureUrl('http://127.0.0.1:9/');
    open.checkSecureUrl('http://agent:9/');
  });
});

describe('dialled addresses', () => {
  let server: Server;
  let port = 0;
  let reached = 0;
  const sockets = new Set<Socket>();
  const hits: string[] = [];

  beforeAll(async () => {
    server = createServer((socket) => {
      reached++;
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
      sockets.add(socket);
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi');
    });
    await new Promise<void>((resolve) => server.listen(0, '::', resolve));
    ({ port } = server.address() as { port: number });
  });
  afterAll(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  });

  /** The result of a GET: the status or the error message. */
  const get = (client: HttpClient, url: string): Promise<number | string> =>
    new Promise((resolve) => {
      let status = 0;
      client.request(
        httpTarget(url),
        { method: 'GET', headers: [] },
        {
          start: (given) => {
            status = given;
          },
          data: () => {},
          end: () => resolve(status),
          fail: ({ error, sent }: HttpFailure) => resolve(sent ? 'sent' : error.name),
        },
      );
    });

  const guarded = (lookup?: LookupAll, ports: readonly number[] = [port]): HttpClient =>
    new HttpClient({ connectTimeout: 2_000, egress: new Egress({ allowPrivate: false, ports }, lookup) });

  const SPELLINGS = [
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '017700000001',
    '0.0.0.0',
    '0',
    '127.255.255.254',
    '[::1]',
    '[::]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[0:0:0:0:0:ffff:7f00:0001]',
    '[::ffff:0:7f00:1]',
    '[::7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[2002:7f00:1::]',
    '①②⑦.⓪.⓪.①',
    '１２７.０.０.１',
    '127。0。0。1',
    'localhost',
    'localhost.',
    'LOCALHOST',
  ];

  it('S11: do not reach the listener in any of 28 notations', async () => {
    expect(SPELLINGS).toHaveLength(28);
    const client = guarded();
    reached = 0;
    for (const host of SPELLINGS) {
      const outcome = await get(client, `http://${host}:${port}/`);
      if (outcome !== 'EgressRefused') hits.push(`${host}: ${outcome}`);
      expect(
        () => new Egress({ allowPrivate: false, ports: [port] }).checkUrl(`http://${host}:${port}/`),
        host,
      ).toThrow(EgressRefused);
    }
    await client.close();
    expect(hits).toEqual([]);
    expect(reached).toBe(0);
  });

  it('S11: are the checked ones, even if the name resolves differently later', async () => {
    const answers: LookupAddress[][] = [
      [{ address: '93.184.216.34', family: 4 }],
      [{ address: '127.0.0.1', family: 4 }],
    ];
    let asked = 0;
    const client = guarded((_, __, done) => {
      asked++;
      done(null, answers.shift() ?? [{ address: '127.0.0.1', family: 4 }]);
    });
    // The check of the URL does not use DNS. The first answer is for the connection.
    new Egress({ allowPrivate: false, ports: [port] }).checkUrl(`http://rebind.example:${port}/`);
    expect(asked).toBe(0);
    answers.shift();
    reached = 0;
    expect(await get(client, `http://rebind.example:${port}/`)).toBe('EgressRefused');
    expect(asked).toBe(1);
    expect(reached).toBe(0);
    await client.close();
  });

  it('are all refused if one of them is private', async () => {
    const client = guarded((_, __, done) =>
      done(null, [
        { address: '93.184.216.34', family: 4 },
        { address: '::1', family: 6 },
      ]),
    );
    reached = 0;
    expect(await get(client, `http://two.example:${port}/`)).toBe('EgressRefused');
    expect(reached).toBe(0);
    await client.close();
  });

  it('are reached if they are allowed', async () => {
    const client = new HttpClient({ connectTimeout: 2_000, egress: open });
    expect(await get(client, `http://127.0.0.1:${port}/`)).toBe(200);
    expect(await get(client, `http://localhost:${port}/`)).toBe(200);
    await client.close();
  });
});
