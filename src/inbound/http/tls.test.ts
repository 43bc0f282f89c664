/** HTTPS and HTTP/2 on real sockets. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http2, { type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tls, { type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Authority, type Certificate, selfSigned } from '../../../test/support/certificate.js';
import {
  chunked,
  closeAll,
  closeLater,
  echo,
  get,
  type Handle,
  post,
  readReplies,
  serve,
  type Told,
  until,
} from '../../../test/support/raw-http-clients.js';
import { SILENT } from '../../telemetry/log.js';
import type { Listener, ListenerSettings } from './listener.js';
import type { InboundResponse } from './response.js';
import { Certificates, type TlsFiles } from './tls.js';

const folder = mkdtempSync(join(tmpdir(), 'parley-tls-'));
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(closeAll);

const FILES: TlsFiles = {
  cert: join(folder, 'cert.pem'),
  key: join(folder, 'key.pem'),
  clientCertificate: 'required',
};
const CA = join(folder, 'ca.pem');
let own: Certificate;
const put = ({ cert, key }: Certificate): void => {
  writeFileSync(FILES.cert, cert);
  writeFileSync(FILES.key, key);
};
beforeEach(() => {
  own = selfSigned('localhost', '127.0.0.1');
  put(own);
});

interface Served {
  readonly port: number;
  readonly listener: Listener;
  readonly told: Told[];
  readonly certificates: Certificates;
}

async function secure(
  handle: Handle,
  files: TlsFiles = FILES,
  settings: Partial<ListenerSettings> = {},
): Promise<Served> {
  const told: Told[] = [];
  const note = (fields: object, message: string): void => void told.push({ fields: { ...fields }, message });
  const log = { ...SILENT, info: note, warn: note };
  const certificates = await Certificates.load(files, log);
  const { port, listener } = await serve(handle, { ...settings, tls: { files, certificates }, log });
  return { port, listener, told, certificates };
}

async function connect(port: number, options: tls.ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = tls.connect({ port, host: '127.0.0.1', ca: own.cert, ALPNProtocols: ['http/1.1'], ...options });
  closeLater(() => void socket.destroy());
  await once(socket, 'secureConnect');
  socket.on('error', () => {});
  return socket;
}

/** The responses to these bytes, as soon as there are `count`. */
async function exchange(socket: TLSSocket, text: string, count = 1): Promise<string[]> {
  let got = '';
  socket.on('data', (chunk: Buffer) => (got += chunk.toString('latin1')));
  socket.write(text, 'latin1');
  await until(
    () => readReplies(got).replies.length >= count,
    () => got,
  );
  return readReplies(got).replies.map(({ status, body }) => `${status} ${body}`);
}

async function session(port: number, options: http2.SecureClientSessionOptions = {}): Promise<ClientHttp2Session> {
  const client = http2.connect(`https://127.0.0.1:${port}`, { ca: own.cert, ...options });
  client.on('error', () => {});
  closeLater(() => client.destroy());
  await once(client, 'connect');
  return client;
}

