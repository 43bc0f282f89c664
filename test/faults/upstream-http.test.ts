/** HTTP servers that fail in many ways (cases 16 to 21). Each case runs in both eras. */
import { createServer as createHttp, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcp, type Server as TcpServer } from 'node:net';
import { createServer as createTls } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Message, textOf } from '../input/support/message.js';
import { answer, type Called, event, json, type Rogue, startRogue, stream } from '../input/support/rogue.js';
import { modern, modernBody, modernCall, modernHeaders, Session } from '../input/support/speak.js';
import { EventStream, eventually, type Reply, sleep } from '../input/support/wire.js';
import { startWorld, type World } from '../input/support/world.js';

const MIB = 1024 * 1024;

/** Writes until the peer closes the connection or `most` bytes are written. */
function pour(called: Called, chunk: string, most: number): void {
  const { res } = called;
  let sent = 0;
  const more = (): void => {
    while (!res.destroyed && sent < most) {
      sent += chunk.length;
      if (!res.write(chunk)) {
        res.once('drain', more);
        return;
      }
    }
    if (!res.destroyed) res.end();
  };
  more();
}

const progress = (called: Called, value: number): string =>
  event({
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: called.progressToken, progress: value },
  });

const SCRIPT: Record<string, (called: Called) => void> = {
  fine: ({ res, id, era, args }) => json(res, 200, answer(id, String(args['text'] ?? 'fine'), era)),
  silent: () => {},
  trickle: (called) => {
    stream(called.res).flushHeaders();
    let value = 0;
    const timer = setInterval(() => called.res.write(progress(called, ++value)), 300);
    called.res.on('close', () => clearInterval(timer));
  },
  comments: ({ res }) => {
    stream(res).flushHeaders();
    const timer = setInterval(() => res.write(': still here\n\n'), 100);
    res.on('close', () => clearInterval(timer));
  },
  fin: (called) => {
    stream(called.res).write(progress(called, 1) + event(answer(called.id, 'half', called.era)).slice(0, 30));
    setTimeout(() => called.res.end(), 30);
  },
  rst: (called) => {
    stream(called.res).write(progress(called, 1) + event(answer(called.id, 'half', called.era)).slice(0, 30));
    setTimeout(() => called.req.socket.resetAndDestroy(), 50);
  },
  'rst-at-once': ({ req }) => void req.socket.resetAndDestroy(),
  'no-answer': ({ res }) => void stream(res).end(),
  'half-body': ({ res, id, era }) => {
    const body = JSON.stringify(answer(id, 'half', era));
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length + 100 }).write(body);
    setTimeout(() => res.destroy(), 30);
  },
  'half-json': ({ res, id, era }) =>
    void stream(res).end(`data: ${JSON.stringify(answer(id, 'half', era)).slice(0, 40)}\n\n`),
  'not-rpc': ({ res }) => json(res, 200, { hello: 'world' }),
  'not-object': ({ res }) => void res.writeHead(200, { 'content-type': 'application/json' }).end('7'),
  html: ({ res }) =>
    void res.writeHead(200, { 'content-type': 'text/html' }).end('<html>at /srv/app/secret.js:10</html>'),
  empty: ({ res }) => void res.writeHead(200, { 'content-type': 'application/json' }).end(),
  'accepted-only': ({ res }) => void res.writeHead(202).end(),
  'huge-event': (called) => {
    stream(called.res).write('data: {"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"');
    pour(called, 'x'.repeat(64 * 1024), 1024 * MIB);
  },
  'endless-line': (called) => {
    stream(called.res);
    pour(called, 'y'.repeat(64 * 1024), 1024 * MIB);
  },
  'endless-events': (called) => {
    stream(called.res);
    pour(called, progress(called, 1).repeat(500), 1024 * MIB);
  },
  'endless-data-lines': (called) => {
    stream(called.res);
    pour(called, 'data: z\n'.repeat(8_000), 1024 * MIB);
  },
  'huge-body': (called) => {
    called.res.writeHead(200, { 'content-type': 'application/json' });
    pour(called, ' '.repeat(64 * 1024), 1024 * MIB);
  },
  'wrong-id': ({ res, era }) => json(res, 200, answer('somebody-else', 'not yours', era)),
  'wrong-then-right': ({ res, id, era }) => {
    stream(res).write(event(answer(Number(id) + 1, 'not yours', era)));
    res.end(event(answer(id, 'yours', era)));
  },
  twice: ({ res, id, era }) => {
    stream(res).write(event(answer(id, 'first', era)));
    res.end(event(answer(id, 'second', era)));
  },
  late: ({ res, id, era }) => void setTimeout(() => json(res, 200, answer(id, 'too late', era)), 3_800),
  'foreign-progress': ({ res, id, era }) => {
    const about = (progressToken: unknown) =>
      event({
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken, progress: 1, message: 'not yours' },
      });
    stream(res).write(about('made-up') + about(Number(id) + 1) + about(null));
    res.end(event(answer(id, 'done', era)));
  },
  asks: ({ res, id, era }) => {
    const question = (method: string, n: number) => ({
      jsonrpc: '2.0',
      id: `q${n}`,
      method,
      params: { messages: [], maxTokens: 1, message: 'who?', requestedSchema: { type: 'object', properties: {} } },
    });
    stream(res).write(
      ['sampling/createMessage', 'elicitation/create', 'roots/list', 'no/such']
        .map((method, n) => event(question(method, n)))
        .join(''),
    );
    setTimeout(() => res.end(event(answer(id, 'asked', era))), 100);
  },
  s401: ({ res }) =>
    json(
      res,
      401,
      { error: 'invalid_token' },
      { 'www-authenticate': 'Bearer resource_metadata="http://10.0.0.7/secret"' },
    ),
  s403: ({ res }) => json(res, 403, { error: 'insufficient_scope' }),
  s404: ({ res, id, era, times }) =>
    times === 1
      ? json(res, 404, { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } })
      : json(res, 200, answer(id, `try ${times}`, era)),
  's404-always': ({ res }) =>
    json(res, 404, { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }),
  s429: ({ res }) => json(res, 429, { error: 'slow down' }, { 'retry-after': '17' }),
  s429odd: ({ res }) => json(res, 429, { error: 'slow down' }, { 'retry-after': 'soon\xe9' }),
  s500: ({ res }) =>
    void res
      .writeHead(500, { 'content-type': 'text/plain' })
      .end('Error: boom\n    at Object.<anonymous> (/srv/app/index.js:1:1)'),
  s503: ({ res }) => void res.writeHead(503).end(),
  s302: ({ res }) => void res.writeHead(302, { location: canaryUrl }).end(),
  s307: ({ res }) => void res.writeHead(307, { location: canaryUrl }).end(),
  s308: ({ res }) => void res.writeHead(308, { location: canaryUrl }).end(),
};

