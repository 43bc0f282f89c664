/** Slow connections, and requests that two parsers would read differently (cases 8, 9 and 11). */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { BOTH, modernBody, modernHeaders } from './support/speak.js';
import { ask, exchange, sleep, Wire } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

let world: World;
beforeAll(async () => {
  world = await startWorld();
  slow = sendSlowly();
});
afterAll(() => world.close());
afterEach(() => world.wellBehaved());

/** How often this text has arrived at the server behind the gateway. */
const arrivals = (text: string): number => world.echo.calls.filter(({ args }) => args['text'] === text).length;

/** These connections start with the first test and are checked in the last one, because they take half a minute. */
let slow: Promise<{ dripping: Wire; silent: Wire; chunked: Wire; mute: Wire }>;

async function sendSlowly(): typeof slow {
  const [dripping, silent, chunked, mute] = await Promise.all([1, 2, 3, 4].map(() => Wire.open(world.url)));
  const { head, body } = call('slow body');
  const post = `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${head}`;
  dripping!.send(`${post}Content-Length: ${body.length}\r\n\r\n`);
  silent!.send(`${post}Content-Length: ${body.length}\r\n\r\n${body.slice(0, -1)}`);
  chunked!.send(`${post}Transfer-Encoding: chunked\r\n\r\n`);
  const wires = [dripping!, silent!, chunked!, mute!];
  const deadline = Date.now() + 60_000;
  for (let at = 0; Date.now() < deadline && wires.some((wire) => !wire.closed); at++) {
    if (at < body.length - 1) dripping!.send(body[at]!);
    chunked!.send('1\r\n \r\n');
    await sleep(250);
  }
  return { dripping: dripping!, silent: silent!, chunked: chunked!, mute: mute! };
}

const call = (text: string): { head: string; body: string } => {
  const body = JSON.stringify(modernBody('tools/call', { name: 'echo__echo', arguments: { text } }));
  const headers = Object.entries(modernHeaders('tools/call', { name: 'echo__echo' }))
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  return { head: `${headers}Content-Type: application/json\r\n`, body };
};

describe('case 8: slow headers', () => {
  it('case 8: 500 sockets with one byte each half second get 408 and are closed; others are served', async () => {
    const wires = await Promise.all(Array.from({ length: 500 }, () => Wire.open(world.url)));
    const head = 'POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa';
    for (let at = 0; at < head.length && wires.some((wire) => !wire.closed); at++) {
      for (const wire of wires) wire.send(head[at]!);
      await sleep(500);
      if (at === 11) await world.wellBehaved();
    }
    expect(wires.filter((wire) => !wire.closed)).toHaveLength(0);
    expect(wires.filter((wire) => wire.statuses[0] === 408)).toHaveLength(500);
    // Freed by the limit for headers (5 s, checked each second), not by the limit for whole requests (30 s).
    for (const wire of wires) expect(wire.closedAt - wire.openedAt).toBeLessThan(20_000);
  });
});