async function ask(
  client: ClientHttp2Session,
  headers: http2.OutgoingHttpHeaders,
  body?: string | Buffer,
): Promise<{ status: number; headers: IncomingHttpHeaders; body: string }> {
  const stream = client.request(headers, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  const [given] = (await once(stream, 'response')) as [IncomingHttpHeaders & { ':status': number }];
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return { status: given[':status'], headers: given, body: Buffer.concat(chunks).toString() };
}

describe('HTTP/1.1 over TLS', () => {
  it('behaves like HTTP/1.1 without TLS', async () => {
    const { port } = await secure(echo);
    const socket = await connect(port);
    expect(socket.alpnProtocol).toBe('http/1.1');
    expect(await exchange(socket, get('/a') + post('/b', 'hello') + chunked('/c', 'x', 'y'), 3)).toEqual([
      '200 GET /a ',
      '200 POST /b hello',
      '200 POST /c xy',
    ]);
  });

  it('serves clients without ALPN, and refuses clients with another ALPN protocol', async () => {
    const { port } = await secure(echo);
    expect(await exchange(await connect(port, { ALPNProtocols: undefined }), get('/a'))).toEqual(['200 GET /a ']);
    await expect(connect(port, { ALPNProtocols: ['spdy/1'] })).rejects.toThrow(/ALPN|alert/i);
  });

  it('refuses invalid requests', async () => {
    const { port } = await secure(echo);
    expect((await exchange(await connect(port), 'nonsense\r\n\r\n'))[0]).toMatch(/^400 invalid_request/);
    expect((await exchange(await connect(port), get('/a', 'Host: b')))[0]).toMatch(/appears twice/);
  });

  it('has the same time limits', async () => {
    const { port, listener } = await secure(echo, FILES, { times: { head: 500, request: 1_000, idle: 500 } });
    expect((await exchange(await connect(port), 'GET'))[0]).toMatch(/^408/);
    expect((await exchange(await connect(port), post('/a', 'ab').slice(0, -1)))[0]).toMatch(/^408/);
    await exchange(await connect(port), get('/a'));
    await until(() => listener.count === 0);
  });

  it('limits the time for the TLS handshake', async () => {
    const { port, listener, told } = await secure(echo, FILES, { times: { head: 300, request: 1_000, idle: 500 } });
    const { createConnection } = await import('node:net');
    const silent = createConnection({ port, host: '127.0.0.1' });
    await once(silent, 'close');
    const plain = createConnection({ port, host: '127.0.0.1' });
    plain.on('error', () => {}).write(get('/a'));
    await once(plain, 'close');
    await until(() => listener.count === 0);
    expect(told.map(({ message }) => message)).toContain('refused a connection: TLS could not be established');
  });

  it('closes the longest idle connection if there are too many', async () => {
    const limits = { connections: 2, connectionsPerAddress: 10, head: 16_384, unread: 1_000_000 };
    const { port } = await secure(echo, FILES, { limits });
    const first = await connect(port);
    await exchange(first, get('/a'));
    const second = await session(port);
    await ask(second, { ':path': '/b' });
    await exchange(await connect(port), get('/c'));
    await until(() => first.destroyed);
    expect(second.destroyed).toBe(false);
    await exchange(await connect(port), get('/d'));
    await until(() => second.destroyed);
  });
});

describe('HTTP/2', () => {
  it('serves many requests at a time on one connection', async () => {
    const held: InboundResponse[] = [];
    const { port, listener } = await secure((req, res) => {
      if (req.target === '/held') held.push(res);
      else echo(req, res);
    });
    const client = await session(port);
    const first = ask(client, { ':path': '/held' });
    await until(() => held.length === 1);
    const others = await Promise.all(
      Array.from({ length: 50 }, (_, i) => ask(client, { ':method': 'POST', ':path': `/${i}` }, `body ${i}`)),
    );
    expect(others.map(({ body }) => body)).toEqual(others.map((_, i) => `POST /${i} body ${i}`));
    held[0]!.sendText(200, ['X-A', 'b'], 'late');
    expect(await first).toMatchObject({ status: 200, body: 'late', headers: { 'x-a': 'b', 'content-length': '4' } });
    expect(listener.count).toBe(1);
  });

  it('has no connection headers, each name once, and requires a host', async () => {
    const hosts: (string | undefined)[] = [];
    const { port } = await secure((req, res) => {
      hosts.push(req.header('host'), req.header(':path'));
      expect(req.source.identity).toBeUndefined();
      res.sendText(200, ['Connection', 'close', 'Vary', 'Origin', 'Vary', 'Accept'], 'x');
    });
    const { headers } = await ask(await session(port), { ':path': '/a' });
    expect(headers['connection']).toBeUndefined();
    expect(headers['vary']).toBe('Origin, Accept');
    expect(hosts[0]).toBe(`127.0.0.1:${port}`);
  });

  it.each<[string, [string, string][], number]>([
    ['another host than the authority', [['host', 'evil.example']], 400],
    [
      'a repeated authorization header',
      [
        ['authorization', 'Bearer a'],
        ['authorization', 'Bearer b'],
      ],
      400,
    ],
    ['the same host as the authority', [['host', 'a']], 200],
  ])('sees %s', async (_, headers, status) => {
    const { port } = await secure((__, res) => res.sendText(200, [], ''));
    const raw = await RawHttp2.open(port);
    raw.request([...HEAD, ...headers]);
    expect(await raw.status()).toBe(status);
  });

  it('refuses too many headers, and CONNECT', async () => {
    const { port } = await secure(echo);
    const many = Object.fromEntries(Array.from({ length: 129 }, (_, i) => [`x-${i}`, 'y']));
    expect((await ask(await session(port), { ':path': '/a', ...many })).status).toBe(431);
    const client = await session(port);
    const tunnel = client.request({ ':method': 'CONNECT', ':authority': 'localhost:80' });
    tunnel.on('error', () => {});
    const [given] = (await once(tunnel, 'response')) as [{ ':status': number }];
    expect(given[':status']).toBe(400);
  });

  it('streams each part at once, and reports a client that disconnects', async () => {
    let res: InboundResponse | undefined;
    const closed: boolean[] = [];
    const { port } = await secure((_, given) => {
      res = given;
      given.open(200, ['Content-Type', 'text/event-stream']);
      given.onClose(() => closed.push(given.finished));
    });
    const client = await session(port);
    const stream = client.request({ ':path': '/a' });
    let got = '';
    stream.on('data', (chunk: Buffer) => (got += chunk.toString())).on('error', () => {});
    await once(stream, 'response');
    for (const part of ['one', 'two']) {
      res!.write(part);
      await until(() => got.endsWith(part));
    }
    stream.close(http2.constants.NGHTTP2_CANCEL);
    await until(() => closed.length === 1);
    expect(closed).toEqual([false]);
    const second = client.request({ ':path': '/b' });
    second.resume();
    await once(second, 'response');
    res!.write('three');
    res!.end();
    await once(second, 'end');
    await until(() => closed.length === 2);
    expect(closed[1]).toBe(true);
  });

  it.each([
    ['that is too large', 413, 'x'.repeat(30)],
    ['that declares a too large size', 413, Buffer.alloc(2_000_000)],
  ])('refuses a body %s and keeps the connection', async (_, status, body) => {
    const { port } = await secure((req, res) => {
      void (async () => req.read(20))().then(
        (read) => res.send(200, [], [read]),
        (error: { row: { http: number } }) => res.sendText(error.row.http, [], ''),
      );
    });
    const client = await session(port);
    expect((await ask(client, { ':method': 'POST', ':path': '/a' }, body)).status).toBe(status);
    expect((await ask(client, { ':method': 'POST', ':path': '/a' }, 'short')).body).toBe('short');
  });

  it('limits the time for a body, and notices a client that is gone', async () => {
    const reasons: string[] = [];
    let seen = 0;
    const { port } = await secure(
      (req, res) => {
        seen++;
        void (async () => req.read(20))().catch((error: { reason: string; row: { http: number } }) => {
          reasons.push(error.reason);
          res.sendText(error.row.http, [], '');
        });
      },
      FILES,
      { times: { head: 200, request: 500, idle: 60_000 } },
    );
    const client = await session(port);
    const slow = client.request({ ':method': 'POST', ':path': '/a' }, { endStream: false });
    slow.write('x');
    const [given] = (await once(slow, 'response')) as [{ ':status': number }];
    expect(given[':status']).toBe(408);
    for (const code of [http2.constants.NGHTTP2_CANCEL, http2.constants.NGHTTP2_NO_ERROR]) {
      const gone = await RawHttp2.open(port);
      gone.request(HEAD, false);
      gone.send(DATA, Buffer.from('x'));
      gone.send(RST_STREAM, Buffer.from([0, 0, 0, code]));
    }
    const { socket } = (await RawHttp2.open(port)).request(HEAD, false);
    await until(() => seen === 4);
    socket.destroy();
    await until(() => reasons.length === 4);
    expect(reasons).toEqual(['request_timeout', 'invalid_request', 'invalid_request', 'invalid_request']);
  });

  it.each([
    ['never arrives completely', 408, 'x'],
    ['is too large and never ends', 413, 'x'.repeat(30)],
  ])('releases the stream of a request whose body %s', async (_, status, part) => {
    const { port, listener } = await secure(
      (req, res) => {
        void (async () => req.read(20))().catch((error: { row: { http: number } }) => {
          // A body that is longer than the windows of HTTP/2.
          res.send(error.row.http, [], [Buffer.alloc(500_000, 'y')]);
        });
      },
      FILES,
      { times: { head: 200, request: 300, idle: 300 } },
    );
    const client = await session(port);
    const stream = client.request({ ':method': 'POST', ':path': '/a' }, { endStream: false });
    stream.write(part);
    let size = 0;
    stream.on('data', (chunk: Buffer) => (size += chunk.length));
    const closed = once(stream, 'close');
    const [given] = (await once(stream, 'response')) as [{ ':status': number }];
    await closed;
    expect({ status: given[':status'], size, code: stream.rstCode }).toEqual({ status, size: 500_000, code: 0 });
    await until(() => listener.count === 0);
  });

  it('closes idle connections', async () => {
    const { port, listener } = await secure(echo, FILES, { times: { head: 300, request: 500, idle: 500 } });
    const client = await session(port);
    await ask(client, { ':path': '/a' });
    await until(() => listener.count === 0);
  });

  it('answers Expect: 100-continue when the body is requested', async () => {
    const { port } = await secure(echo);
    const client = await session(port);
    const stream = client.request({ ':method': 'POST', ':path': '/a', expect: '100-continue' }, { endStream: false });
    let got = '';
    stream.on('data', (chunk: Buffer) => (got += chunk.toString()));
    await once(stream, 'continue');
    stream.end('hello');
    await once(stream, 'end');
    expect(got).toBe('POST /a hello');
  });

  it('serves its clients before it stops, and lets open requests finish', async () => {
    const held: InboundResponse[] = [];
    const { port, listener } = await secure((req, res) => {
      if (req.target === '/held') held.push(res);
      else echo(req, res);
    });
    const client = await session(port);
    const idle = await session(port);
    await ask(idle, { ':path': '/a' });
    const first = ask(client, { ':path': '/held' });
    await until(() => held.length === 1);
    listener.leaving = true;
    expect((await ask(client, { ':path': '/late' })).body).toBe('GET /late ');
    expect((await ask(await session(port), { ':path': '/later' })).body).toBe('GET /later ');
    const told = Promise.all([once(client, 'goaway'), once(idle, 'goaway')]);
    const closed = listener.close();
    listener.closeIdle();
    await told;
    held[0]!.sendText(200, [], 'done');
    expect((await first).body).toBe('done');
    await closed;
  });
});

describe('client certificates', () => {
  const authority = new Authority();
  const other = new Authority();
  const ada = authority.sign('ada', 'ada.example');
  const eve = other.sign('eve');
  const files: TlsFiles = { ...FILES, clientCa: CA };
  beforeEach(() => writeFileSync(CA, authority.cert));
  const name: Handle = (req, res) =>
    res.sendText(200, [], JSON.stringify([req.source.certificate?.subject, req.source.certificate?.names]));

  it('are available to the request in both protocols', async () => {
    const { port } = await secure(name, files);
    const said = JSON.stringify(['CN=ada', 'DNS:ada.example']);
    expect(await exchange(await connect(port, ada), get('/'))).toEqual([`200 ${said}`]);
    expect((await ask(await session(port, ada), { ':path': '/' })).body).toBe(said);
  });

  /** With TLS 1.3 the client considers the connection open before the server has checked its certificate. */
  const refusedBy = async (port: number, options: tls.ConnectionOptions): Promise<string> => {
    const socket = tls.connect({ port, host: '127.0.0.1', ca: own.cert, ALPNProtocols: ['http/1.1'], ...options });
    closeLater(() => void socket.destroy());
    let got = '';
    socket.on('error', () => {}).on('data', (chunk: Buffer) => (got += chunk.toString()));
    socket.write(get('/'));
    await until(() => socket.destroyed);
    return got;
  };

  it.each([
    ['required', 'TLSv1.2'],
    ['required', 'TLSv1.3'],
    ['optional', 'TLSv1.2'],
    ['optional', 'TLSv1.3'],
  ] as const)('of another authority are refused if certificates are %s (%s)', async (clientCertificate, version) => {
    const { port, listener } = await secure(name, { ...files, clientCertificate });
    expect(await refusedBy(port, { ...eve, maxVersion: version })).toBe('');
    expect(await refusedBy(port, { ...selfSigned('ada.example'), maxVersion: version })).toBe('');
    await until(() => listener.count === 0);
  });

  it('are required or optional as configured', async () => {
    const required = await secure(name, files);
    expect(await refusedBy(required.port, {})).toBe('');
    const optional = await secure(name, { ...files, clientCertificate: 'optional' });
    expect(await exchange(await connect(optional.port), get('/'))).toEqual(['200 [null,null]']);
    expect((await exchange(await connect(optional.port, ada), get('/')))[0]).toContain('CN=ada');
  });

  it('are no longer trusted once their authority is replaced, even in resumed sessions', async () => {
    const { port, listener } = await secure(name, files);
    const socket = await connect(port, { ...ada, maxVersion: 'TLSv1.2' });
    const resumed = socket.getSession();
    await exchange(socket, get('/'));
    writeFileSync(CA, other.cert);
    await listener.reload();
    expect(await refusedBy(port, { ...ada, maxVersion: 'TLSv1.2', session: resumed })).toBe('');
    expect((await exchange(await connect(port, eve), get('/')))[0]).toContain('CN=eve');
  });
});

describe('the certificate of the gateway', () => {
  const subjectOf = async (port: number): Promise<string> => {
    const socket = await connect(port, { rejectUnauthorized: false });
    const { subject } = socket.getPeerX509Certificate()!;
    socket.destroy();
    return subject;
  };

  it('is replaced under load without a failed request', async () => {
    const { port, listener, told } = await secure(echo);
    const before = await subjectOf(port);
    const next = selfSigned('localhost', '127.0.0.1');
    const ca = [own.cert, next.cert];
    let going = true;
    let served = 0;
    const failures: unknown[] = [];
    const kept = new https.Agent({ keepAlive: true, ca });
    closeLater(() => kept.destroy());
    const load = Array.from({ length: 6 }, async (_, i) => {
      for (; going; served++) {
        try {
          // Some clients keep their connections, some open one for each request, some use HTTP/2.
          if (i % 3 === 2) {
            const client = await session(port, { ca });
            expect((await ask(client, { ':path': '/x' })).body).toBe('GET /x ');
            client.close();
          } else {
            const agent = i % 3 === 0 ? kept : new https.Agent({ ca });
            const req = https.get({ port, host: '127.0.0.1', path: '/x', agent });
            const [res] = (await once(req, 'response')) as [import('node:http').IncomingMessage];
            let body = '';
            for await (const chunk of res) body += String(chunk);
            expect(body).toBe('GET /x ');
          }
        } catch (error) {
          failures.push(error);
        }
      }
    });
    await until(() => served > 50);
    put(next);
    await listener.reload();
    const at = served;
    await until(() => served > at + 50);
    going = false;
    await Promise.all(load);
    expect(failures).toEqual([]);
    expect(await subjectOf(port)).not.toBe(before);
    expect(told.map(({ message }) => message)).toEqual([
      'loaded the TLS certificate',
      'loaded the new TLS certificate',
    ]);
  });

  it('is reloaded automatically when its files change', async () => {
    const { port, certificates, listener } = await secure(echo);
    const before = await subjectOf(port);
    certificates.stop();
    certificates.watch((context) => listener.renew(context), 20);
    put(selfSigned('127.0.0.1'));
    let now = before;
    while (now === before) now = await subjectOf(port);
    expect(now).not.toBe(before);
  });

  it.each<[string, (next: Certificate) => void, RegExp]>([
    ['no certificate', () => writeFileSync(FILES.cert, 'nonsense'), /tls.cert: .* contains no certificate/],
    ['half a certificate', ({ cert }) => writeFileSync(FILES.cert, cert.slice(0, 200)), /contains no certificate/],
    ['no key', () => writeFileSync(FILES.key, ''), /tls.key: .* cannot be used/],
    ['the key of another certificate', ({ key }) => writeFileSync(FILES.key, key), /is not the key of the certificate/],
    ['nothing', () => rmSync(FILES.key), /tls.key: .* cannot be read \(ENOENT\)/],
  ])('stays in use if its files contain %s, and is replaced when they are valid', async (_, spoil, reason) => {
    const { port, listener, told } = await secure(echo);
    const before = await subjectOf(port);
    const next = selfSigned('127.0.0.1');
    spoil(next);
    await listener.reload();
    await listener.reload();
    expect(await subjectOf(port)).toBe(before);
    expect(told.slice(1)).toEqual([
      {
        fields: { reason: expect.stringMatching(reason) },
        message: 'the changed TLS files cannot be used; keeping the current certificate',
      },
    ]);
    put(next);
    await listener.reload();
    expect(await subjectOf(port)).not.toBe(before);
    await expect(Certificates.load({ ...FILES, cert: join(folder, 'none') }, SILENT)).rejects.toThrow(
      /tls.cert: .*none cannot be read \(ENOENT\)/,
    );
  });
});

const DATA = 0;
const RST_STREAM = 3;
const HEAD: [string, string][] = [
  [':method', 'GET'],
  [':scheme', 'https'],
  [':authority', 'a'],
  [':path', '/x'],
];

/** A client that sends arbitrary frames. */
class RawHttp2 {
  private got = Buffer.alloc(0);

  private constructor(readonly socket: TLSSocket) {
    socket.on('data', (chunk: Buffer) => {
      this.got = Buffer.concat([this.got, chunk]);
    });
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    socket.write(frame(4, 0, 0, Buffer.alloc(0)));
  }

  static async open(port: number): Promise<RawHttp2> {
    return new RawHttp2(await connect(port, { ALPNProtocols: ['h2'] }));
  }

  /** Each header as a literal without indexing (RFC 7541 §6.2.2). */
  request(headers: readonly [string, string][], ends = true): this {
    const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
    const block = headers.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]);
    this.socket.write(frame(1, ends ? 0x5 : 0x4, 1, Buffer.concat(block)));
    return this;
  }

  send(type: number, payload: Buffer): void {
    this.socket.write(frame(type, 0, 1, payload));
  }

  /** The status of the response, by the table of RFC 7541 appendix A. */
  async status(): Promise<number | undefined> {
    const find = (): Buffer | undefined => this.frames().find(({ type }) => type === 1)?.payload;
    await until(() => find() !== undefined);
    return { 136: 200, 140: 400 }[find()![0]!];
  }

  private frames(): { type: number; payload: Buffer }[] {
    const frames = [];
    for (let at = 0; at + 9 <= this.got.length; ) {
      const length = this.got.readUIntBE(at, 3);
      frames.push({ type: this.got[at + 3]!, payload: this.got.subarray(at + 9, at + 9 + length) });
      at += 9 + length;
    }
    return frames;
  }
}

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
