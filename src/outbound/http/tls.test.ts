import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, connect, createServer as createTcp, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { createServer as createTls, type TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Certificate, selfSigned } from '../../../test/support/certificate.js';
import type { Asked, Told } from '../../../test/support/https-client.js';
import { rawServer } from '../../../test/support/raw-http-servers.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'parley-tls-'));
const trusted = selfSigned('localhost', '127.0.0.1');
const elsewhere = selfSigned('elsewhere.example');
const unknown = selfSigned('localhost', '127.0.0.1');
const SIZE = 700_000;
const closing: (() => unknown)[] = [];
/** The handshakes as seen by the servers. */
const handshakes: { alpn: unknown; name: unknown; reused: boolean }[] = [];
let told: Told[];
let connections = 0;

async function listen(server: Server, host = '127.0.0.1'): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  closing.push(() => new Promise((resolve) => server.close(resolve)));
  return (server.address() as AddressInfo).port;
}

function https(certificate: Certificate): Server {
  const body = Buffer.alloc(SIZE, 'abcdefg');
  const server = createHttps(certificate, (request, response) => {
    if (request.url === '/close') response.setHeader('connection', 'close');
    if (request.url === '/large') response.setHeader('content-length', SIZE).end(body);
    else if (request.url === '/chunks') {
      for (let i = 0; i < 10; i++) response.write(body.subarray(0, SIZE / 10));
      response.end();
    } else response.end(`hi ${request.headers.host?.split(':')[0]}`);
  });
  server.on('secureConnection', (socket: TLSSocket) => {
    connections++;
    handshakes.push({ alpn: socket.alpnProtocol, name: socket.servername, reused: socket.isSessionReused() });
  });
  return server;
}

/** Forwards a server's output, and joins its successive writes into one segment. */
function gluing(port: number): Server {
  return createTcp((near) => {
    const far = connect(port, '127.0.0.1');
    let parts: Buffer[] = [];
    let timer: NodeJS.Timeout | undefined;
    far.on('data', (part) => {
      parts.push(part);
      clearTimeout(timer);
      timer = setTimeout(() => {
        near.write(Buffer.concat(parts));
        parts = [];
      }, 20);
    });
    near.pipe(far);
    const leave = (one: Socket, other: Socket): void => {
      one.on('error', () => {});
      one.on('close', () => {
        clearTimeout(timer);
        other.destroy();
      });
    };
    leave(near, far);
    leave(far, near);
  });
}