let canaryUrl = '';
let canaryHits = 0;
let canary: Server;
let rogue: Rogue;
let world: World;
const tcp: TcpServer[] = [];

async function listening(server: TcpServer): Promise<number> {
  tcp.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  canary = createHttp((_, res) => {
    canaryHits++;
    res.end();
  });
  canaryUrl = `http://127.0.0.1:${await listening(canary)}/`;
  rogue = await startRogue(SCRIPT);
  const closed = createTcp();
  const free = await listening(closed);
  await new Promise((resolve) => closed.close(resolve));
  const plain = await listening(createTcp((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')));
  const keyless = await listening(createTls({}));
  // A server that accepts connections and never sends a byte.
  const mute = await listening(createTcp(() => {}));
  world = await startWorld({
    // S25: only operators see the answers of servers.
    explainFailures: 'never',
    timeouts: { connect: '2s', call: '3s', callMax: '6s' },
    servers: {
      modern: { url: rogue.url, revision: 'modern' },
      legacy: { url: rogue.url, revision: 'legacy', transport: 'http' },
      refused: { url: `http://127.0.0.1:${free}/mcp`, revision: 'modern' },
      // The name is too long for DNS, so it fails without a query.
      nowhere: { url: `http://${'n'.repeat(64)}.invalid/mcp`, revision: 'modern' },
      'plain-tls': { url: `https://127.0.0.1:${plain}/mcp`, revision: 'modern' },
      'keyless-tls': { url: `https://127.0.0.1:${keyless}/mcp`, revision: 'legacy' },
      'mute-tls': { url: `https://127.0.0.1:${mute}/mcp`, revision: 'modern' },
      unprobed: { url: `http://127.0.0.1:${free}/mcp` },
    },
  });
});
afterAll(async () => {
  await world.close();
  await rogue.close();
  for (const server of tcp) server.close();
});
afterEach(() => world.wellBehaved());

const ERAS = ['modern', 'legacy'] as const;
const META = { progressToken: 'mine' };

const call = (server: string, tool: string, args: object = {}): Promise<Reply> =>
  modernCall(world.mcp, `${server}__${tool}`, args, { id: 'one', meta: META });

function failure(reply: Reply, reason: string, outcome: string): Message['error'] {
  expect(reply.status).toBe(200);
  expect(reply.json.id).toBe('one');
  expect(reply.json.error).toMatchObject({ code: -32603, data: { reason, outcome } });
  return reply.json.error;
}

describe('case 16: servers that cannot be reached', () => {
  it.each(['refused', 'nowhere', 'plain-tls', 'keyless-tls', 'mute-tls', 'unprobed'])(
    'case 16: %s: -32603 upstream_unavailable, not_executed, for modern and for legacy callers',
    async (server) => {
      const started = Date.now();
      failure(await call(server, 'anything'), 'upstream_unavailable', 'not_executed');
      // The error comes within the connect timeout. The call timeout is not added.
      expect(Date.now() - started).toBeLessThan(10_000);
      const session = await Session.open(world.mcp, '2025-06-18');
      const reply = await session.call(`${server}__anything`, {}, 'one');
      failure(reply, 'upstream_unavailable', 'not_executed');
    },
  );

  it('case 16: the tools of other servers are listed, and the list names the missing servers', async () => {
    const reply = await modern(world.mcp, 'tools/list');
    const names = reply.json.result.tools.map(({ name }) => name);
    expect(names).toContain('echo__echo');
    expect(names).toContain('modern__fine');
    expect(names).toContain('legacy__fine');
    const meta = JSON.stringify(reply.json.result._meta);
    for (const server of ['refused', 'nowhere', 'plain-tls', 'keyless-tls', 'mute-tls']) expect(meta).toContain(server);
    expect(meta).not.toMatch(/127\.0\.0\.1|nnnn/);
  });

  it('case 16: after five consecutive failures a server is not contacted for a while', async () => {
    let connections = 0;
    const hangs = await listening(
      createTcp((socket) => {
        connections++;
        socket.destroy();
      }),
    );
    const other = await startWorld({
      servers: { down: { url: `https://127.0.0.1:${hangs}/mcp`, revision: 'modern' } },
    });
    try {
      for (let i = 0; i < 30; i++) {
        const reply = await modernCall(other.mcp, 'down__x', {}, { id: 'one' });
        failure(reply, 'upstream_unavailable', 'not_executed');
      }
      // One of the contacts may be for the list of tools.
      expect(connections).toBeLessThanOrEqual(10);
      expect(connections).toBeGreaterThanOrEqual(5);
    } finally {
      await other.close();
    }
  });
});

describe.each(ERAS)('case 17: a %s server that never answers', (era) => {
  it('case 17 S0-48 S1-34 S1-63: -32603 upstream_timeout, outcome unknown, and the server gets a cancellation', async () => {
    failure(await call(era, 'silent'), 'upstream_timeout', 'unknown');
    if (era === 'modern') await eventually(() => rogue.abandoned.includes('modern silent'), Boolean);
    else
      await eventually(
        () => rogue.posted.some(({ method, session }) => method === 'notifications/cancelled' && session !== undefined),
        Boolean,
      );
  });

  it('case 17: progress restarts the timeout, up to a fixed limit (BASE-21)', async () => {
    const name = `${era}__trickle`;
    const open = await EventStream.open(world.mcp, {
      method: 'POST',
      headers: modernHeaders('tools/call', { name }),
      body: modernBody('tools/call', { name, arguments: {} }, { id: 'one', meta: META }),
    });
    await open.end();
    const { messages } = open;
    // The call runs longer than the timeout of a call without progress.
    expect(messages.filter(({ method }) => method === 'notifications/progress').length).toBeGreaterThanOrEqual(4);
    expect(messages.at(-1)).toMatchObject({
      id: 'one',
      error: { code: -32603, data: { reason: 'upstream_timeout', outcome: 'unknown' } },
    });
    await eventually(() => rogue.abandoned.includes(`${era} trickle`), Boolean);
  });

  it('case 17: SSE comments do not count as progress', async () => {
    failure(await call(era, 'comments'), 'upstream_timeout', 'unknown');
  });
});

describe.each(ERAS)('case 18: a %s server that dies in the middle', (era) => {
  it.each(['fin', 'rst', 'rst-at-once', 'no-answer', 'half-body', 'accepted-only'])(
    'case 18: %s: one terminal error, outcome unknown, and no part of the incomplete answer',
    async (tool) => {
      const reply = await call(era, tool);
      failure(reply, 'upstream_error', 'unknown');
      expect(reply.body).not.toContain('half');
      expect(reply.body.match(/"id":"one"/g)).toHaveLength(1);
    },
  );

  it.each(['half-json', 'not-rpc', 'not-object', 'html', 'empty'])(
    'case 18 case 21: %s: -32603, unknown',
    async (tool) => {
      const reply = await call(era, tool);
      expect(reply.json.error.code).toBe(-32603);
      expect(['upstream_invalid', 'upstream_error']).toContain(reply.json.error.data.reason);
      expect(reply.json.error.data.outcome).toBe('unknown');
      expect(reply.body).not.toMatch(/half|hello|secret/);
    },
  );

  it('case 18: a legacy caller gets one terminal error too', async () => {
    const session = await Session.open(world.mcp, '2025-11-25');
    const reply = await session.call(`${era}__rst`, {}, 'one', META);
    expect(reply.json.error).toMatchObject({ code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } });
    expect(reply.body.match(/"id":"one"/g)).toHaveLength(1);
  });
});

it('case 18: a stream of a legacy server with event ids is resumed with the last id', async () => {
  const asked: (string | undefined)[] = [];
  let pending: Called | undefined;
  const other = await startRogue({
    resumable: (called) => {
      pending = called;
      stream(called.res).write(`id: e1\nretry: 50\ndata: \n\n${progress(called, 1).replace('data:', 'id: e2\ndata:')}`);
      setTimeout(() => called.req.socket.resetAndDestroy(), 50);
    },
  });
  other.onGet = (req, res) => {
    const last = req.headers['last-event-id'] as string | undefined;
    if (last === undefined) return void res.writeHead(405).end();
    asked.push(last);
    stream(res).end(event(answer(pending!.id, 'resumed', 'legacy'), 'e3'));
  };
  const gateway = await startWorld({ servers: { res: { url: other.url, revision: 'legacy', transport: 'http' } } });
  try {
    const reply = await modernCall(gateway.mcp, 'res__resumable', {}, { meta: META });
    expect(textOf(reply.json)).toBe('resumed');
    expect(asked).toEqual(['e2']);
    // The call was resumed, not repeated.
    expect(other.posted.filter(({ method }) => method === 'tools/call')).toHaveLength(1);
  } finally {
    await gateway.close();
    await other.close();
  }
});

describe.each(ERAS)('case 19: a %s server that does not stop', (era) => {
  it.each(['huge-event', 'endless-line', 'huge-body'])(
    'case 19: %s is cut at the size limit of one message',
    async (tool) => {
      const before = world.memory();
      failure(await call(era, tool), 'upstream_error', 'unknown');
      await eventually(() => rogue.abandoned.includes(`${era} ${tool}`), Boolean);
      expect(world.memory() - before).toBeLessThan(128);
    },
  );

  it.each(['endless-events', 'endless-data-lines'])(
    'case 19: %s are cut at the size or time limit of one call',
    async (tool) => {
      const before = world.memory();
      const reply = await modernCall(world.mcp, `${era}__${tool}`, {}, { id: 'one' });
      expect(reply.json).toMatchObject({ id: 'one', error: { code: -32603, data: { outcome: 'unknown' } } });
      expect(['upstream_error', 'upstream_timeout']).toContain(reply.json.error.data.reason);
      await eventually(() => rogue.abandoned.includes(`${era} ${tool}`), Boolean);
      expect(world.memory() - before).toBeLessThan(128);
    },
  );
});

describe.each(ERAS)('case 20: a %s server that sends unexpected answers', (era) => {
  it('case 20: an answer with a foreign id is dropped; the caller gets an error', async () => {
    const reply = await call(era, 'wrong-id');
    expect(reply.json.error.code).toBe(-32603);
    expect(reply.body).not.toContain('not yours');
    const both = await call(era, 'wrong-then-right');
    expect(textOf(both.json)).toBe('yours');
    expect(both.body).not.toContain('not yours');
  });

  it('case 20: a second answer is dropped', async () => {
    const reply = await call(era, 'twice');
    expect(textOf(reply.json)).toBe('first');
    expect(reply.body).not.toContain('second');
  });

  it('case 20: an answer after the timeout is dropped, for its caller and for the next', async () => {
    const session = await Session.open(world.mcp, '2025-11-25');
    const reply = await session.call(`${era}__late`, {}, 'one');
    expect(reply.json.error.data.reason).toBe('upstream_timeout');
    for (let i = 0; i < 12; i++) {
      const next = await session.call(`${era}__fine`, { text: `n${i}` }, 'one');
      expect(textOf(next.json)).toBe(`n${i}`);
      expect(next.body).not.toContain('too late');
      await sleep(100);
    }
  });

  it('case 20: progress with a foreign token is dropped', async () => {
    const reply = await call(era, 'foreign-progress');
    expect(textOf(reply.json)).toBe('done');
    expect(reply.body).not.toContain('not yours');
  });

  it('case 20: a message for one caller never reaches another concurrent caller', async () => {
    const texts = Array.from({ length: 40 }, (_, n) => `same time ${n}`);
    const replies = await Promise.all(
      texts.flatMap((text) => [
        modernCall(world.mcp, `${era}__fine`, { text }, { id: 0 }),
        modernCall(world.mcp, `${era}__wrong-then-right`, {}, { id: 0 }),
      ]),
    );
    expect(replies.filter((_, n) => n % 2 === 0).map(({ json: message }) => textOf(message))).toEqual(texts);
    expect(replies.some(({ body }) => body.includes('not yours'))).toBe(false);
  });

  it('case 20: questions to a client without the capability are refused, and the call continues', async () => {
    const reply = await call(era, 'asks');
    expect(textOf(reply.json)).toBe('asked');
    expect(reply.body).not.toMatch(/createMessage|elicitation\/create|roots\/list|who\?/);
    if (era === 'modern') return;
    const refusals = await eventually(
      () => rogue.posted.filter(({ id, error }) => typeof id === 'string' && id.startsWith('q') && error !== undefined),
      (found) => found.length >= 4,
    );
    expect(refusals.every(({ error }) => error.code === -32601 || error.code === -32602)).toBe(true);
  });
});

describe.each(ERAS)('case 21: statuses of a %s server', (era) => {
  it.each([
    ['s401', 'upstream_unauthorized', 'not_executed'],
    ['s403', 'upstream_unauthorized', 'not_executed'],
    ['s500', 'upstream_error', 'unknown'],
    ['s503', 'upstream_error', 'unknown'],
  ])('case 21: %s: %s, %s, without its body and headers', async (tool, reason, outcome) => {
    const reply = await call(era, tool);
    failure(reply, reason, outcome);
    expect(reply.body).not.toMatch(/boom|srv|10\.0\.0\.7|invalid_token/);
    expect(reply.headers['www-authenticate']).toBeUndefined();
  });

  it('case 21: 429 is passed on with its Retry-After', async () => {
    const reply = await call(era, 's429');
    const error = failure(reply, 'upstream_rate_limited', 'not_executed');
    expect(error.data.retryAfter).toBe('17');
    expect(reply.headers['retry-after']).toBe('17');
  });

  it('case 21: 429 with an invalid Retry-After is passed on without it', async () => {
    const reply = await call(era, 's429odd');
    const error = failure(reply, 'upstream_rate_limited', 'not_executed');
    expect(error.data.retryAfter).toBeUndefined();
    expect(reply.headers['retry-after']).toBeUndefined();
  });

  it.each(['s302', 's307', 's308'])('case 21: %s: a redirect is not followed', async (tool) => {
    const reply = await call(era, tool);
    expect(reply.json.error).toMatchObject({ code: -32603, data: { reason: 'upstream_error' } });
    expect(reply.body).not.toContain(new URL(canaryUrl).port);
    expect(canaryHits).toBe(0);
  });
});

describe('case 21: a session that its server no longer knows', () => {
  it('case 21: 404 causes one new initialize and one more call, because the call was not accepted', async () => {
    const before = rogue.initializations;
    const reply = await call('legacy', 's404');
    expect(textOf(reply.json)).toBe('try 2');
    expect(rogue.initializations).toBe(before + 1);
    expect(rogue.posted.filter(({ method, params }) => method === 'tools/call' && params.name === 's404')).toHaveLength(
      2,
    );
    const sessions = rogue.posted
      .filter(({ method, params }) => method === 'tools/call' && params.name === 's404')
      .map(({ session }) => session);
    expect(new Set(sessions).size).toBe(2);
  });

  it('case 21: a server that always answers 404 is called twice at most', async () => {
    const reply = await call('legacy', 's404-always');
    expect(reply.json.error.code).toBe(-32603);
    expect(
      rogue.posted.filter(({ method, params }) => method === 'tools/call' && params.name === 's404-always').length,
    ).toBeLessThanOrEqual(2);
    expect(textOf((await call('legacy', 'fine')).json)).toBe('fine');
  });

  it('case 21: a call that may have been accepted is never sent again', async () => {
    for (const tool of ['silent', 'fin', 'rst', 'rst-at-once', 's500', 's503', 'half-body']) {
      const count = (): number =>
        rogue.posted.filter(({ method, params }) => method === 'tools/call' && params.name === tool).length;
      const before = count();
      for (const era of ERAS) await call(era, tool);
      expect(count() - before, tool).toBe(2);
    }
  });
});