describe('case 11: too many, too large or ambiguous headers', () => {
  const smuggled = 'POST /mcp HTTP/1.1\r\nHost: localhost\r\n';
  const refused = async (bytes: string | Buffer, text: string, statuses: readonly number[]): Promise<void> => {
    const before = arrivals(text);
    const wire = await exchange(world.url, bytes);
    expect(statuses, wire.text).toContain(wire.statuses[0]);
    // The gateway reads none of the following bytes as a second request.
    expect(wire.statuses).toHaveLength(1);
    expect(arrivals(text)).toBe(before);
  };

  it('case 11: a header block of 17 kB is 431', async () => {
    const { head, body } = call('large head');
    await refused(
      `${smuggled}${head}X-Large: ${'a'.repeat(17_000)}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      'large head',
      [431],
    );
  });

  it('case 11: 200 headers are 431', async () => {
    const { head, body } = call('many headers');
    const many = Array.from({ length: 200 }, (_, n) => `X-${n}: a\r\n`).join('');
    await refused(`${smuggled}${many}${head}Content-Length: ${body.length}\r\n\r\n${body}`, 'many headers', [431]);
  });

  it('case 11: 60 headers are served', async () => {
    const { head, body } = call('some headers');
    const some = Array.from({ length: 60 }, (_, n) => `X-${n}: a\r\n`).join('');
    const wire = await exchange(
      world.url,
      `${smuggled}${some}${head}Connection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    expect(wire.statuses).toEqual([200]);
  });

  const { head, body } = call('smuggled');
  const length = `Content-Length: ${body.length}\r\n`;
  const chunkedBody = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  it.each<[string, string]>([
    ['a NUL in a value', `${smuggled}X-Bad: a\u0000b\r\n${head}${length}\r\n${body}`],
    ['a bare CR in a value', `${smuggled}X-Bad: a\rb\r\n${head}${length}\r\n${body}`],
    ['a control character in a name', `${smuggled}X\u0001Bad: a\r\n${head}${length}\r\n${body}`],
    ['a space before the colon', `${smuggled}X-Bad : a\r\n${head}${length}\r\n${body}`],
    ['a folded header', `${smuggled}X-Bad: a\r\n b\r\n${head}${length}\r\n${body}`],
    ['two equal Hosts', `${smuggled}Host: localhost\r\n${head}${length}\r\n${body}`],
    ['two different Hosts', `${smuggled}Host: evil.example\r\n${head}${length}\r\n${body}`],
    ['no Host', `POST /mcp HTTP/1.1\r\n${head}${length}\r\n${body}`],
    ['two Content-Lengths', `${smuggled}${head}${length}Content-Length: 5\r\n\r\n${body}`],
    ['two equal Content-Lengths', `${smuggled}${head}${length}${length}\r\n${body}`],
    ['a list in Content-Length', `${smuggled}${head}Content-Length: ${body.length}, ${body.length}\r\n\r\n${body}`],
    ['a signed Content-Length', `${smuggled}${head}Content-Length: +${body.length}\r\n\r\n${body}`],
    ['a negative Content-Length', `${smuggled}${head}Content-Length: -1\r\n\r\n${body}`],
    ['a hexadecimal Content-Length', `${smuggled}${head}Content-Length: 0x10\r\n\r\n${body}`],
    ['a Content-Length beyond any integer', `${smuggled}${head}Content-Length: 99999999999999999999999\r\n\r\n${body}`],
    [
      'Content-Length and Transfer-Encoding',
      `${smuggled}${head}${length}Transfer-Encoding: chunked\r\n\r\n${chunkedBody}`,
    ],
    [
      'Transfer-Encoding and Content-Length',
      `${smuggled}${head}Transfer-Encoding: chunked\r\n${length}\r\n${chunkedBody}`,
    ],
    [
      'two Transfer-Encodings',
      `${smuggled}${head}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n${chunkedBody}`,
    ],
    ['chunked twice', `${smuggled}${head}Transfer-Encoding: chunked, chunked\r\n\r\n${chunkedBody}`],
    ['an unknown Transfer-Encoding', `${smuggled}${head}Transfer-Encoding: xchunked\r\n\r\n${chunkedBody}`],
    ['chunked before another coding', `${smuggled}${head}Transfer-Encoding: chunked, gzip\r\n\r\n${chunkedBody}`],
    [
      'a chunk size that is not a number',
      `${smuggled}${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n${body}\r\n0\r\n\r\n`,
    ],
    [
      'a chunk size beyond any integer',
      `${smuggled}${head}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n${body}\r\n0\r\n\r\n`,
    ],
    [
      'a chunk with more bytes than its size',
      `${smuggled}${head}Transfer-Encoding: chunked\r\n\r\n2\r\n${body}\r\n0\r\n\r\n`,
    ],
    ['bare line feeds', `${smuggled}${head}${length}\r\n${body}`.replaceAll('\r\n', '\n')],
    ['an unknown HTTP version', `${smuggled}${head}${length}\r\n${body}`.replace('HTTP/1.1', 'HTTP/9.9')],
    ['no method', ` /mcp HTTP/1.1\r\nHost: localhost\r\n${head}${length}\r\n${body}`],
    ['an unknown method', `BREW /mcp HTTP/1.1\r\nHost: localhost\r\n${head}${length}\r\n${body}`],
    ['a space in the target', `POST /mcp x HTTP/1.1\r\nHost: localhost\r\n${head}${length}\r\n${body}`],
  ])('case 11: %s is 400, the connection ends, nothing is forwarded', async (_, bytes) => {
    await refused(bytes, 'smuggled', [400]);
  });

  it('case 11: a CR or LF in a header cannot be smuggled through a mirrored name', async () => {
    const name = '=?base64?YQ0KSG9zdDogZXZpbA==?=';
    const bytes = `${smuggled}Accept: ${BOTH}\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: ${name}\r\nContent-Type: application/json\r\nConnection: close\r\n`;
    const text = JSON.stringify(modernBody('tools/call', { name: 'a\r\nHost: evil', arguments: {} }));
    const wire = await exchange(world.url, `${bytes}Content-Length: ${text.length}\r\n\r\n${text}`);
    expect(wire.statuses).toEqual([200]);
    expect(wire.text).toContain('-32602');
    expect(wire.text).not.toMatch(/^Host: evil/m);
  });

  it('case 11: an absolute target does not replace the Host', async () => {
    const bytes = `POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\n${head}Connection: close\r\n${length}\r\n${body}`;
    const before = arrivals('smuggled');
    const wire = await exchange(world.url, bytes);
    expect([400, 403, 404]).toContain(wire.statuses[0]);
    expect(arrivals('smuggled')).toBe(before);
  });

  it('case 11: CONNECT and upgrades are refused', async () => {
    const tunnel = await exchange(world.url, 'CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n');
    expect(tunnel.text).not.toContain(' 200 ');
    const upgrade = await exchange(
      world.url,
      'GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n',
    );
    expect(upgrade.text).not.toContain(' 101 ');
  });

  it.each(['websocket', 'h2c'])(
    'case 11: a reset after a request for %s behind an open stream does no harm',
    async (to) => {
      const wire = await Wire.open(world.url);
      wire.send('GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n');
      wire.send(`GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: ${to}\r\n\r\n`);
      while (!wire.text.includes('event: endpoint')) await sleep(20);
      wire.socket.resetAndDestroy();
      await sleep(200);
    },
  );
});

it('case 6: the maximum number of distinct keys in one request does not block others, and more are refused', async () => {
  const keysOf = (count: number): string => Array.from({ length: count }, (_, n) => `"k${n}":1`).join(',');
  const send = (text: string) => ask(world.mcp, { headers: { accept: BOTH }, body: text });
  for (const [count, reason] of [
    [99_000, 'session_required'],
    [300_000, 'parse_error'],
  ] as const) {
    const keys = keysOf(count);
    for (const text of [
      `{"jsonrpc":"2.0","id":1,"method":"ping","params":{${keys}}}`,
      `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{${keys}}}}`,
      `{"jsonrpc":"2.0","id":1,"method":"ping",${keys}}`,
    ]) {
      const reply = await send(text);
      expect(reply.status).toBe(400);
      expect(reply.json.error.data.reason).toBe(reason);
    }
  }
  const twice = await send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{${keysOf(99_000)},"k7":2}}`);
  expect(twice.json.error).toMatchObject({ code: -32600, data: { reason: 'invalid_request' } });
});

describe('case 9: slow bodies', () => {
  it('case 9: an endless body gets 408 at the request timeout and reaches no server', async () => {
    const { dripping, silent, chunked, mute } = await slow;
    for (const wire of [dripping, silent, chunked]) {
      expect(wire.closed).toBe(true);
      expect(wire.statuses).toEqual([408]);
    }
    expect(arrivals('slow body')).toBe(0);
    // A connection that never sends anything is also freed.
    expect(mute.closed).toBe(true);
    expect(mute.statuses.every((status) => status === 408)).toBe(true);
  });
});