async function run(asked: readonly Asked[]): Promise<Told[]> {
  const ca = path.join(folder, 'ca.pem');
  writeFileSync(ca, trusted.cert + elsewhere.cert);
  const flags = ['--expose-gc', '--import', './test/support/ts.mjs'];
  const child = spawn(process.execPath, [...flags, 'test/support/https-client.ts'], {
    cwd: ROOT,
    env: { ...process.env, NODE_EXTRA_CA_CERTS: ca, NODE_TLS_REJECT_UNAUTHORIZED: undefined },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify(asked));
  return JSON.parse(await text(child.stdout)) as Told[];
}

const CASES: readonly (readonly [string, string, Partial<Asked>])[] = [
  ['first', 'good/', {}],
  ['second', 'good/', {}],
  ['closing', 'good/close', {}],
  ['resumed', 'good/', { collected: true }],
  ['by address', 'address/', {}],
  ['large', 'good/large', {}],
  ['large and held up', 'good/large', { hold: 'parts' }],
  ['chunks', 'good/chunks', {}],
  ['chunks and held up', 'good/chunks', { hold: 'parts' }],
  ['after all that', 'good/', {}],
  ['to the end', 'bytes/end', {}],
  ['to the end and held up', 'bytes/end', { hold: 'parts' }],
  ['excess', 'bytes/excess', {}],
  ['after the excess', 'bytes/', {}],
  ['two in one segment', 'glued/two', { hurried: true }],
  ['after the two', 'glued/', {}],
  ['held up from the beginning', 'other/', { hold: 'connecting' }],
  ['another name', 'elsewhere/', {}],
  ['another name again', 'elsewhere/', {}],
  ['unknown authority', 'unknown/', {}],
];
const of = (name: string): Told => told[CASES.findIndex(([known]) => known === name)]!;

beforeAll(async () => {
  const good = await listen(https(trusted));
  const raw = await rawServer(
    (socket, request) => {
      const reply = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi';
      if (request.startsWith('GET /end')) {
        socket.write('HTTP/1.1 200 OK\r\n\r\nh');
        socket.end('i there');
      } else if (request.startsWith('GET /excess')) socket.write(`${reply}HTTP/1.1 200 OK\r\n\r\nstolen`);
      else if (request.startsWith('GET /two')) {
        // Each write becomes a separate TLS record.
        socket.write(reply);
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen');
      } else socket.write(reply);
    },
    { server: createTls(trusted) },
  );
  closing.push(() => raw.close());
  const origins: Record<string, string> = {
    good: `https://localhost:${good}`,
    address: `https://127.0.0.1:${good}`,
    bytes: `https://127.0.0.1:${raw.port}`,
    glued: `https://127.0.0.1:${await listen(gluing(raw.port))}`,
    other: `https://127.0.0.1:${await listen(https(trusted))}`,
    elsewhere: `https://127.0.0.1:${await listen(https(elsewhere))}`,
    unknown: `https://127.0.0.1:${await listen(https(unknown))}`,
  };
  told = await run(
    CASES.map(([, where, how]) => {
      const [origin, rest] = where.split('/') as [string, string];
      return { url: `${origins[origin]}/${rest}`, ...how };
    }),
  );
});

afterAll(async () => {
  for (const close of closing.reverse()) await close();
  rmSync(folder, { recursive: true });
});

describe('over TLS', () => {
  it('one connection serves one exchange after the other, and the next resumes its session', () => {
    for (const name of ['first', 'second', 'closing', 'resumed', 'after all that'])
      expect(of(name).outcome).toEqual({ status: 200, body: 'hi localhost' });
    expect(handshakes.slice(0, 2)).toEqual([
      { alpn: 'http/1.1', name: 'localhost', reused: false },
      { alpn: 'http/1.1', name: 'localhost', reused: true },
    ]);
    expect(connections).toBeGreaterThan(2);
  });

  it('an address is checked against the certificate, and is not sent as server name', () => {
    expect(of('by address').outcome).toEqual({ status: 200, body: 'hi 127.0.0.1' });
    expect(handshakes[2]).toEqual({ alpn: 'http/1.1', name: false, reused: false });
  });

  it.each(['large', 'large and held up', 'chunks', 'chunks and held up'])('%s arrives complete', (name) => {
    expect(of(name)).toMatchObject({ outcome: { status: 200, body: 'abcdefg' }, size: SIZE });
  });

  it.each(['to the end', 'to the end and held up'])('a reply %s arrives complete', (name) => {
    expect(of(name).outcome).toEqual({ status: 200, body: 'hi there' });
  });

  it('no exchange gets excess data after a reply', () => {
    expect(of('excess').outcome).toEqual({ status: 200, body: 'hi' });
    expect(of('after the excess').outcome).toEqual({ status: 200, body: 'hi' });
  });

  it('no exchange gets excess data in a separate record', () => {
    expect(of('two in one segment').outcome).toEqual({ status: 200, body: 'hi' });
    expect(of('after the two').outcome).toEqual({ status: 200, body: 'hi' });
  });

  it('a handshake continues while the reply is paused', () => {
    expect(of('held up from the beginning').outcome).toEqual({ status: 200, body: 'hi 127.0.0.1' });
  });

  it('a server with the wrong name in its certificate is refused each time, before anything is sent', () => {
    for (const name of ['another name', 'another name again'])
      expect(of(name)).toMatchObject({ outcome: 'ERR_TLS_CERT_ALTNAME_INVALID', sent: false });
  });

  it('a server with an unknown authority is refused', () => {
    expect(of('unknown authority')).toMatchObject({ outcome: 'DEPTH_ZERO_SELF_SIGNED_CERT', sent: false });
  });
});
