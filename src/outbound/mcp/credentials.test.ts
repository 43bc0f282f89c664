/** Two callers with different credentials at one server: no session or stream of one is used for the other. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { tokenOfCaller } from '../../../test/support/callers.js';
import {
  beginStream,
  type LooseServer,
  type Posted,
  sendJson,
  startLoose,
} from '../../../test/support/counting-server.js';
import { type Caller, Cancellation, GATEWAY, principalOf } from '../../core/caller.js';
import type { Credential, Credentials } from '../../identity/upstream-credentials.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { ClientCapabilities } from '../../protocol/mcp/model.js';
import { LEGACY, NEWEST } from '../../protocol/mcp/revisions/index.js';
import { SILENT } from '../../telemetry/log.js';
import { buildUpstream, type ServerSettings } from './build-upstream.js';
import { gatewayCall } from './gateway-call.js';
import type { McpUpstream } from './mcp-upstream.js';

/** One request as received by the server. */
interface Seen {
  readonly method: string;
  readonly authorization: string | undefined;
  readonly session: string | undefined;
  readonly socket: Socket;
}

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const seenOf = ({ method = '' }: Posted, req: IncomingMessage): Seen => {
  const { authorization } = req.headers;
  const session = req.headers['mcp-session-id'] ?? new URL(req.url ?? '', 'http://x').searchParams.get('session');
  return {
    method: method || (req.method ?? ''),
    authorization,
    session: session ? String(session) : undefined,
    socket: req.socket,
  };
};

const LEGACY_RESULT = { protocolVersion: LEGACY[0]!.date, capabilities: { tools: {}, resources: { subscribe: true } } };

