/** Invalid bodies (cases 1 to 5 and 7). */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sleep } from '../../src/core/timing.js';
import { type Message, textOf } from './support/message.js';
import { BOTH, modernBody, modernCall, modernHeaders, Session } from './support/speak.js';
import { ask, Wire } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

let world: World;
beforeAll(async () => {
  world = await startWorld({ limits: { body: '256KiB' } });
});
afterAll(() => world.close());
afterEach(() => world.wellBehaved());

const post = (body: string | Buffer, headers: Record<string, string> = {}) =>
  ask(world.mcp, { headers: { accept: BOTH, ...headers }, body });

const PING = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });

describe('case 1 S0-48: a body that is not JSON', () => {
  it.each([
    ['text', Buffer.from('hello')],
    ['nothing', Buffer.alloc(0)],
    ['white space', Buffer.from(' \n ')],
    ['a truncated object', Buffer.from('{"jsonrpc":"2.0","id":1,"method":"pi')],
    ['two objects', Buffer.from(`${PING}${PING}`)],
    ['a byte order mark', Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(PING)])],
    ['UTF-16', Buffer.from(PING, 'utf16le')],
    [
      'invalid UTF-8',
      Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]),
    ],
    ['an overlong encoding', Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')])],
    ['a NUL byte', Buffer.from('{"jsonrpc":"2.0",\u0000"id":1}')],
    ['a single quote', Buffer.from("{'jsonrpc':'2.0'}")],
    ['NaN', Buffer.from('{"jsonrpc":"2.0","id":NaN,"method":"ping"}')],
    ['a trailing comma', Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping",}')],
  ])('case 1: %s is refused with 400, -32700 and id null', async (_, body) => {
    const reply = await post(body, { 'content-type': 'application/json' });
    expect(reply.status).toBe(400);
    expect(reply.json).toMatchObject({
      jsonrpc: '2.0',
      id: null,
      error: { code: -32700, data: { reason: 'parse_error' } },
    });
  });

  it('case 1: the connection can be used again', async () => {
    const wire = await Wire.open(world.url);
    const say = (body: string): void =>
      wire.send(
        `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: ${BOTH}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    say('{');
    await wire.until(() => wire.statuses.length === 1);
    say('nonsense');
    await wire.until(() => wire.statuses.length === 2);
    say('{"jsonrpc":"2.0","id":7,"method":"ping"}');
    await wire.until(() => wire.statuses.length === 3);
    expect(wire.statuses).toEqual([400, 400, 400]);
    expect(wire.text.match(/-32700/g)).toHaveLength(2);
    expect(wire.closed).toBe(false);
    wire.close();
  });

  it('case 1: an incomplete body affects only its own connection', async () => {
    const wire = await Wire.open(world.url);
    wire.send(
      `POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"json`,
    );
    await sleep(50);
    wire.socket.end();
    await wire.until(() => wire.closed);
    expect(wire.statuses.every((status) => status === 400)).toBe(true);
  });
});

describe('case 2 S0-48 S2-18 S3-11: JSON that is not JSON-RPC', () => {
  const base = '"jsonrpc":"2.0"';
  it.each([
    ['a string', '"ping"'],
    ['a number', '7'],
    ['null', 'null'],
    ['true', 'true'],
    ['an object id', `{${base},"id":{"a":1},"method":"ping"}`],
    ['an array id', `{${base},"id":[1],"method":"ping"}`],
    ['a boolean id', `{${base},"id":true,"method":"ping"}`],
    ['a null id (BASE-01)', `{${base},"id":null,"method":"ping"}`],
    ['a fractional id (BASE-01)', `{${base},"id":1.5,"method":"ping"}`],
    ['an id of 1e400', `{${base},"id":1e400,"method":"ping"}`],
    ['an id beyond double precision', `{${base},"id":9007199254740993,"method":"ping"}`],
    ['a numeric method', `{${base},"id":1,"method":42}`],
    ['a null method', `{${base},"id":1,"method":null}`],
    ['no method', `{${base},"id":1}`],
    ['version 1.0', '{"jsonrpc":"1.0","id":1,"method":"ping"}'],
    ['no version', '{"id":1,"method":"ping"}'],
    ['a numeric version', '{"jsonrpc":2.0,"id":1,"method":"ping"}'],
    ['array params', `{${base},"id":1,"method":"ping","params":[1]}`],
    ['string params', `{${base},"id":1,"method":"ping","params":"x"}`],
    ['null params', `{${base},"id":1,"method":"ping","params":null}`],
    ['the id twice', `{${base},"id":1,"id":2,"method":"ping"}`],
    ['the method twice', `{${base},"id":1,"method":"ping","method":"tools/list"}`],
    ['the method twice, once escaped', `{${base},"id":1,"method":"ping","\\u006dethod":"tools/list"}`],
    ['params twice', `{${base},"id":1,"method":"ping","params":{},"params":{"a":1}}`],
    ['a parameter twice', `{${base},"id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`],
    ['a result beside a method', `{${base},"id":1,"method":"ping","result":{}}`],
    ['result and error', `{${base},"id":1,"result":{},"error":{"code":1,"message":""}}`],
    ['an error without code', `{${base},"id":1,"error":{"message":"x"}}`],
  ])('case 2: %s is refused with 400 and -32600', async (_, body) => {
    const reply = await post(body);
    expect(reply.status).toBe(400);
    expect(reply.json.error).toMatchObject({ code: -32600, data: { reason: 'invalid_request' } });
  });

  it('case 2: a mirrored value that appears twice is refused', async () => {
    const body = JSON.stringify(modernBody('tools/call', { name: 'echo__echo', arguments: { text: 'x' } })).replace(
      '"io.modelcontextprotocol/protocolVersion":"2026-07-28"',
      '"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/protocolVersion":"2026-07-28"',
    );
    const before = world.echo.calls.filter(({ args }) => args['text'] === 'x').length;
    const reply = await ask(world.mcp, { headers: modernHeaders('tools/call', { name: 'echo__echo' }), body });
    expect(reply.status).toBe(400);
    expect(reply.json.error.code).toBe(-32600);
    expect(world.echo.calls.filter(({ args }) => args['text'] === 'x')).toHaveLength(before);
  });
});

