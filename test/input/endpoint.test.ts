/** The MCP endpoint as HTTP: methods, media types, versions, mirrored headers, CORS (C-01 to C-17, S2). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Message, textOf } from './support/message.js';
import {
  BOTH,
  initializeBody,
  LEGACY,
  MODERN,
  modern,
  modernBody,
  modernCall,
  modernHeaders,
  Session,
} from './support/speak.js';
import { ask, EventStream, readEvents } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

let world: World;
let strict: World;
beforeAll(async () => {
  world = await startWorld();
  strict = await startWorld({
    mcp: { strictAccept: true, versionNegotiation: 'strict' },
    session: { clientTermination: false },
  });
});
afterAll(async () => {
  await world.wellBehaved();
  await strict.wellBehaved();
  await Promise.all([world.close(), strict.close()]);
});

const PATHS = ['/mcp', '/', '/mcp/', '/mcp/echo', '/echo/mcp'];
const at = (path: string): string => `${world.url}${path}`;
const ALL = [...LEGACY, MODERN];

it.each(['/sse', '/mcp/echo/sse'])('%s is the HTML page for clients that accept only HTML', async (path) => {
  const reply = await ask(at(path), { method: 'GET', headers: { accept: 'text/html' } });
  expect({ status: reply.status, type: reply.headers['content-type'] }).toEqual({
    status: 200,
    type: 'text/html; charset=utf-8',
  });
});

describe.each(PATHS)('S2-35: the methods of %s', (path) => {
  it('C-01.1 HM-12: GET with the modern version is 405, Allow: POST, with a JSON-RPC body', async () => {
    const reply = await ask(at(path), {
      method: 'GET',
      headers: { 'mcp-protocol-version': MODERN, accept: 'text/event-stream' },
    });
    expect(reply.status).toBe(405);
    expect(reply.headers.allow).toBe('POST');
    expect(reply.json).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32601 } });
  });

  it('C-01.2 HL-07 HL-13: GET for a stream needs a session: 400 without, 404 with an unknown one', async () => {
    const without = await ask(at(path), { method: 'GET', headers: { accept: 'text/event-stream' } });
    expect(without.status).toBe(400);
    expect(without.json.error.code).toBe(-32000);
    const unknown = await ask(at(path), {
      method: 'GET',
      headers: { accept: 'text/event-stream', 'mcp-session-id': 'made-up' },
    });
    expect(unknown.status).toBe(404);
  });

  it.each([['application/json'], ['*/*'], [undefined], ['application/json, text/html;q=0.5'], ['application/*']])(
    'C-01.3 S3-01: GET with Accept %s is a JSON description of the endpoint',
    async (accept) => {
      const reply = await ask(at(path), { method: 'GET', headers: accept === undefined ? {} : { accept } });
      expect(reply.status).toBe(200);
      expect(reply.headers.vary).toMatch(/Accept/);
      expect(reply.headers['content-type']).toBe('application/json');
      expect(reply.json.result).toMatchObject({
        transport: 'streamable-http',
        status: 'enabled',
        supportedVersions: ALL,
        serverInfo: { name: 'parley' },
      });
      const single = path.includes('echo');
      expect(reply.json.result.tools.map(({ name }) => name)).toContain(single ? 'echo' : 'echo__echo');
    },
  );

  it.each([
    'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8',
    'text/html',
    'application/xhtml+xml',
    'text/html, application/json;q=0.5',
  ])('GET with Accept %s is an HTML page', async (accept) => {
    const reply = await ask(at(path), { method: 'GET', headers: { accept } });
    expect(reply.status).toBe(200);
    expect(reply.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(reply.headers.vary).toMatch(/Accept/);
    expect(reply.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-[\w+/=]+';/);
    expect(reply.headers['x-content-type-options']).toBe('nosniff');
    expect(reply.body).toMatch(/^<!doctype html>\n<html lang="en">/);
    const single = path.includes('echo');
    const endpoint = `${world.url}/mcp${single ? '/echo' : ''}`;
    expect(reply.body).toContain(`<code class="copy">${endpoint}</code>`);
    expect(reply.body).toContain(`claude mcp add --transport http ${single ? 'echo' : 'parley'} ${endpoint}`);
    expect(reply.body).toContain(`<dt><code>${single ? 'echo' : 'echo__echo'}</code></dt>`);
    const head = await ask(at(path), { method: 'HEAD', headers: { accept } });
    expect({ status: head.status, body: head.body }).toEqual({ status: 200, body: '' });
    expect(head.headers['content-type']).toBe('text/html; charset=utf-8');
  });

  it.each(['image/*', 'application/json;q=0', 'application/xml', 'text/html;q=0'])(
    'C-01.4: GET with Accept %s is 406',
    async (accept) => {
      const reply = await ask(at(path), { method: 'GET', headers: { accept } });
      expect(reply.status).toBe(406);
      expect(reply.json.error.data.reason).toBe('not_acceptable');
    },
  );

  it('C-01 S2-28 S3-03: HEAD has the headers of GET with the version, and no body', async () => {
    const reply = await ask(at(path), { method: 'HEAD' });
    expect(reply.status).toBe(200);
    expect(reply.body).toBe('');
    expect(reply.headers['mcp-protocol-version']).toBe(MODERN);
    expect(reply.headers['content-type']).toBe('application/json');
  });

  it.each(['PUT', 'PATCH', 'TRACE', 'PROPFIND'])('S2-19 S2-23: %s is 405 with -32601 and Allow', async (method) => {
    const reply = await ask(at(path), { method });
    expect(reply.status).toBe(405);
    expect(reply.json).toMatchObject({
      id: null,
      error: {
        code: -32601,
        message: `HTTP method ${method} not allowed`,
        data: { reason: 'http_method_not_allowed' },
      },
    });
    for (const allowed of ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']) expect(reply.headers.allow).toContain(allowed);
  });

  it('S2-07 S2-08 S2-10 S2-11 C-16: OPTIONS is 200, empty, with the headers of a preflight', async () => {
    const reply = await ask(at(path), {
      method: 'OPTIONS',
      headers: { origin: 'http://localhost:3000', 'access-control-request-method': 'POST' },
    });
    expect(reply.status).toBe(200);
    expect(reply.body).toBe('');
    expect(reply.headers['access-control-allow-origin']).toBe('*');
    expect(reply.headers['access-control-allow-credentials']).toBeUndefined();
    expect(reply.headers['access-control-allow-methods']).toBe('GET, POST, DELETE, OPTIONS');
    for (const name of [
      'Content-Type',
      'Authorization',
      'Mcp-Session-Id',
      'Mcp-Protocol-Version',
      'Mcp-Method',
      'Mcp-Name',
      'Last-Event-ID',
    ])
      expect(reply.headers['access-control-allow-headers']).toContain(name);
  });

  it('C-05 HL-15 S0-28 S1-28 S2-16: DELETE ends a session; unknown is 404, missing 400, modern 405', async () => {
    const session = await Session.open(at(path), '2025-11-25');
    const ended = await session.end();
    expect(ended.status).toBe(200);
    expect(JSON.parse(ended.body)).toEqual({ success: true, message: 'Session terminated' });
    expect((await session.end()).status).toBe(404);
    expect((await session.request('ping')).status).toBe(404);
    expect((await ask(at(path), { method: 'DELETE' })).status).toBe(400);
    const asModern = await ask(at(path), { method: 'DELETE', headers: { 'mcp-protocol-version': MODERN } });
    expect(asModern.status).toBe(405);
    expect(asModern.headers.allow).toBeDefined();
  });

  it('S2-04 S2-05 HL-16 C-02 S2-23: an unsupported version in the header is 400, -32600, names it and the supported ones', async () => {
    const check = (reply: { status: number; json: Message }): void => {
      expect(reply.status).toBe(400);
      expect(reply.json.id).toBeNull();
      expect(reply.json.error.code).toBe(-32600);
      expect(reply.json.error.message).toMatch(/^Unsupported MCP protocol version: 2023-01-01\. Supported: /);
      for (const version of ALL) expect(reply.json.error.message).toContain(version);
    };
    // The request of a program of the founding documents: no session, and an unknown method.
    const headers = { accept: BOTH, 'mcp-protocol-version': '2023-01-01' };
    check(await ask(at(path), { headers, body: { jsonrpc: '2.0', method: 'test', id: 1 } }));
    const session = await Session.open(at(path), '2025-11-25');
    check(await session.post({ jsonrpc: '2.0', id: 5, method: 'ping' }, { 'mcp-protocol-version': '2023-01-01' }));
  });

  it('S2-06 C-02a LIFE-07 S0-19 S0-20 S1-01 S2-01 S2-31: a whole session works here', async () => {
    for (const version of LEGACY) {
      const session = await Session.open(at(path), version);
      expect(session.opening.json.result.protocolVersion).toBe(version);
      const name = path.includes('echo') ? 'echo' : 'echo__echo';
      expect(textOf((await session.call(name, { text: `${path} ${version}` })).json)).toBe(`${path} ${version}`);
    }
  });

  it('S2-03 VER-07: modern requests work here beside sessions', async () => {
    const name = path.includes('echo') ? 'echo' : 'echo__echo';
    const reply = await modernCall(at(path), name, { text: path });
    expect(reply.status).toBe(200);
    expect(reply.headers['mcp-session-id']).toBeUndefined();
    expect(textOf(reply.json)).toBe(path);
  });
});

describe('unknown paths', () => {
  it.each([
    '/nothing',
    '/mcp/unknown',
    '/unknown/mcp',
    '/mcp/echo/more',
    '/mcp/unknown/sse',
    '/../mcp',
    '//mcp',
    '/MCP',
    '/mcp%2fecho',
    '/.well-known/oauth-protected-resource',
  ])('%s is 404 with a JSON-RPC body', async (path) => {
    const { hostname, port } = new URL(world.url);
    const { Wire } = await import('./support/wire.js');
    const wire = await Wire.open(`http://${hostname}:${port}`);
    wire.send(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    await wire.until(() => wire.closed);
    expect(wire.statuses).toEqual([404]);
    expect(wire.text).toContain('"reason":"not_found"');
  });
});

describe('CORS on every response', () => {
  it.each([
    ['GET', '/health'],
    ['GET', '/_health/live'],
    ['GET', '/_health/ready'],
    ['GET', '/mcp'],
    ['PUT', '/mcp'],
    ['POST', '/nothing'],
    ['GET', '/messages'],
  ])('S2-09: %s %s exposes the session and the version', async (method, path) => {
    const reply = await ask(at(path), { method, headers: { origin: 'http://127.0.0.1:5000' } });
    expect(reply.headers['access-control-expose-headers']).toContain('Mcp-Session-Id');
    expect(reply.headers['access-control-expose-headers']).toContain('Mcp-Protocol-Version');
    expect(reply.headers['access-control-allow-origin']).toBe('*');
    expect(reply.headers['access-control-allow-credentials']).toBeUndefined();
  });
});

describe('health', () => {
  it.each([
    ['POST', '/health'],
    ['PUT', '/_health/live'],
    ['DELETE', '/_health/ready'],
  ])('%s %s is 405 with the allowed methods', async (method, path) => {
    const reply = await ask(at(path), { method });
    expect(reply.status).toBe(405);
    expect(reply.headers['allow']).toBe('GET, HEAD, OPTIONS');
    expect(reply.json.error.data.reason).toBe('http_method_not_allowed');
  });

  it.each(['/health', '/_health/live', '/_health/ready'])('HEAD %s equals GET without the body', async (path) => {
    const reply = await ask(at(path), { method: 'HEAD' });
    expect([reply.status, reply.body]).toEqual([200, '']);
  });
});

describe('C-09: the response has a type that the client accepts', () => {
  const body = modernBody(
    'tools/call',
    { name: 'echo__steps', arguments: { text: 's', count: 2, size: 1, pause: 1 } },
    { meta: { progressToken: 'p' } },
  );
  const headers = (accept: string | undefined): Record<string, string> => {
    const all = modernHeaders('tools/call', { name: 'echo__steps' }, { headers: { accept } });
    return all;
  };

  it('S4-10 S0-25 S1-13 S3-02: a client that accepts only JSON gets one JSON object and no progress', async () => {
    const reply = await ask(world.mcp, { headers: headers('application/json'), body });
    expect(reply.headers['content-type']).toBe('application/json');
    expect(textOf(JSON.parse(reply.body) as Message)).toBe('s');
  });

  it('a client without Accept gets JSON', async () => {
    const reply = await ask(world.mcp, { headers: headers(undefined), body });
    expect(reply.headers['content-type']).toBe('application/json');
    expect(textOf(reply.json)).toBe('s');
  });

  it('S0-25: a client that accepts both gets a stream if there are messages before the response, which comes last (HM-05, HM-07, HM-09)', async () => {
    const reply = await ask(world.mcp, { headers: headers(BOTH), body });
    expect(reply.headers['content-type']).toBe('text/event-stream');
    expect(reply.headers['x-accel-buffering']).toBe('no');
    const messages = readEvents(reply.body).map(({ data }) => JSON.parse(data) as Message);
    expect(messages.map(({ method }) => method)).toEqual([
      'notifications/progress',
      'notifications/progress',
      undefined,
    ]);
    expect(messages.every(({ params }) => params === undefined || params.progressToken === 'p')).toBe(true);
    expect(textOf(messages.at(-1)!)).toBe('s');
  });

  it('S0-25: a client that accepts only a stream gets a stream', async () => {
    const session = await Session.open(world.mcp, '2025-06-18');
    for (const reply of [
      await ask(world.mcp, { headers: headers('text/event-stream'), body }),
      await ask(world.mcp, {
        headers: modernHeaders('tools/call', { name: 'echo__echo' }, { headers: { accept: 'text/event-stream' } }),
        body: modernBody('tools/call', { name: 'echo__echo', arguments: { text: 's' } }),
      }),
      await session.post(
        { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo__echo', arguments: { text: 's' } } },
        { accept: 'text/event-stream' },
      ),
      await ask(world.mcp, { headers: { accept: 'text/event-stream' }, body: initializeBody('2025-11-25') }),
    ]) {
      expect(reply.status).toBe(200);
      expect(reply.headers['content-type']).toBe('text/event-stream');
      expect(reply.json).toHaveProperty('result');
    }
  });

  it.each(['text/html', 'application/json;q=0, text/event-stream;q=0.0', 'nonsense'])(
    'a client that accepts neither (%s) gets 406',
    async (accept) => {
      const reply = await ask(world.mcp, { headers: headers(accept), body });
      expect(reply.status).toBe(406);
      expect(reply.json.error.data.reason).toBe('not_acceptable');
    },
  );

  it.each(['application/json', 'text/event-stream', '*/*'])(
    'mcp.strictAccept restores 406 for %s alone',
    async (accept) => {
      const reply = await ask(strict.mcp, { headers: headers(accept), body });
      expect(reply.status).toBe(406);
      expect((await ask(strict.mcp, { headers: headers(BOTH), body })).status).toBe(200);
    },
  );

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', ''])(
    'HL-19 S4-10: a Content-Type of "%s" is 415',
    async (type) => {
      const reply = await ask(world.mcp, {
        headers: { ...headers(BOTH), 'content-type': type },
        body: JSON.stringify(body),
      });
      expect(reply.status).toBe(415);
      expect(reply.json.error.data.reason).toBe('unsupported_media_type');
    },
  );

  it.each(['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/json;charset="utf-8"'])(
    'a Content-Type of %s is accepted',
    async (type) => {
      const reply = await ask(world.mcp, {
        headers: { ...headers('application/json'), 'content-type': type },
        body: JSON.stringify(body),
      });
      expect(reply.status).toBe(200);
    },
  );
});

