/** Access: tokens, Host and Origin on every route, and configurations with which the gateway refuses to start. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BIN, startGateway } from '../support/gateway.js';
import { textOf } from './support/message.js';
import {
  BOTH,
  initializeBody,
  modern,
  modernBody,
  modernCall,
  modernHeaders,
  Session,
  SseClient,
} from './support/speak.js';
import { ask, EventStream, exchange, Wire } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

const ADA = 'ada-0123456789-Kj8sLq2vXz7mNw4pRt6y';
const BOB = 'bob-9270-Hf3dGk5bVc1nMq8wZx0eT7yU';
const as = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
const TOKENS = {
  tokens: [
    { name: 'ada', token: ADA },
    { name: 'bob', token: BOB },
  ],
};

let world: World;
let free: World;
beforeAll(async () => {
  world = await startWorld({ auth: TOKENS, log: { level: 'trace' } }, { bystander: as(ADA) });
  free = await startWorld({ hosts: ['gateway.example'], origins: ['https://app.example'] });
});
afterAll(async () => {
  await world.wellBehaved();
  await free.wellBehaved();
  await Promise.all([world.close(), free.close()]);
});

describe('a browser', () => {
  const browser = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

  it.each(['/', '/mcp', '/mcp/echo', '/mcp/unknown', '/sse'])(
    'at %s without a token gets no information',
    async (path) => {
      const reply = await ask(`${world.url}${path}`, { method: 'GET', headers: browser });
      expect(reply.status).toBe(401);
      expect(reply.headers['www-authenticate']).toMatch(/^Bearer/);
      expect(reply.body).not.toMatch(/echo|<html/);
    },
  );

  it('with a token reads the page, which shows a placeholder for the token', async () => {
    const reply = await ask(`${world.url}/mcp`, { method: 'GET', headers: { ...browser, ...as(ADA) } });
    expect(reply.status).toBe(200);
    expect(reply.body).toContain('Bearer YOUR_TOKEN');
    expect(reply.body).toContain('<a href="/mcp/echo">echo</a>');
    expect(reply.body).not.toContain(ADA);
  });

  it('sees the host name it used for the gateway', async () => {
    const headers = { ...browser, host: 'gateway.example' };
    const reply = await ask(`${free.url}/mcp`, { method: 'GET', headers });
    expect(reply.body).toContain('<code class="copy">http://gateway.example/mcp</code>');
  });
});

/** Every route, and some unknown paths. */
const GUARDED: readonly (readonly [method: string, path: string])[] = [
  ...['/mcp', '/', '/mcp/', '/mcp/echo', '/echo/mcp'].flatMap((path) =>
    ['POST', 'GET', 'HEAD', 'DELETE', 'PUT'].map((method) => [method, path] as const),
  ),
  ['GET', '/sse'],
  ['GET', '/sse?view=catalog'],
  ['POST', '/messages'],
  ['POST', '/messages?sessionId=x'],
  ['GET', '/mcp/sse'],
  ['POST', '/mcp/messages?sessionId=x'],
  ['GET', '/mcp/echo/sse'],
  ['POST', '/mcp/echo/messages?sessionId=x'],
  ['GET', '/nothing'],
  ['POST', '/mcp/unknown'],
  ['GET', '/health/more'],
  ['GET', '/_health'],
];
const PUBLIC = ['/health', '/_health/live', '/_health/ready'];