describe('case 3: batches', () => {
  const ping = (id: number): object => ({ jsonrpc: '2.0', id, method: 'ping' });

  it.each(['2024-11-05', '2025-06-18', '2025-11-25'])(
    'case 3: %s has no batches: 400 and -32600 (BASE-09)',
    async (version) => {
      const session = await Session.open(world.mcp, version);
      const reply = await session.post([ping(1), ping(2)]);
      expect(reply.status).toBe(400);
      expect(reply.json.error.code).toBe(-32600);
    },
  );

  it.each([
    ['without a session', {}],
    ['with a header of a revision without batches', { 'mcp-protocol-version': '2025-06-18' }],
    ['with the modern header', { 'mcp-protocol-version': '2026-07-28' }],
  ])('case 3: a batch %s is 400 and -32600', async (_, headers) => {
    const reply = await post(JSON.stringify([ping(1)]), headers);
    expect(reply.status).toBe(400);
    expect(reply.json.error.code).toBe(-32600);
  });

  it('case 3 S1-05: a batch of modern requests is 400 and -32600 (BASE-09)', async () => {
    const reply = await ask(world.mcp, {
      headers: modernHeaders('server/discover'),
      body: [modernBody('server/discover')],
    });
    expect(reply.status).toBe(400);
    expect(reply.json.error.code).toBe(-32600);
  });

  it('case 3: 2025-03-26 accepts up to 50 messages and answers each (BASE-07)', async () => {
    const session = await Session.open(world.mcp, '2025-03-26');
    const reply = await session.post(Array.from({ length: 50 }, (__, id) => ping(id)));
    expect(reply.status).toBe(200);
    const answers = reply.json as unknown as Message[];
    expect(answers.map(({ id }) => id).sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 50 }, (__, id) => id),
    );
    const tooMany = await session.post(Array.from({ length: 51 }, (__, id) => ping(id)));
    expect(tooMany.status).toBe(400);
    expect(tooMany.json.error.code).toBe(-32600);
    const none = await session.post([]);
    expect(none.status).toBe(400);
    expect(none.json.error.code).toBe(-32600);
  });

  it('case 3: in a batch each message has its own verdict', async () => {
    const session = await Session.open(world.mcp, '2025-03-26');
    const reply = await session.post([
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo__echo', arguments: { text: 'one' } } },
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 99 } },
      { jsonrpc: '2.0', id: 2, method: 'no/such' },
      7,
      { jsonrpc: '1.0', id: 3, method: 'ping' },
      { jsonrpc: '2.0', id: 4, result: {} },
      { jsonrpc: '2.0', id: 5, method: 'initialize', params: { protocolVersion: '2025-03-26', capabilities: {} } },
    ]);
    expect(reply.status).toBe(200);
    const answers = reply.json as unknown as Message[];
    const of = (id: number | null): Message => answers.find((answer) => answer.id === id)!;
    expect(answers).toHaveLength(5);
    expect(textOf(of(1))).toBe('one');
    expect(of(2).error.code).toBe(-32601);
    expect(of(3).error.code).toBe(-32600);
    expect(of(null).error.code).toBe(-32600);
    // BASE-08: initialize must not be part of a batch.
    expect(of(5).error.code).toBe(-32600);
  });
});

