/** The rows of 2024-11-05 and 2025-03-26, which the official suite does not cover. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BIN } from '../support/gateway.js';
import { type Message, textOf } from './support/message.js';
import { BOTH, initializeBody, modernBody, Session, SseClient } from './support/speak.js';
import { ask, EventStream, eventually, readEvents } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(async () => {
  await world.wellBehaved();
  await world.close();
});

const ENDPOINTS = [
  ['/sse', '/messages', 'echo__echo'],
  ['/mcp/sse', '/mcp/messages', 'echo__echo'],
  ['/mcp/echo/sse', '/mcp/echo/messages', 'echo'],
] as const;

describe.each(ENDPOINTS)('HTTP+SSE of 2024-11-05 at %s', (path, messages, tool) => {
  const connect = (): Promise<SseClient> => SseClient.connect(`${world.url}${path}`);

  it('SSE-01 S0-03 S3-04: the first event is `endpoint` with a relative URI to post to', async () => {
    const stream = await EventStream.open(`${world.url}${path}`, { headers: { accept: 'text/event-stream' } });
    expect(stream.status).toBe(200);
    expect(stream.res.headers['content-type']).toBe('text/event-stream');
    expect(stream.res.headers['x-accel-buffering']).toBe('no');
    const first = await stream.until(({ events }) => events[0]);
    expect(first.event).toBe('endpoint');
    // Relative: the Host header never becomes part of the URI for clients.
    expect(first.data).toMatch(new RegExp(`^${messages}\\?sessionId=[\\x21-\\x7e]{32,}$`));
    stream.close();
  });

  it('SSE-01 LIFE-02 LIFE-07 S0-04: messages are posted there, 202, and answered as `message` events', async () => {
    const client = await connect();
    const posted = await client.post(initializeBody('2024-11-05', 'i'));
    expect(posted.status).toBe(202);
    const answer = await client.stream.until<Message>(({ messages: said }) => said.find(({ id }) => id === 'i'));
    expect(answer.result).toMatchObject({ protocolVersion: '2024-11-05', serverInfo: { name: 'parley' } });
    expect(answer.result.capabilities).toHaveProperty('tools');
    expect(
      client.stream.events
        .filter(({ data }) => data.includes('"id":"i"'))
        .every(({ event }) => event === undefined || event === 'message'),
    ).toBe(true);
    await client.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
    expect(textOf(await client.request('tools/call', { name: tool, arguments: { text: 'over sse' } }, 2))).toBe(
      'over sse',
    );
    client.close();
  });

  it('LIFE-11: ping is answered before and after the handshake', async () => {
    const client = await connect();
    expect((await client.request('ping', {}, 'p0')).result).toEqual({});
    await client.initialize('2024-11-05');
    expect((await client.request('ping', {}, 'p1')).result).toEqual({});
    client.close();
  });

  it('LIFE-04: anything else before the handshake is refused', async () => {
    const client = await connect();
    expect((await client.request('tools/list', {}, 1)).error.code).toBe(-32600);
    client.close();
  });

  it('BASE-04 BASE-06 S0-21 S2-24 S4-01: ids are returned unchanged, notifications get no response', async () => {
    const client = await connect();
    await client.initialize('2024-11-05');
    for (const id of [0, -1, 'x', '']) expect((await client.request('tools/list', {}, id)).id).toBe(id);
    const before = client.stream.messages.length;
    expect((await client.post({ jsonrpc: '2.0', method: 'notifications/unknown' })).status).toBe(202);
    expect((await client.post({ jsonrpc: '2.0', id: 'nobody', result: {} })).status).toBe(202);
    await client.request('ping', {}, 'after');
    expect(client.stream.messages).toHaveLength(before + 1);
    client.close();
  });
});

describe('HTTP+SSE in detail', () => {
  const connect = (): Promise<SseClient> => SseClient.connect(`${world.url}/sse`);

  it.each(['2025-03-26', '2025-06-18', '2025-11-25'])(
    'SSE-03 S0-19: a client of %s may still use it',
    async (version) => {
      const client = await connect();
      expect((await client.initialize(version)).result.protocolVersion).toBe(version);
      client.close();
    },
  );

  it('GET only, and only for clients that accept a stream', async () => {
    const post = await ask(`${world.url}/sse`, { body: '{}' });
    expect(post.status).toBe(405);
    expect(post.headers.allow).toContain('GET');
    const json = await ask(`${world.url}/sse`, { method: 'GET', headers: { accept: 'application/json' } });
    expect(json.status).toBe(406);
    const get = await ask(`${world.url}/messages`, { method: 'GET' });
    expect(get.status).toBe(405);
    expect(get.headers.allow).toContain('POST');
  });

  it('C-04: a missing session is 400, an unknown one 404, and neither opens one', async () => {
    expect((await ask(`${world.url}/messages`, { body: initializeBody('2024-11-05') })).status).toBe(400);
    for (const id of ['made-up', '__proto__', 'x'.repeat(5_000)])
      expect((await ask(`${world.url}/messages?sessionId=${id}`, { body: initializeBody('2024-11-05') })).status).toBe(
        404,
      );
  });

  it('C-08: bodies that are not JSON-RPC are 400 and do not affect the stream', async () => {
    const client = await connect();
    await client.initialize('2024-11-05');
    const before = client.stream.messages.length;
    const broken = await client.post('{');
    expect([broken.status, broken.json.error.code]).toEqual([400, -32700]);
    const wrong = await client.post({ jsonrpc: '1.0', id: 1, method: 'ping' });
    expect([wrong.status, wrong.json.error.code]).toEqual([400, -32600]);
    expect((await ask(client.endpoint, { headers: { 'content-type': 'text/plain' }, body: '{}' })).status).toBe(415);
    expect((await client.request('ping', {}, 'still')).result).toEqual({});
    expect(client.stream.messages).toHaveLength(before + 1);
    client.close();
  });

  it('BASE-09: 2024-11-05 does not support batches', async () => {
    const client = await connect();
    await client.initialize('2024-11-05');
    const reply = await client.post([{ jsonrpc: '2.0', id: 1, method: 'ping' }]);
    expect([reply.status, reply.json.error.code]).toEqual([400, -32600]);
    client.close();
  });

  it('BASE-07: 2025-03-26 supports batches on every transport', async () => {
    const client = await connect();
    await client.initialize('2025-03-26');
    expect(
      (
        await client.post([
          { jsonrpc: '2.0', id: 'a', method: 'ping' },
          { jsonrpc: '2.0', id: 'b', method: 'tools/list' },
        ])
      ).status,
    ).toBe(202);
    const answers = await client.stream.until(
      ({ messages }) => messages.find((message) => Array.isArray(message)) as unknown as Message[] | undefined,
    );
    expect(answers.map(({ id }) => id).sort()).toEqual(['a', 'b']);
    client.close();
  });

  it('S0-05, S0-22: a session of HTTP+SSE exists only at its own endpoint and ends with its stream', async () => {
    const client = await connect();
    await client.initialize('2024-11-05');
    const id = new URL(client.endpoint).searchParams.get('sessionId')!;
    const elsewhere = await ask(world.mcp, {
      headers: { accept: BOTH, 'mcp-session-id': id },
      body: { jsonrpc: '2.0', id: 1, method: 'ping' },
    });
    expect(elsewhere.status).toBe(404);
    client.close();
    const status = await eventually(
      async () => (await client.post({ jsonrpc: '2.0', id: 1, method: 'ping' })).status,
      (seen) => seen === 404,
    );
    expect(status).toBe(404);
  });

  it('PRG-01 CAN-01: progress, and a cancelled call is not answered', async () => {
    const client = await connect();
    await client.initialize('2024-11-05');
    const answer = await client.request(
      'tools/call',
      { name: 'echo__steps', arguments: { text: 'p', count: 3, size: 1, pause: 1 }, _meta: { progressToken: 'tok' } },
      'steps',
    );
    expect(textOf(answer)).toBe('p');
    const progress = client.stream.messages.filter(({ method }) => method === 'notifications/progress');
    expect(progress.map(({ params }) => [params.progressToken, params.progress])).toEqual([
      ['tok', 1],
      ['tok', 2],
      ['tok', 3],
    ]);
    // The `message` of a progress notification exists since 2025-03-26.
    expect(progress.every(({ params }) => params.message === undefined)).toBe(true);
    await client.post({
      jsonrpc: '2.0',
      id: 'gone',
      method: 'tools/call',
      params: { name: 'echo__wait', arguments: { text: 'sse gone', ms: 20_000 } },
    });
    await eventually(() => world.echo.calls.some(({ args }) => args['text'] === 'sse gone'), Boolean);
    await client.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'gone' } });
    await eventually(() => world.echo.cancelled.includes('sse gone'), Boolean);
    await client.request('ping', {}, 'after');
    expect(client.stream.messages.some(({ id }) => id === 'gone')).toBe(false);
    client.close();
  });

  it('S1-30: a stream that is closed during the handshake leaves no session behind', async () => {
    // A slow server delays the handshake, because the gateway asks the server for its capabilities.
    const slow = createServer((_, res) => setTimeout(() => res.writeHead(500).end(), 700)).listen(0, '127.0.0.1');
    await once(slow, 'listening');
    const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/mcp`;
    const waiting = await startWorld({ servers: { slow: { url } } });
    const sessions = async (): Promise<number> =>
      JSON.parse((await ask(`${waiting.url}/health`, { method: 'GET' })).body).sessions;
    for (let i = 0; i < 5; i++) {
      const client = await SseClient.connect(`${waiting.url}/sse`);
      expect((await client.post(initializeBody('2024-11-05', 'i'))).status).toBe(202);
      client.stream.close();
    }
    const stays = await SseClient.connect(`${waiting.url}/sse`);
    await stays.post(initializeBody('2024-11-05', 'i'));
    await stays.stream.until<Message>(({ messages: said }) => said.find(({ id }) => id === 'i'));
    expect(await eventually(sessions, (count) => count === 1)).toBe(1);
    stays.stream.close();
    await eventually(sessions, (count) => count === 0);
    await waiting.close();
    slow.close();
  });

  it('TOOL-04 S0-34: a changed list is announced on the stream', async () => {
    const client = await connect();
    await client.initialize('2024-11-05');
    await client.request('tools/list');
    await eventually(() => {
      world.echo.announce();
      return client.stream.messages.some(({ method }) => method === 'notifications/tools/list_changed');
    }, Boolean);
    client.close();
  });

  it('C-12: the catalog view is separate from the protocol', async () => {
    const stream = await EventStream.open(`${world.url}/sse?view=catalog`, {
      headers: { accept: 'text/event-stream' },
    });
    const events = await stream.until(({ events: all }) => all.length >= 2 && all);
    expect(events.map(({ event }) => event)).toEqual(['connection', 'endpoint']);
    expect(JSON.parse(events[1]!.data)).toHaveProperty('endpoints');
    stream.close();
  });

  it('a modern request at the old endpoint is refused', async () => {
    const client = await connect();
    await client.initialize('2024-11-05');
    await client.post(modernBody('server/discover', {}, { id: 'm' }));
    const answer = await client.stream.until<Message>(({ messages }) => messages.find(({ id }) => id === 'm'));
    expect(answer.error.code).toBe(-32601);
    client.close();
  });
});

describe('members hidden from clients of 2024-11-05 and 2025-03-26', () => {
  const fields = async (version: string) => {
    const session = await Session.open(world.mcp, version);
    const listed = await session.request('tools/list');
    return JSON.stringify(listed.json.result);
  };

  it('LIFE-09: results have no members of later revisions', async () => {
    for (const version of ['2024-11-05', '2025-03-26']) {
      const text = await fields(version);
      expect(text).not.toMatch(/"resultType"|"ttlMs"|"cacheScope"|"outputSchema"|"execution"|"icons"/);
    }
    expect(await fields('2024-11-05')).not.toContain('"annotations"');
  });

  it('CMP-01 LIFE-09: capabilities are those of the revision', async () => {
    const old = await Session.open(world.mcp, '2024-11-05');
    expect(old.opening.json.result.capabilities).not.toHaveProperty('completions');
    expect(JSON.stringify(old.opening.json.result)).not.toContain('"title"');
  });
});

describe('Streamable HTTP of 2025-03-26', () => {
  it('BASE-07 HL-03 S1-05 S2-25: a batch is answered with an array, or on a stream if messages come before the responses', async () => {
    const session = await Session.open(world.mcp, '2025-03-26');
    const plain = await session.post([{ jsonrpc: '2.0', id: 1, method: 'ping' }]);
    expect(Array.isArray(plain.json)).toBe(true);
    const streamed = await session.post([
      {
        jsonrpc: '2.0',
        id: 2,
        method: 'tools/call',
        params: {
          name: 'echo__steps',
          arguments: { text: 'b', count: 2, size: 1, pause: 1 },
          _meta: { progressToken: 1 },
        },
      },
      { jsonrpc: '2.0', id: 3, method: 'ping' },
    ]);
    expect(streamed.headers['content-type']).toBe('text/event-stream');
    const messages = readEvents(streamed.body).flatMap(({ data }) => [JSON.parse(data) as Message | Message[]].flat());
    expect(messages.filter(({ method }) => method === 'notifications/progress')).toHaveLength(2);
    expect(
      messages
        .map(({ id }) => id)
        .filter((id) => id !== undefined)
        .sort(),
    ).toEqual([2, 3]);
  });

  it('HL-02: a batch of notifications and responses only is 202 and empty', async () => {
    const session = await Session.open(world.mcp, '2025-03-26');
    const reply = await session.post([
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
      { jsonrpc: '2.0', id: 9, result: {} },
    ]);
    expect(reply.status).toBe(202);
    expect(reply.body).toBe('');
  });

  it('BASE-08: initialize in a batch opens no session, with or without one', async () => {
    const without = await ask(world.mcp, { headers: { accept: BOTH }, body: [initializeBody('2025-03-26')] });
    expect(without.status).toBe(400);
    expect(without.headers['mcp-session-id']).toBeUndefined();
    const session = await Session.open(world.mcp, '2025-03-26');
    const inside = await session.post([initializeBody('2025-03-26', 'again')]);
    expect((inside.json as unknown as Message[])[0]).toMatchObject({ id: 'again', error: { code: -32600 } });
    expect(inside.headers['mcp-session-id']).toBeUndefined();
  });

  it('5.3.4: a modern request inside a batch is refused', async () => {
    const session = await Session.open(world.mcp, '2025-03-26');
    const reply = await session.post([modernBody('server/discover', {}, { id: 'm' })]);
    expect((reply.json as unknown as Message[])[0]).toMatchObject({ id: 'm', error: { code: -32600 } });
  });

  it('BASE-02: two requests with the same id in a batch are both answered, or one is refused', async () => {
    const session = await Session.open(world.mcp, '2025-03-26');
    const call = (text: string) => ({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'echo__echo', arguments: { text } },
    });
    const reply = await session.post([call('a'), call('b')]);
    expect(reply.json as unknown as Message[]).toHaveLength(2);
  });

  it('PRG-01: progress notifications have messages', async () => {
    const session = await Session.open(world.mcp, '2025-03-26');
    const reply = await session.request('tools/call', {
      name: 'echo__steps',
      arguments: { text: 'b', count: 1, size: 1, pause: 1 },
      _meta: { progressToken: 1 },
    });
    expect(reply.body).toContain('"message":"b x"');
  });

  it('HL-17 S2-01: it has no version header, and a header of another legacy revision is accepted', async () => {
    const session = await Session.open(world.mcp, '2025-03-26');
    expect(
      (await session.post({ jsonrpc: '2.0', id: 1, method: 'ping' }, { 'mcp-protocol-version': '2025-03-26' })).status,
    ).toBe(200);
    expect((await session.request('ping')).status).toBe(200);
  });

  it('HL-04 HL-09: its POST streams have no priming event, and end with the response', async () => {
    const session = await Session.open(world.mcp, '2025-03-26');
    const stream = await session.stream('tools/call', { name: 'echo__wait', arguments: { text: 'late', ms: 900 } });
    await stream.end();
    expect(stream.events).toHaveLength(1);
    expect(textOf(stream.messages[0]!)).toBe('late');
  });
});

describe('stdio of the older revisions', () => {
  let folder: string;
  let file: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'parley-stdio-'));
    file = join(folder, 'parley.json');
    await writeFile(file, JSON.stringify({ data: join(folder, 'data'), servers: { echo: { url: world.echo.url } } }));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  class Pipe {
    readonly lines: Message[] = [];
    readonly child: ChildProcessWithoutNullStreams;
    constructor() {
      this.child = spawn(process.execPath, [BIN, 'stdio', '--config', file], { stdio: 'pipe' });
      createInterface(this.child.stdout).on('line', (line) => this.lines.push(JSON.parse(line) as Message));
    }
    say(message: string | object): void {
      this.child.stdin.write(`${typeof message === 'string' ? message : JSON.stringify(message)}\n`);
    }
    heard(id: string | number | null): Promise<Message> {
      return eventually(() => this.lines.flat().find((line) => line.id === id)!, Boolean);
    }
    async end(): Promise<number | null> {
      this.child.stdin.end();
      if (this.child.exitCode === null) await once(this.child, 'exit');
      return this.child.exitCode;
    }
  }

  it.each(['2024-11-05', '2025-03-26'])(
    'STD-01 STD-02 LIFE-02 STD-08 S4-09: %s: one message per line, and the process ends with its input',
    async (version) => {
      const pipe = new Pipe();
      pipe.say({ jsonrpc: '2.0', id: 'early', method: 'tools/list' });
      expect((await pipe.heard('early')).error.code).toBe(-32600);
      pipe.say({ jsonrpc: '2.0', id: 'ping', method: 'ping' });
      expect((await pipe.heard('ping')).result).toEqual({});
      pipe.say(initializeBody(version, 'init'));
      expect((await pipe.heard('init')).result.protocolVersion).toBe(version);
      pipe.say({ jsonrpc: '2.0', method: 'notifications/initialized' });
      pipe.say({
        jsonrpc: '2.0',
        id: 0,
        method: 'tools/call',
        params: { name: 'echo__echo', arguments: { text: 'line\nbreak' } },
      });
      expect(textOf(await pipe.heard(0))).toBe('line\nbreak');
      pipe.say(initializeBody(version, 'again'));
      expect((await pipe.heard('again')).error.code).toBe(-32600);
      pipe.say([
        { jsonrpc: '2.0', id: 'b1', method: 'ping' },
        { jsonrpc: '2.0', id: 'b2', method: 'ping' },
      ]);
      if (version === '2025-03-26') expect((await pipe.heard('b2')).result).toEqual({});
      else expect((await pipe.heard(null)).error.code).toBe(-32600);
      expect(await pipe.end()).toBe(0);
    },
  );

  it('C-08 STD-01 S4-09: lines that are not JSON-RPC get an error and have no other effect', async () => {
    const pipe = new Pipe();
    pipe.say('not json');
    expect((await pipe.heard(null)).error.code).toBe(-32700);
    pipe.say('');
    pipe.say('[');
    pipe.say('{"jsonrpc":"2.0","id":5}');
    expect((await pipe.heard(5)).error.code).toBe(-32600);
    pipe.say({ jsonrpc: '2.0', id: 'still', method: 'ping' });
    expect((await pipe.heard('still')).result).toEqual({});
    expect(await pipe.end()).toBe(0);
  });

  it('VER-01 VER-07: a modern request is served over the same stdio, and an unknown version is -32022 with the supported versions', async () => {
    const pipe = new Pipe();
    pipe.say(initializeBody('2024-11-05', 'init'));
    await pipe.heard('init');
    pipe.say(modernBody('tools/call', { name: 'echo__echo', arguments: { text: 'modern' } }, { id: 'm' }));
    expect(textOf(await pipe.heard('m'))).toBe('modern');
    pipe.say(modernBody('tools/list', {}, { id: 'v', version: '2099-01-01' }));
    expect((await pipe.heard('v')).error).toMatchObject({ code: -32022, data: { supported: ['2026-07-28'] } });
    expect(await pipe.end()).toBe(0);
  });
});