/** A server of one era and transport that records the credential and the session of each request. */
async function serve(kind: 'modern' | 'http' | 'sse'): Promise<{ server: LooseServer; seen: Seen[] }> {
  const seen: Seen[] = [];
  const streams = new Map<string, ServerResponse>();
  let sessions = 0;
  const server = await startLoose((message, res, req) => {
    seen.push(seenOf(message, req));
    const { id, method } = message;
    const result =
      method === 'initialize'
        ? { ...LEGACY_RESULT, serverInfo: { name: 'loose', version: '1' } }
        : method === 'server/discover'
          ? { supportedVersions: [NEWEST.date], capabilities: { tools: {} } }
          : { content: [], tools: [] };
    const reply = { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } };
    if (kind === 'sse') {
      if (req.method === 'GET') {
        const session = `s${++sessions}`;
        streams.set(session, res);
        beginStream(res, `event: endpoint\ndata: /messages?session=${session}\n\n`);
        return;
      }
      res.writeHead(202).end();
      const session = new URL(req.url!, 'http://x').searchParams.get('session')!;
      if (id !== undefined) streams.get(session)?.write(`event: message\ndata: ${JSON.stringify(reply)}\n\n`);
      return;
    }
    if (kind === 'http' && req.method === 'GET') res.writeHead(405).end();
    else if (id === undefined) res.writeHead(202).end();
    else if (kind === 'http' && method === 'server/discover')
      sendJson(res, { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
    else sendJson(res, reply, method === 'initialize' ? { 'mcp-session-id': `s${++sessions}` } : {});
  });
  closing.push(() => server.close());
  return { server, seen };
}

function connect(
  server: LooseServer,
  revision: string,
  transport: 'http' | 'sse',
  credentials: Credentials,
  call = 5_000,
): McpUpstream {
  const settings: ServerSettings = {
    url: server.url,
    args: [],
    env: {},
    headers: {},
    tls: {},
    transport,
    revision,
    pool: 2,
    timeouts: { connect: 5_000, call, callMax: call },
  };
  const upstream = buildUpstream('loose', settings, {
    limits: { event: 100_000 },
    sessionIdle: 60_000,
    clientInfo: { name: 'test', version: '1' },
    log: SILENT,
    verdicts: { recall: () => undefined, remember: () => {} },
    explains: true,
    credentials,
  });
  closing.push(() => upstream.close());
  return upstream as McpUpstream;
}

const ELICITS: ClientCapabilities = { elicitation: { form: {} } };
const as = (subject: string, more: Partial<Caller> = {}): Caller => ({
  ...GATEWAY,
  principal: principalOf({ subject }),
  ...more,
});
const legacy = LEGACY.at(-1)!;

/** The credentials that each value of one kind was used with. */
function usedWith<K>(seen: readonly Seen[], of: (each: Seen) => K | undefined): Map<K, Set<string | undefined>> {
  const used = new Map<K, Set<string | undefined>>();
  for (const each of seen) {
    const key = of(each);
    if (key === undefined) continue;
    used.set(key, (used.get(key) ?? new Set()).add(each.authorization));
  }
  return used;
}

const CASES = [
  ['modern over HTTP', 'modern', 'modern', 'http'],
  ['sessions over Streamable HTTP', 'http', 'legacy', 'http'],
  ['sessions over HTTP+SSE', 'sse', 'legacy', 'sse'],
] as const;

describe.each(CASES)('%s', (_, kind, revision, transport) => {
  it.each([
    ['at once', false],
    ['later', true],
  ])('the credentials of two callers, known %s, are never mixed', async (_, later) => {
    const { server, seen } = await serve(kind);
    const upstream = connect(server, revision, transport, tokenOfCaller(later));
    await upstream.describe();
    const era = kind === 'modern' ? NEWEST : legacy;
    for (let round = 0; round < 2; round++) {
      for (const subject of ['ada', 'bob']) {
        for (const more of [{}, { capabilities: ELICITS }, { session: `of-${subject}` }]) {
          const caller = as(subject, { revision: era, ...more });
          const outcome = await upstream.request(caller, gatewayCall('tools/call', { name: 'x' }));
          expect(outcome).toMatchObject({ kind: 'complete' });
        }
      }
    }
    const calls = seen.filter(({ method }) => method === 'tools/call');
    expect(calls.map(({ authorization }) => authorization)).toEqual(
      Array.from({ length: 2 }, () => [...Array(3).fill('Bearer ada'), ...Array(3).fill('Bearer bob')]).flat(),
    );
    for (const users of usedWith(seen, ({ session }) => session).values()) expect(users.size).toBe(1);
    for (const users of usedWith(seen, ({ socket }) => socket).values()) expect(users.size).toBe(1);
    // Requests of the gateway itself carry its own credential.
    expect(seen[0]!.authorization).toBe('Bearer parley');
  });

  it('callers with the same credential share a session', async () => {
    const { server, seen } = await serve(kind);
    const team: Credentials = { for: () => ({ key: 'team', headers: ['Authorization', 'Bearer team'] }) };
    const upstream = connect(server, revision, transport, team);
    const era = kind === 'modern' ? NEWEST : legacy;
    for (const subject of ['ada', 'bob', 'ada'])
      await upstream.request(as(subject, { revision: era }), gatewayCall('tools/call', { name: 'x' }));
    expect(usedWith(seen, ({ session }) => session).size).toBe(kind === 'modern' ? 0 : 1);
    expect(new Set(seen.map(({ authorization }) => authorization))).toEqual(new Set(['Bearer team']));
  });

  it('a renewed token is used on the existing session', async () => {
    const { server, seen } = await serve(kind);
    let token = 'old';
    const renewed: Credentials = { for: () => ({ key: 'ada', headers: ['Authorization', `Bearer ${token}`] }) };
    const upstream = connect(server, revision, transport, renewed);
    const caller = as('ada', { revision: kind === 'modern' ? NEWEST : legacy });
    await upstream.request(caller, gatewayCall('tools/call', { name: 'x' }));
    token = 'new';
    await upstream.request(caller, gatewayCall('tools/call', { name: 'x' }));
    const calls = seen.filter(({ method }) => method === 'tools/call');
    expect(calls.map(({ authorization }) => authorization)).toEqual(['Bearer old', 'Bearer new']);
    expect(new Set(calls.map(({ session }) => session)).size).toBe(1);
  });

  it('a caller whose credential changes gets another session', async () => {
    const { server, seen } = await serve(kind);
    let account = 'first';
    const changing: Credentials = { for: () => ({ key: account, headers: ['Authorization', `Bearer ${account}`] }) };
    const upstream = connect(server, revision, transport, changing);
    const caller = as('ada', { revision: kind === 'modern' ? NEWEST : legacy, session: 'mine' });
    await upstream.request(caller, gatewayCall('tools/call', { name: 'x' }));
    account = 'second';
    expect(await upstream.request(caller, gatewayCall('tools/call', { name: 'x' }))).toMatchObject({
      kind: 'complete',
    });
    for (const users of usedWith(seen, ({ session }) => session).values()) expect(users.size).toBe(1);
  });

  it.each([
    [
      'an error of its own',
      new ProtocolError('upstream_unauthorized', 'Link your account first'),
      'Link your account first',
    ],
    ['any other error', new Error('connect ECONNREFUSED 10.0.0.1'), 'no credential could be obtained'],
  ])('a caller without a credential gets an error: %s', async (_, error, words) => {
    const { server, seen } = await serve(kind);
    const lacking: Credentials = {
      for: (caller, { configured }) => (caller.principal.key === 'ada' ? Promise.reject(error) : configured),
    };
    const upstream = connect(server, revision, transport, lacking);
    await upstream.describe();
    const before = seen.length;
    const caller = as('ada', { revision: kind === 'modern' ? NEWEST : legacy });
    const outcome = await upstream.request(caller, gatewayCall('tools/call', { name: 'x' }));
    expect(outcome).toMatchObject({ kind: 'error', error: { reason: 'upstream_unauthorized' } });
    expect((outcome as { error: Error }).error.message).toContain(words);
    expect((outcome as { error: Error }).error.message).not.toContain('10.0.0.1');
    expect(seen).toHaveLength(before);
    // The health of the server does not change.
    expect(upstream.health().status).toBe('up');
    await expect(upstream.watch({ toolsListChanged: true }, () => {}, caller)).rejects.toThrow(words);
  });

  it.each([
    ['never comes', () => new Promise<never>(() => {}), 'upstream_timeout'],
    ['is missing at once', () => undefined as never, 'upstream_unauthorized'],
    ['is missing after a wait', () => Promise.resolve(undefined as never), 'upstream_unauthorized'],
    ['has no text', () => Promise.resolve({ key: '', headers: ['A', 1 as never] }), 'upstream_unauthorized'],
  ] as [string, () => Credential | Promise<Credential>, string][])(
    'a call fails whose credential %s',
    async (_, given, reason) => {
      const { server, seen } = await serve(kind);
      const credentials: Credentials = {
        for: (caller, { configured }) => (caller.principal.key === 'ada' ? given() : configured),
      };
      const upstream = connect(server, revision, transport, credentials, 1_000);
      await upstream.describe();
      const caller = as('ada', { revision: kind === 'modern' ? NEWEST : legacy });
      const error = { reason, detail: { outcome: 'not_executed' } };
      expect(await upstream.request(caller, gatewayCall('tools/call', { name: 'x' }))).toMatchObject({ error });
      await expect(upstream.watch({ toolsListChanged: true }, () => {}, caller)).rejects.toMatchObject(error);
      expect(seen.map(({ method }) => method)).not.toContain('tools/call');
    },
  );

  it('a call that is cancelled while it waits for its credential ends', async () => {
    const { server } = await serve(kind);
    const credentials: Credentials = {
      for: (caller, { configured }) => (caller.principal.key === 'ada' ? new Promise<never>(() => {}) : configured),
    };
    const upstream = connect(server, revision, transport, credentials, 600_000);
    await upstream.describe();
    const cancellation = new Cancellation();
    const call = { ...gatewayCall('tools/call', { name: 'x' }), cancellation };
    const outcome = upstream.request(as('ada', { revision: kind === 'modern' ? NEWEST : legacy }), call);
    setImmediate(() => cancellation.cancel());
    expect(await outcome).toMatchObject({ error: { reason: 'cancelled', detail: { outcome: 'not_executed' } } });
  });
});

it('resources are watched with the credential of the caller that subscribes', async () => {
  const { server, seen } = await serve('http');
  const upstream = connect(server, 'legacy', 'http', tokenOfCaller(false));
  const filter = { resourceSubscriptions: ['file:///a'] };
  const watches = await Promise.all(['ada', 'bob'].map((name) => upstream.watch(filter, () => {}, as(name))));
  const subscribed = seen.filter(({ method }) => method === 'resources/subscribe');
  expect(subscribed.map(({ authorization }) => authorization).sort()).toEqual(['Bearer ada', 'Bearer bob']);
  for (const users of usedWith(seen, ({ session }) => session).values()) expect(users.size).toBe(1);
  for (const watch of watches) watch.close();
});

/** One team credential for all callers, and another for the gateway. `lose` removes the credential of one caller. */
function teamOf(): { credentials: Credentials; lose(subject: string): void } {
  const lost = new Set<string>();
  return {
    lose: (subject) => lost.add(subject),
    credentials: {
      for: ({ principal: { key } }) => {
        if (lost.has(key)) throw new ProtocolError('upstream_unauthorized', `${key}: link your account`);
        return key === GATEWAY.principal.key
          ? { key: 'own', headers: [] }
          : { key: 'team', headers: ['Authorization', 'Bearer team'] };
      },
    },
  };
}

describe.each(CASES.slice(1))('%s that callers share', (_, kind, revision, transport) => {
  it('serve the other callers when the caller that opened them has lost its credential', async () => {
    const { server, seen } = await serve(kind);
    const { credentials, lose } = teamOf();
    const upstream = connect(server, revision, transport, credentials);
    const call = (subject: string) =>
      upstream.request(as(subject, { revision: legacy }), gatewayCall('tools/call', { name: 'x' }));
    await call('ada');
    await call('bob');
    lose('ada');
    expect(await call('bob')).toMatchObject({ kind: 'complete' });
    expect(await call('ada')).toMatchObject({ kind: 'error', error: { message: 'ada: link your account' } });
    // A request of the gateway itself on the session of the team.
    const watch = await upstream.watch({ resourceSubscriptions: ['file:///a'] }, () => {}, as('bob'));
    expect(watch.honoured).toEqual({ resourceSubscriptions: ['file:///a'] });
    watch.close();
    expect(new Set(seen.map(({ session }) => session).filter(Boolean)).size).toBe(1);
  });
});

it('a pool of sessions serves the other callers when the credential of its first caller changes', async () => {
  const { server, seen } = await serve('sse');
  let adas = 'team';
  const upstream = connect(server, 'legacy', 'sse', {
    for: ({ principal: { key: subject } }) => {
      const key = subject === GATEWAY.principal.key ? 'own' : subject === 'ada' ? adas : 'team';
      return { key, headers: ['Authorization', `Bearer ${key}`] };
    },
  });
  const call = (subject: string) =>
    upstream.request(
      as(subject, { revision: legacy, capabilities: ELICITS }),
      gatewayCall('tools/call', { name: 'x' }),
    );
  await call('ada');
  adas = 'another';
  // More calls at a time than sessions, so that a call of the other caller opens a session.
  for (const outcome of await Promise.all([call('bob'), call('bob'), call('ada'), call('bob')]))
    expect(outcome).toMatchObject({ kind: 'complete' });
  for (const users of usedWith(seen, ({ session }) => session).values()) expect(users.size).toBe(1);
});

it('an interrupted watch is reopened with the credential of a caller that still watches', async () => {
  const listened: (string | undefined)[] = [];
  const open: ServerResponse[] = [];
  const server = await startLoose(({ id, method, params }, res, req) => {
    if (method !== 'subscriptions/listen') {
      const capabilities = { resources: { subscribe: true } };
      const result = { resultType: 'complete', supportedVersions: [NEWEST.date], capabilities };
      sendJson(res, { jsonrpc: '2.0', id, result });
      return;
    }
    listened.push(req.headers.authorization);
    open.push(res);
    const acknowledged = { notifications: params?.['notifications'] };
    const text = { jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params: acknowledged };
    beginStream(res, `data: ${JSON.stringify(text)}\n\n`);
  });
  closing.push(() => server.close());
  let adas = 'team';
  const upstream = connect(server, 'modern', 'http', {
    for: ({ principal: { key: subject } }) => {
      const key = subject === GATEWAY.principal.key ? 'own' : subject === 'ada' ? adas : 'team';
      return { key, headers: ['Authorization', `Bearer ${key}`] };
    },
  });
  const filter = { resourceSubscriptions: ['file:///a'] };
  const [first, second, third] = [
    await upstream.watch(filter, () => {}, as('ada')),
    await upstream.watch(filter, () => {}, as('bob')),
    await upstream.watch(filter, () => {}, as('ada')),
  ];
  first.close();
  // This caller still watches, but no longer with the credential of the team.
  adas = 'another';
  for (const res of open.splice(0)) res.destroy();
  await expect.poll(() => listened, { timeout: 20_000 }).toEqual(['Bearer team', 'Bearer team']);
  // A changed filter also opens a new watch.
  const more = await upstream.watch({ resourceSubscriptions: ['file:///b'] }, () => {}, as('bob'));
  expect(listened).toEqual(Array(3).fill('Bearer team'));
  for (const watch of [second, third, more]) watch.close();
});

describe.each([
  ['auto', 'http'],
  ['legacy', 'http'],
  ['legacy', 'sse'],
] as const)('a server (%s, %s) that never answers its first request', (revision, transport) => {
  it.each([
    ['may be asked', { capabilities: ELICITS }],
    ['has a session', { session: 'mine' }],
    ['has neither', {}],
  ])('does not delay a cancelled call of a client that %s', async (_, more) => {
    let reached = (): void => {};
    const contact = new Promise<void>((resolve) => {
      reached = resolve;
    });
    const server = await startLoose(() => reached());
    closing.push(() => server.close());
    const upstream = connect(server, revision, transport, tokenOfCaller(false), 600_000);
    const cancellation = new Cancellation();
    const call = { ...gatewayCall('tools/call', { name: 'x' }), cancellation };
    const outcome = upstream.request(as('ada', { revision: legacy, ...more }), call);
    await contact;
    cancellation.cancel();
    expect(await outcome).toMatchObject({ error: { reason: 'cancelled', detail: { outcome: 'not_executed' } } });
    // A cancelled call does not change the health of the server.
    expect(upstream.health().status).toBe('unknown');
    for (const socket of server.connections) socket.destroy();
  });
});