describe('case 4: a body over the limit', () => {
  const limit = 256 * 1024;
  const padded = (size: number): string => {
    const shell = JSON.stringify(modernBody('tools/call', { name: 'echo__echo', arguments: { text: '' } }));
    return shell.replace('"text":""', `"text":"${'a'.repeat(size - shell.length)}"`);
  };

  it('case 4: exactly the limit is served', async () => {
    const body = padded(limit);
    expect(body).toHaveLength(limit);
    const reply = await ask(world.mcp, { headers: modernHeaders('tools/call', { name: 'echo__echo' }), body });
    expect(reply.status).toBe(200);
  });

  it('case 4: one byte more with a Content-Length is 413, and the connection ends', async () => {
    const wire = await Wire.open(world.url);
    wire.send(
      `POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${limit + 1}\r\n\r\n`,
    );
    // The response comes before a byte of the body was sent.
    await wire.until(() => wire.statuses.length === 1);
    expect(wire.statuses).toEqual([413]);
    expect(wire.text).toMatch(/connection: close/i);
    expect(wire.text).toContain('"reason":"body_too_large"');
    await wire.until(() => wire.closed);
  });

  it('case 4: endless chunks are refused as soon as the limit is exceeded', async () => {
    const wire = await Wire.open(world.url);
    wire.send(
      'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
    );
    const chunk = `8000\r\n${'['.padEnd(0x8000, ' ')}\r\n`;
    const before = world.memory();
    let sent = 0;
    while (!wire.closed && sent < 64 * 1024 * 1024) {
      wire.send(chunk);
      sent += 0x8000;
      await sleep(1);
    }
    expect(wire.statuses).toEqual([413]);
    expect(wire.closed).toBe(true);
    expect(world.memory() - before).toBeLessThan(64);
  });

  it('case 4: a body over the limit at the HTTP+SSE endpoint is 413', async () => {
    const { SseClient } = await import('./support/speak.js');
    const client = await SseClient.connect(`${world.url}/sse`);
    const reply = await client.post(padded(limit + 1));
    expect(reply.status).toBe(413);
    client.close();
  });
});

describe('case 5: deep nesting', () => {
  it.each([
    [5_000, '['],
    [10_000, '{"a":'],
    [200_000, '['],
  ])('case 5: %i levels are refused with 400 before they are parsed', async (levels, open) => {
    const body = open.repeat(levels).slice(0, 250_000);
    const reply = await post(body);
    expect(reply.status).toBe(400);
    expect(reply.json.error.code).toBe(-32700);
    expect(reply.json.error.message).toMatch(/deeper than 64/);
  });

  it('case 5: deep arguments of a well-formed request are also refused, and 50 levels pass', async () => {
    const nested = (levels: number): object => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`) as object;
    const refused = await modernCall(world.mcp, 'echo__echo', { text: 'x', nested: nested(70) });
    expect(refused.status).toBe(400);
    const served = await modernCall(world.mcp, 'echo__echo', { text: 'deep', nested: nested(50) });
    expect(textOf(served.json)).toBe('deep');
  });
});

describe('case 7: prototype pollution', () => {
  it.each(['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty'])(
    'case 7: the argument %s reaches the server unchanged',
    async (key) => {
      const text = `poison ${key}`;
      const body = JSON.stringify(modernBody('tools/call', { name: 'echo__echo', arguments: { text } })).replace(
        '"arguments":{',
        `"arguments":{"${key}":{"polluted":true},`,
      );
      const reply = await ask(world.mcp, { headers: modernHeaders('tools/call', { name: 'echo__echo' }), body });
      expect(textOf(reply.json)).toBe(text);
      const call = world.echo.calls.find(({ args }) => args['text'] === text)!;
      // The SDK's own validation drops __proto__; the raw test below checks the bytes on the wire.
      if (key !== '__proto__')
        expect(Object.getOwnPropertyDescriptor(call.args, key)?.value).toEqual({ polluted: true });
    },
  );

  it.each(['__proto__', 'constructor', 'toString'])(
    'case 7: %s as a tool, server, prompt or resource is unknown',
    async (name) => {
      for (const [method, params] of [
        ['tools/call', { name }],
        ['tools/call', { name: `${name}__echo` }],
        ['tools/call', { name: `echo__${name}` }],
        ['prompts/get', { name }],
        ['resources/read', { uri: name }],
      ] as const) {
        const { modern } = await import('./support/speak.js');
        const reply = await modern(world.mcp, method, params);
        expect(reply.json.error.code, `${method} ${JSON.stringify(params)}`).toBe(-32602);
      }
      expect((await post(PING.replace('"ping"', `"${name}"`), {})).status).toBe(400);
      const path = await ask(`${world.url}/mcp/${name}`, { body: PING });
      expect(path.status).toBe(404);
    },
  );

  it('case 7: such keys in every part of a handshake and of a call have no effect', async () => {
    const poison = '"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}';
    const body = `{"jsonrpc":"2.0","id":1,"method":"initialize",${poison},"params":{${poison},"protocolVersion":"2025-11-25","capabilities":{${poison}},"clientInfo":{${poison},"name":"x","version":"1"}}}`;
    const opening = await ask(world.mcp, { headers: { accept: BOTH }, body });
    expect(opening.status).toBe(200);
    const headers = { accept: BOTH, 'mcp-session-id': String(opening.headers['mcp-session-id']) };
    const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{${poison},"_meta":{${poison}},"name":"echo__echo","arguments":{"text":"fine"}}}`;
    expect(textOf((await ask(world.mcp, { headers, body: call })).json)).toBe('fine');
    const listed = await ask(world.mcp, { headers, body: '{"jsonrpc":"2.0","id":3,"method":"tools/list"}' });
    expect(listed.body).not.toContain('polluted');
  });
});
