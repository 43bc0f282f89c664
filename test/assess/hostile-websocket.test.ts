/** WebSocket servers that hang, flood and lie: the assessment ends by its own limits, and there is a report. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { type AssessOptions, assess } from '../../src/assess/assess.js';
import { profileOf } from '../../src/assess/profiles.js';
import type { Report } from '../../src/assess/report/model.js';
import { FORMATS, render } from '../../src/assess/report/render.js';

/** Handles one connection. `key` is the header Sec-WebSocket-Key. */
type Handle = (socket: Socket, key: string, head: string) => void;

async function against(handle: Handle, more: Partial<AssessOptions> = {}): Promise<Report> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    let head = '';
    const read = (chunk: Buffer): void => {
      head += chunk.toString('latin1');
      if (!head.includes('\r\n\r\n')) return;
      socket.off('data', read);
      handle(socket, /sec-websocket-key: (\S+)/i.exec(head)?.[1] ?? '', head);
    };
    socket.on('data', read);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/ws`);
  try {
    return await assess({
      tool: 'test',
      profile: profileOf('standard')!,
      active: true,
      pace: { interval: 0, answer: 400, total: 3_000 },
      target: { kind: 'url', url },
      ...more,
    });
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const accepted = (key: string, accept = createHash('sha1').update(`${key}${GUID}`).digest('base64')): string =>
  `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\nsec-websocket-protocol: mcp\r\n\r\n`;

const TEXT = 0x81;
const PART = 0x00;
const PING = 0x89;

/** A frame, with another length in its head if one is given. */
function frame(first: number, text: string, length = Buffer.byteLength(text)): Buffer {
  const head = Buffer.alloc(10);
  head[0] = first;
  head[1] = 127;
  head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([first === PING ? Buffer.from([PING, length]) : head, Buffer.from(text)]);
}

/** Writes until the client leaves. */
function pour(socket: Socket, chunk: Buffer | string): void {
  const more = (): void => {
    while (!socket.destroyed && socket.write(chunk));
  };
  socket.on('drain', more);
  more();
}

/** Opens the WebSocket, then writes the frames. */
const opened =
  (then: (socket: Socket) => void): Handle =>
  (socket, key) => {
    socket.write(accepted(key));
    then(socket);
  };

const NOTE = '{"jsonrpc":"2.0","method":"notifications/message","params":{}}';

const servers: Readonly<Record<string, Handle>> = {
  'never answers the handshake': () => {},
  'sends one byte of its head at a time': (socket) => {
    const timer = setInterval(() => socket.write('H'), 20);
    socket.on('close', () => clearInterval(timer));
  },
  'sends an endless head': (socket) => pour(socket, `HTTP/1.1 101 x\r\n${'a: b\r\n'.repeat(10_000)}`),
  'refuses the handshake with an endless body': (socket) => {
    socket.write('HTTP/1.1 503 Busy\r\n\r\n');
    pour(socket, 'x'.repeat(64 * 1024));
  },
  'breaks the connection': (socket) => void socket.destroy(),
  'accepts with a wrong key': (socket, key) => void socket.write(accepted(key, 'wrong')),
  'opens and never answers': opened(() => {}),
  'opens and leaves': opened((socket) => void socket.end()),
  'opens and closes with a code': opened((socket) => void socket.write(Buffer.from([0x88, 2, 0x03, 0xf3]))),
  'sends endless messages': opened((socket) => pour(socket, Buffer.concat(Array(500).fill(frame(TEXT, NOTE))))),
  'announces a huge frame': opened((socket) => pour(socket, frame(TEXT, 'x'.repeat(64 * 1024), 2 ** 40))),
  'sends a message in endless parts': opened((socket) => {
    socket.write(frame(0x01, 'x'));
    pour(socket, Buffer.concat(Array(500).fill(frame(PART, 'x'))));
  }),
  'sends empty parts': opened((socket) => {
    socket.write(frame(0x01, ''));
    pour(socket, Buffer.concat(Array(5_000).fill(frame(PART, ''))));
  }),
  'sends endless pings': opened((socket) => pour(socket, Buffer.concat(Array(500).fill(frame(PING, 'p'))))),
  'sends endless binary frames': opened((socket) => pour(socket, frame(0x82, 'x'.repeat(64 * 1024)))),
  'nests deeply': opened((socket) => {
    const deep = `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`;
    socket.write(frame(TEXT, `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"a":${deep}}}`));
  }),
  'sends control characters': opened((socket) => {
    const text = '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"\\u001b[2J\\u0007<script>"}}';
    socket.write(frame(TEXT, text));
  }),
};

for (const [what, handle] of Object.entries(servers)) {
  it(`a WebSocket server that ${what} gets a report`, async () => {
    const report = await against(handle);
    for (const format of FORMATS) {
      const text = render(report, format);
      expect(text.length, format).toBeLessThan(4 * 1024 * 1024);
      expect(text, format).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f]/);
    }
    expect(report.score).toBeLessThan(90);
  });
}

it('credentials are in the handshake with the target, in no report, and at no other host', async () => {
  const credentials = [['Authorization', 'Bearer secret-token-of-the-user']] as const;
  const others: string[] = [];
  const other = createServer((socket) => socket.once('data', (chunk) => others.push(String(chunk)))).listen(0);
  await once(other, 'listening');
  const place = `http://127.0.0.1:${(other.address() as AddressInfo).port}/ws`;
  const heads: string[] = [];
  const handles: readonly Handle[] = [
    (socket, _, head) => {
      heads.push(head);
      socket.end(`HTTP/1.1 307 Moved\r\nlocation: ${place}\r\ncontent-length: 0\r\n\r\n`);
    },
    (socket, _, head) => socket.end(`HTTP/1.1 403 No\r\nconnection: close\r\n\r\n${head}`),
  ];
  for (const handle of handles) {
    const report = await against(handle, { credentials });
    for (const format of FORMATS) expect(render(report, format)).not.toContain('secret-token-of-the-user');
  }
  expect(heads.every((head) => /^authorization: Bearer secret-token-of-the-user\r$/im.test(head))).toBe(true);
  expect(heads.length).toBeGreaterThan(0);
  expect(others).toEqual([]);
  other.close();
});

it('a WebSocket server that refuses the handshake with 401 needs a token', async () => {
  const report = await against((socket) => socket.end('HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n'));
  expect(report.notes).toEqual([
    'The server needs a token. Give one with --auth to examine the rest.',
    'No MCP: GET got 401',
  ]);
  expect([report.sections, report.score, report.complete]).toEqual([[], 0, false]);
});