describe('tokens', () => {
  it.each(GUARDED)('S2 S4-11 S2-21 S0-02 S2-23: %s %s without a token is 401', async (method, path) => {
    const reply = await ask(`${world.url}${path}`, { method, ...(method === 'POST' && { body: '{}' }) });
    expect(reply.status).toBe(401);
    expect(reply.headers['www-authenticate']).toMatch(/^Bearer realm=/);
    if (method !== 'HEAD')
      expect(JSON.parse(reply.body)).toEqual({
        jsonrpc: '2.0',
        id: null,
        error: { code: -32001, message: 'Unauthorized: Invalid or missing API key', data: { reason: 'unauthorized' } },
      });
  });

  it.each(PUBLIC)('S2-27 C-21: %s needs no token', async (path) => {
    const reply = await ask(`${world.url}${path}`, { method: 'GET' });
    expect(reply.status).toBe(200);
    expect(reply.body).not.toContain(world.echo.url);
  });

  it('S2-10: a preflight needs no token', async () => {
    const reply = await ask(world.mcp, { method: 'OPTIONS', headers: { origin: 'http://localhost' } });
    expect(reply.status).toBe(200);
  });

  it('C-06: a modern caller gets -32603 with the same message', async () => {
    const reply = await modern(world.mcp, 'tools/list');
    expect(reply.status).toBe(401);
    expect(reply.json.error).toEqual({
      code: -32603,
      message: 'Unauthorized: Invalid or missing API key',
      data: { reason: 'unauthorized' },
    });
  });

  it.each([
    ['nothing', ''],
    ['no scheme', ADA],
    ['another scheme', `Basic ${Buffer.from(`ada:${ADA}`).toString('base64')}`],
    ['an empty token', 'Bearer '],
    ['a token that is too short', `Bearer ${ADA.slice(0, -1)}`],
    ['a token that is too long', `Bearer ${ADA}x`],
    ['another character', `Bearer ${ADA.slice(0, -1)}z`],
    ['other letters', `Bearer ${ADA.toUpperCase()}`],
    ['two tokens', `Bearer ${ADA}, Bearer ${BOB}`],
    ['two words', `Bearer ${ADA} ${BOB}`],
    ['a name', 'Bearer ada'],
    ['100 kB', `Bearer ${'a'.repeat(10_000)}`],
  ])('S2-21: %s is 401 without further details', async (_, authorization) => {
    const reply = await ask(world.mcp, {
      headers: { accept: BOTH, authorization },
      body: initializeBody('2025-11-25'),
    });
    const none = await ask(world.mcp, { headers: { accept: BOTH }, body: initializeBody('2025-11-25') });
    expect(reply.status).toBe(401);
    expect(reply.body).toBe(none.body);
  });

  it('S14: a token in the query is ignored', async () => {
    for (const name of ['token', 'access_token', 'api_key'])
      expect((await ask(`${world.mcp}?${name}=${ADA}`, { body: initializeBody('2025-11-25') })).status).toBe(401);
  });

  it('S2: two Authorization headers are refused, even if one is valid', async () => {
    for (const [first, second] of [
      [ADA, BOB],
      ['wrong-wrong-wrong-wrong', ADA],
    ] as const) {
      const body = JSON.stringify(initializeBody('2025-11-25'));
      const wire = await exchange(
        world.url,
        `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${first}\r\nAuthorization: Bearer ${second}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
      );
      expect(wire.statuses).toEqual([400]);
    }
  });

  it('S0-02, S3-13: a known token is accepted in every era and at every endpoint', async () => {
    expect(textOf((await modernCall(world.mcp, 'echo__echo', { text: 'in' }, { headers: as(ADA) })).json)).toBe('in');
    expect(
      (await modernCall(world.mcp, 'echo__echo', { text: 'in' }, { headers: { authorization: `bearer ${ADA}` } }))
        .status,
    ).toBe(200);
    const session = await Session.open(world.mcp, '2025-06-18', as(ADA));
    expect((await session.request('ping')).status).toBe(200);
    const sse = await SseClient.connect(`${world.url}/sse`, as(ADA));
    expect((await sse.initialize('2024-11-05')).result.protocolVersion).toBe('2024-11-05');
    sse.close();
  });

  it('HL-18: every request of a session needs a token', async () => {
    const session = await Session.open(world.mcp, '2025-11-25', as(ADA));
    const { authorization: _, ...headers } = session.headers;
    for (const method of ['POST', 'GET', 'DELETE'] as const) {
      const reply = await ask(world.mcp, {
        method,
        headers,
        ...(method === 'POST' && { body: { jsonrpc: '2.0', id: 1, method: 'ping' } }),
      });
      expect(reply.status).toBe(401);
    }
    expect((await session.request('ping')).status).toBe(200);
  });

  it('S3 SSE S0-04: the messages of a stream are accepted from its own caller only', async () => {
    const stream = await SseClient.connect(`${world.url}/sse`, as(ADA));
    const stolen = await ask(stream.endpoint, { headers: as(BOB), body: initializeBody('2024-11-05') });
    expect(stolen.status).toBe(404);
    expect(stream.stream.messages).toEqual([]);
    stream.close();
  });

  it('S12 GW-01 S24: tokens reach neither the servers nor the log', async () => {
    await modernCall(world.mcp, 'echo__echo', { text: 'x' }, { headers: as(BOB) });
    await ask(world.mcp, { headers: { authorization: 'Bearer wrong-canary-0123456789abcdef' }, body: '{' });
    expect(world.echo.seenHeaders.join('\n')).not.toMatch(/ada-0123|bob-9270/);
    expect(world.gateway.log()).not.toMatch(/ada-0123|bob-9270|wrong-canary/);
  });
});

describe('Host and Origin', () => {
  const ROUTES: readonly (readonly [method: string, path: string])[] = [
    ...GUARDED,
    ...PUBLIC.map((path) => ['GET', path] as const),
    ['OPTIONS', '/mcp'],
    ['OPTIONS', '/health'],
  ];

  it.each(ROUTES)('S8 HM-03: %s %s under a foreign Host is 403', async (method, path) => {
    for (const host of [
      'evil.example',
      '127.0.0.1.evil.example',
      'localhost.evil.example',
      '169.254.169.254',
      'localhost@evil.example',
      '[::2]:80',
    ]) {
      const reply = await ask(`${free.url}${path}`, {
        method,
        headers: { host },
        ...(method === 'POST' && { body: '{}' }),
      });
      expect(reply.status, host).toBe(403);
      expect(reply.headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  it.each(ROUTES)('S8 HM-02: %s %s from a foreign Origin is 403', async (method, path) => {
    for (const origin of [
      'https://evil.example',
      'null',
      'http://localhost.evil.example',
      'http://127.0.0.1:80@evil.example',
      'file://',
      'https://app.example.evil.example',
      'chrome-extension://abc',
      '',
    ]) {
      const reply = await ask(`${free.url}${path}`, {
        method,
        headers: { origin },
        ...(method === 'POST' && { body: '{}' }),
      });
      expect(reply.status, origin).toBe(403);
      expect(reply.headers['access-control-allow-origin']).toBeUndefined();
      if (method !== 'HEAD') expect(reply.json.error.data.reason).toBe('forbidden');
    }
  });

  it('S8: two Origins are 403, even if each alone is allowed', async () => {
    const wire = await exchange(
      free.url,
      'GET /health HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://localhost\r\nConnection: close\r\n\r\n',
    );
    expect(wire.statuses).toEqual([403]);
  });

  it.each([
    'http://localhost',
    'http://localhost:3000',
    'http://127.0.0.1:8080',
    'https://localhost:1',
    'http://[::1]:3000',
    'https://app.example',
    'HTTPS://APP.example',
  ])('C-15: the Origin %s is accepted', async (origin) => {
    const reply = await modern(free.mcp, 'tools/list', {}, { headers: { origin } });
    expect(reply.status).toBe(200);
    expect(reply.headers['access-control-allow-origin']).toBe('*');
  });

  it.each(['localhost', 'LOCALHOST:99', '127.0.0.1', '[::1]:4600', 'gateway.example', 'Gateway.Example:443'])(
    'HM-03: the Host %s is accepted',
    async (host) => {
      expect((await ask(`${free.url}/health`, { method: 'GET', headers: { host } })).status).toBe(200);
    },
  );

  it('S8: a page of a foreign Origin cannot open a stream', async () => {
    const stream = await EventStream.open(`${free.url}/sse`, {
      headers: { accept: 'text/event-stream', origin: 'https://evil.example' },
    });
    await stream.end();
    expect(stream.status).toBe(403);
    expect(stream.text).not.toContain('sessionId');
  });

  it('C-15 S8: with credentials an allowed Origin is echoed, never * and never a foreign one', async () => {
    const gateway = await startGateway({ cors: { origins: ['https://app.example'], credentials: true } });
    try {
      const good = await ask(`${gateway.url}/health`, { method: 'GET', headers: { origin: 'https://app.example' } });
      expect(good.headers['access-control-allow-origin']).toBe('https://app.example');
      expect(good.headers['access-control-allow-credentials']).toBe('true');
      expect(good.headers.vary).toMatch(/Origin/);
      const bad = await ask(`${gateway.url}/health`, { method: 'GET', headers: { origin: 'https://evil.example' } });
      expect(bad.status).toBe(403);
      expect(bad.headers['access-control-allow-origin']).toBeUndefined();
    } finally {
      await gateway.close();
    }
  });

  it('every loopback address listened on is accepted as Host', async () => {
    const gateway = await startGateway({ listen: '127.0.0.5:0' });
    try {
      expect((await ask(`${gateway.url}/health`, { method: 'GET' })).status).toBe(200);
    } finally {
      await gateway.close();
    }
  });

  it('on other addresses a token is required, and any Host is accepted unless hosts are configured', async () => {
    const gateway = await startGateway({ listen: '0.0.0.0:0', auth: TOKENS });
    const url = gateway.url.replace('0.0.0.0', '127.0.0.1');
    try {
      const list = (headers: Record<string, string>) => modern(`${url}/mcp`, 'tools/list', {}, { headers });
      expect((await list({ host: 'gateway.internal' })).status).toBe(401);
      expect((await list({ host: 'gateway.internal', ...as(ADA) })).status).toBe(200);
    } finally {
      await gateway.close();
    }
  });
});

describe('starting', () => {
  async function serve(
    config: object,
    env: Record<string, string> = {},
  ): Promise<{ code: number | null; errors: string; started: boolean }> {
    const folder = await mkdtemp(join(tmpdir(), 'parley-start-'));
    const file = join(folder, 'parley.json');
    await writeFile(file, JSON.stringify({ listen: '127.0.0.1:0', data: join(folder, 'data'), ...config }), {
      mode: 0o600,
    });
    const child = spawn(process.execPath, [BIN, 'serve', '--config', file], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    });
    let errors = '';
    let started = false;
    child.stderr.on('data', (chunk: Buffer) => {
      errors += chunk.toString();
    });
    child.stdout.on('data', (chunk: Buffer) => {
      if (!chunk.toString().includes('listening on')) return;
      started = true;
      setTimeout(() => child.kill('SIGTERM'), 100);
    });
    await once(child, 'exit');
    await rm(folder, { recursive: true, force: true });
    return { code: child.exitCode, errors, started };
  }

  it.each(['0.0.0.0:0', '[::]:0', '192.0.2.1:4600', 'gateway.example:4600'])(
    'S2: on %s it refuses to start without auth, with a reason',
    async (listen) => {
      const { code, errors, started } = await serve({ listen });
      expect(started).toBe(false);
      expect(code).not.toBe(0);
      expect(errors).toMatch(/auth/);
      expect(errors).toContain(listen.startsWith('[') ? '::' : listen.split(':')[0]);
    },
  );

  it('S4-12: a token of 15 characters refuses to start, and is not shown', async () => {
    const token = 'k3J9vQ2mX7pL0sT';
    const { code, errors, started } = await serve({ auth: { tokens: [{ name: 'ada', token }] } });
    expect(started).toBe(false);
    expect(code).not.toBe(0);
    expect(errors).toMatch(/16/);
    expect(errors).not.toContain(token);
  });

  it.each([
    ['16 to 31 characters', 'k3J9vQ2mX7pL0sT5w'],
    ['one character', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'],
    ['a guessable word', 'password-k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH'],
  ])('S4-12 S4-13: a token with %s starts with a warning that does not show it', async (_, token) => {
    const { code, errors, started } = await serve({ auth: { tokens: [{ name: 'ada', token }] } });
    expect(started).toBe(true);
    expect(code).toBe(0);
    expect(errors).toMatch(/"level":40.*"code":"token"/);
    expect(errors).not.toContain(token);
  });

  it('S4-12: a good token starts without a warning', async () => {
    const { errors, started } = await serve({ auth: { tokens: [{ name: 'ada', token: BOB }] } });
    expect(started).toBe(true);
    expect(errors).not.toMatch(/"code":"token"/);
  });

  it('S4-13: the same token for two callers is refused or warned about', async () => {
    const { errors } = await serve({
      auth: {
        tokens: [
          { name: 'ada', token: ADA },
          { name: 'bob', token: ADA },
        ],
      },
    });
    expect(errors).toMatch(/token/i);
    expect(errors).not.toContain(ADA);
  });

  it('C-15: a wildcard origin together with credentials is an error at the start', async () => {
    const { code, errors, started } = await serve({ cors: { origins: ['*'], credentials: true } });
    expect(started).toBe(false);
    expect(code).not.toBe(0);
    expect(errors).toMatch(/cors/);
  });

  it('S29: the state folder is readable by its owner only', async () => {
    const { stat } = await import('node:fs/promises');
    const folder = await mkdtemp(join(tmpdir(), 'parley-mode-'));
    const gateway = await startGateway({}, { data: join(folder, 'data') });
    try {
      expect((await stat(join(folder, 'data'))).mode & 0o077).toBe(0);
    } finally {
      await gateway.close();
      await rm(folder, { recursive: true, force: true });
    }
  });
});

it('C-14: unauthenticated callers get no information from any method', async () => {
  for (const method of ['server/discover', 'tools/list', 'tools/call', 'resources/list', 'prompts/list']) {
    const reply = await ask(world.mcp, { headers: modernHeaders(method), body: modernBody(method) });
    expect(reply.status).toBe(401);
    expect(reply.body).not.toContain('echo');
  }
  const wire = await Wire.open(world.url);
  wire.close();
});