describe('versions', () => {
  it.each(['2026-07-28', '2030-01-01', '2023-01-01'])(
    'C-02a LIFE-07 S0-20: initialize with %s is answered with the newest legacy revision',
    async (version) => {
      const reply = await ask(world.mcp, { headers: { accept: BOTH }, body: initializeBody(version) });
      expect(reply.status).toBe(200);
      expect(reply.json.result.protocolVersion).toBe('2025-11-25');
      expect(reply.headers['mcp-protocol-version']).toBe('2025-11-25');
    },
  );

  it.each([[undefined], [null], [7], ['latest'], [''], [['2025-11-25']]])(
    'C-02b LIFE-13 S0-20: initialize with %j is -32602 with the supported versions',
    async (version) => {
      const reply = await ask(world.mcp, { headers: { accept: BOTH }, body: initializeBody(version, 'i') });
      expect(reply.json).toMatchObject({
        id: 'i',
        error: { code: -32602, data: { supported: LEGACY, requested: version ?? null } },
      });
      expect(reply.headers['mcp-session-id']).toBeUndefined();
    },
  );

  it('C-02b S0-20: with mcp.versionNegotiation strict an unknown version is -32602', async () => {
    const reply = await ask(strict.mcp, { headers: { accept: BOTH }, body: initializeBody('2030-01-01') });
    expect(reply.json.error).toMatchObject({ code: -32602, data: { requested: '2030-01-01', supported: LEGACY } });
    const known = await ask(strict.mcp, { headers: { accept: BOTH }, body: initializeBody('2025-03-26') });
    expect(known.json.result.protocolVersion).toBe('2025-03-26');
  });

  it('C-02d VER-01: an unimplemented modern version is 400, -32022, with the supported versions and the id', async () => {
    const reply = await modern(world.mcp, 'tools/list', {}, { id: 'v', version: '2099-12-31' });
    expect(reply.status).toBe(400);
    expect(reply.json).toMatchObject({
      id: 'v',
      error: { code: -32022, data: { supported: [MODERN], requested: '2099-12-31', reason: 'unsupported_version' } },
    });
  });

  it('VER-01: a legacy date in the envelope is not a modern version', async () => {
    const reply = await modern(world.mcp, 'tools/list', {}, { version: '2025-11-25' });
    expect(reply.status).toBe(400);
    expect(reply.json.error.code).toBe(-32022);
  });

  it('C-03 S2-02 S1-15: the response names the negotiated version, or the latest if there is none', async () => {
    const session = await Session.open(world.mcp, '2025-06-18');
    expect((await session.request('ping')).headers['mcp-protocol-version']).toBe('2025-06-18');
    expect((await modern(world.mcp, 'tools/list')).headers['mcp-protocol-version']).toBe(MODERN);
    expect((await ask(world.mcp, { method: 'GET' })).headers['mcp-protocol-version']).toBe(MODERN);
    expect((await ask(world.mcp, { body: 'x' })).headers['mcp-protocol-version']).toBe(MODERN);
    expect((await ask(world.mcp, { method: 'PUT' })).headers['mcp-protocol-version']).toBe(MODERN);
  });

  it('S2-12 C-17: header names are written in title case and read in any case', async () => {
    const opening = await ask(world.mcp, { headers: { accept: BOTH }, body: initializeBody('2025-11-25') });
    expect(opening.rawHeaders).toContain('Mcp-Session-Id');
    expect(opening.rawHeaders).toContain('Mcp-Protocol-Version');
    const id = String(opening.headers['mcp-session-id']);
    for (const name of ['mcp-session-id', 'Mcp-Session-Id', 'MCP-SESSION-ID']) {
      const reply = await ask(world.mcp, {
        headers: { accept: BOTH, [name]: id, [name.replace(/session-id/i, 'Protocol-Version')]: '2025-11-25' },
        body: { jsonrpc: '2.0', id: 1, method: 'ping' },
      });
      expect(reply.status).toBe(200);
    }
  });

  it('S2-29: a scanner with a newer version completes initialize and tools/list', async () => {
    const opening = await ask(world.mcp, { headers: { accept: BOTH }, body: initializeBody('2027-01-01') });
    const headers = { accept: BOTH, 'mcp-session-id': String(opening.headers['mcp-session-id']) };
    const listed = await ask(world.mcp, { headers, body: { jsonrpc: '2.0', id: 2, method: 'tools/list' } });
    expect(listed.json.result.tools.length).toBeGreaterThan(0);
  });

  it('HL-17: without the header a session uses its negotiated version', async () => {
    const session = await Session.open(world.mcp, '2025-11-25');
    const reply = await ask(world.mcp, {
      headers: { accept: BOTH, 'mcp-session-id': session.id },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    });
    expect(reply.status).toBe(200);
  });
});

describe('the modern envelope and its mirrored headers', () => {
  const call = { name: 'echo__echo', arguments: { text: 'm' } };
  const reached = (): number => world.echo.calls.filter(({ args }) => args['text'] === 'm').length;
  const refused = async (options: Parameters<typeof modern>[3], code: number, header?: string): Promise<void> => {
    const before = reached();
    const reply = await modern(world.mcp, 'tools/call', call, { id: 'mirror', ...options });
    expect(reply.status).toBe(400);
    expect(reply.json.id).toBe('mirror');
    expect(reply.json.error.code).toBe(code);
    if (header) expect(reply.json.error.data.header).toBe(header);
    // S19: nothing is forwarded before the mirrored headers match.
    expect(reached()).toBe(before);
  };

  it.each([
    ['no version', { 'mcp-protocol-version': undefined }, 'MCP-Protocol-Version'],
    ['another version', { 'mcp-protocol-version': '2025-11-25' }, 'MCP-Protocol-Version'],
    ['no method', { 'mcp-method': undefined }, 'Mcp-Method'],
    ['another method', { 'mcp-method': 'tools/list' }, 'Mcp-Method'],
    ['a method in another case', { 'mcp-method': 'Tools/Call' }, 'Mcp-Method'],
    ['no name', { 'mcp-name': undefined }, 'Mcp-Name'],
    ['another name', { 'mcp-name': 'echo__wait' }, 'Mcp-Name'],
    ['a name in broken base64', { 'mcp-name': '=?base64?%%%?=' }, 'Mcp-Name'],
    ['a repeated name', { 'mcp-name': 'echo__echo, echo__echo' }, 'Mcp-Name'],
  ])('HDR-05 HDR-07 S19: %s is 400 and -32020', async (_, headers, label) => {
    await refused({ headers }, -32020, label);
  });

  it('HDR-04 HDR-06: an encoded name and surrounding space are read', async () => {
    const encoded = `=?base64?${Buffer.from('echo__echo').toString('base64')}?=`;
    for (const name of [encoded, '  echo__echo  ']) {
      const reply = await modern(world.mcp, 'tools/call', call, { headers: { 'mcp-name': name } });
      expect(reply.status).toBe(200);
    }
  });

  it('HDR-07: a sentinel in another case is a literal value', async () => {
    const encoded = `=?BASE64?${Buffer.from('echo__echo').toString('base64')}?=`;
    await refused({ headers: { 'mcp-name': encoded } }, -32020, 'Mcp-Name');
  });

  it('HDR-12: an unknown Mcp-Param header is ignored', async () => {
    const reply = await modern(world.mcp, 'tools/call', call, { headers: { 'mcp-param-unknown': 'x' } });
    expect(reply.status).toBe(200);
  });

  it.each([
    ['capabilities missing', { 'io.modelcontextprotocol/clientCapabilities': undefined }],
    ['capabilities of the wrong type', { 'io.modelcontextprotocol/clientCapabilities': 'all' }],
    ['a version of the wrong type', { 'io.modelcontextprotocol/protocolVersion': 7 }],
    ['clientInfo of the wrong type', { 'io.modelcontextprotocol/clientInfo': 'me' }],
  ])('META-03: %s is 400 and -32602', async (_, meta) => {
    await refused({ meta }, -32602);
  });

  it('META-03 5.3.8: the modern version in the header without an envelope is 400 and -32602, naming the missing keys', async () => {
    const reply = await ask(world.mcp, {
      headers: modernHeaders('tools/list'),
      body: { jsonrpc: '2.0', id: 3, method: 'tools/list' },
    });
    expect(reply.status).toBe(400);
    expect(reply.json).toMatchObject({ id: 3, error: { code: -32602 } });
    expect(reply.json.error.data.missing).toEqual([
      'io.modelcontextprotocol/protocolVersion',
      'io.modelcontextprotocol/clientCapabilities',
    ]);
  });

  it('META-04: a request without clientInfo is served', async () => {
    const reply = await modern(
      world.mcp,
      'tools/list',
      {},
      { meta: { 'io.modelcontextprotocol/clientInfo': undefined } },
    );
    expect(reply.status).toBe(200);
  });

  it.each([
    'no/such',
    'initialize',
    'ping',
    'logging/setLevel',
    'resources/subscribe',
    'resources/unsubscribe',
    'tasks/result',
  ])('HM-11 VER-10: modern %s is 404 and -32601', async (method) => {
    const reply = await modern(world.mcp, method, {}, { id: 9 });
    expect(reply.status).toBe(404);
    expect(reply.json).toMatchObject({ id: 9, error: { code: -32601, data: { reason: 'method_not_found' } } });
  });

  it('HM-15 TOOL-11 LOG-04: faults of a dispatched request stay 200', async () => {
    const unknown = await modernCall(world.mcp, 'echo__nothing');
    expect(unknown.status).toBe(200);
    expect(unknown.json.error.code).toBe(-32602);
    const level = await modern(world.mcp, 'tools/list', {}, { meta: { 'io.modelcontextprotocol/logLevel': 'loud' } });
    expect(level.status).toBe(200);
    expect(level.json.error.code).toBe(-32602);
  });

  it('HM-12: Mcp-Session-Id and Last-Event-ID have no effect on a modern request', async () => {
    const reply = await modern(world.mcp, 'tools/call', call, {
      headers: { 'mcp-session-id': 'made-up', 'last-event-id': 's0.1' },
    });
    expect(reply.status).toBe(200);
    expect(reply.headers['mcp-session-id']).toBeUndefined();
  });

  it('HM-04 HDR-09: a modern notification is 202 and empty, with an envelope or with the version header alone', async () => {
    for (const params of [modernBodyParams(), {}]) {
      const reply = await ask(world.mcp, {
        headers: { accept: BOTH, 'mcp-protocol-version': MODERN },
        body: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1, ...params } },
      });
      expect(reply.status).toBe(202);
      expect(reply.body).toBe('');
    }
  });

  it('HC-02 5.3.5: a JSON-RPC response outside a session is 400', async () => {
    for (const version of [MODERN, undefined]) {
      const reply = await ask(world.mcp, {
        headers: { accept: BOTH, ...(version && { 'mcp-protocol-version': version }) },
        body: { jsonrpc: '2.0', id: 1, result: {} },
      });
      expect(reply.status).toBe(400);
      // Not a code in the range that the modern era does not use (BASE-14).
      if (version) expect(reply.json.error.code).toBe(-32600);
    }
  });

  it('VER-03: server/discover lists versions, capabilities and their lifetime', async () => {
    const reply = await modern(world.mcp, 'server/discover');
    expect(reply.json.result).toMatchObject({
      resultType: 'complete',
      supportedVersions: expect.arrayContaining([MODERN]),
    });
    expect(reply.json.result).toHaveProperty('ttlMs');
    expect(reply.json.result).toHaveProperty('cacheScope');
    expect(reply.json.result.capabilities).toHaveProperty('tools');
  });

  it('SUB-02 SUB-03: a subscription is a stream that begins with its acknowledgement; a client that accepts no stream gets 406', async () => {
    const params = { notifications: { toolsListChanged: true } };
    const stream = await EventStream.open(world.mcp, {
      method: 'POST',
      headers: modernHeaders('subscriptions/listen'),
      body: modernBody('subscriptions/listen', params, { id: 'sub' }),
    });
    const first = await stream.until(({ messages }) => messages[0]);
    expect(first.method).toBe('notifications/subscriptions/acknowledged');
    expect(first.params._meta).toMatchObject({ 'io.modelcontextprotocol/subscriptionId': 'sub' });
    world.echo.announce();
    const changed = await stream.until<Message>(({ messages }) =>
      messages.find(({ method }) => method === 'notifications/tools/list_changed'),
    );
    expect(changed.params._meta).toMatchObject({ 'io.modelcontextprotocol/subscriptionId': 'sub' });
    stream.close();
    const json = await modern(world.mcp, 'subscriptions/listen', params, { headers: { accept: 'application/json' } });
    expect(json.status).toBe(406);
  });
});

function modernBodyParams(): object {
  return (modernBody('x') as { params: object }).params;
}

it('C-05 S0-28: session.clientTermination false makes DELETE 405 with Allow', async () => {
  const session = await Session.open(strict.mcp, '2025-11-25');
  const reply = await session.end();
  expect(reply.status).toBe(405);
  expect(reply.headers.allow).toContain('POST');
  expect((await session.request('ping')).status).toBe(200);
});
