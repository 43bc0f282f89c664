/**
 * Two users with different tokens at one server: every request at the server carries the token of its own user, over
 * modern requests, sessions, streams and resumed replies, with 200 calls at the same time.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { credentialServices } from '../../src/app/credential-order.js';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { openStorage } from '../../src/app/storage.js';
import { configFrom } from '../../src/config/load.js';
import type { Config } from '../../src/config/schema.js';
import { LEGACY, NEWEST } from '../../src/protocol/mcp/revisions/index.js';
import { SILENT } from '../../src/telemetry/log.js';
import { beginStream, type LooseServer, type Posted, sendJson, startLoose } from '../support/counting-server.js';

const USERS = ['ada', 'bob'] as const;
type User = (typeof USERS)[number];
const tokenAtUpstream = (user: User): string => `Bearer upstream-token-of-${user}`;
const tokenAtGateway = (user: User): string => `gateway-token-of-${user}-${'x'.repeat(20)}`;
/** 4 kinds of calls for each of 2 users. */
const CALLS_EACH = 25;
const SESSIONS_EACH = 5;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Upstream extends LooseServer {
  /** Requests that carried the token of another user than theirs. */
  readonly mixed: string[];
  readonly calls: Record<User, number>;
  readonly resumed: Record<User, number>;
}

const TOOL = { name: 'whoami', inputSchema: { type: 'object' } };
const DESCRIBED = { capabilities: { tools: {} }, serverInfo: { name: 'up', version: '1' } };

/** A server that knows the user of each call, and the user whose token opened each session. */
async function startUpstream(era: 'modern' | 'legacy'): Promise<Upstream> {
  const mixed: string[] = [];
  const calls = { ada: 0, bob: 0 };
  const resumed = { ada: 0, bob: 0 };
  const sessions = new Map<string, string | undefined>();
  /** Replies that the server interrupted, by event id. */
  const interrupted = new Map<string, { readonly user: User; readonly answer: object }>();
  const answerTo = ({ id, params }: Posted, result: object): object => {
    void params;
    return { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } };
  };
  const check = (req: IncomingMessage, what: string, wanted: string | undefined): void => {
    if (req.headers.authorization !== wanted) mixed.push(`${what}: ${req.headers.authorization} instead of ${wanted}`);
  };
  const call = (message: Posted, res: ServerResponse, req: IncomingMessage): void => {
    const { user, how } = message.params!['arguments'] as { user: User; how: string };
    calls[user]++;
    check(req, `call (${how})`, tokenAtUpstream(user));
    const answer = answerTo(message, { content: [{ type: 'text', text: `${user} ${req.headers.authorization}` }] });
    if (how === 'json') sendJson(res, answer);
    else if (how === 'stream' || era === 'modern') {
      beginStream(res, ': begun\n\n');
      setTimeout(() => res.end(`data: ${JSON.stringify(answer)}\n\n`), 10);
    } else {
      // The reply breaks off after an event id; the client fetches the rest with GET.
      const eventId = `${user}-${interrupted.size}`;
      interrupted.set(eventId, { user, answer });
      beginStream(res, `retry: 100\nid: ${eventId}\ndata:\n\n`);
      setTimeout(() => res.end(), 5);
    }
  };
  const server = await startLoose((message, res, req) => {
    const { authorization } = req.headers;
    if (!USERS.some((user) => authorization === tokenAtUpstream(user))) {
      res.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end();
      return;
    }
    const session = req.headers['mcp-session-id'];
    if (typeof session === 'string')
      check(req, `${req.method} ${message.method ?? ''} on a session`, sessions.get(session));
    if (req.method === 'GET') {
      const reply = interrupted.get(String(req.headers['last-event-id']));
      if (!reply) return void res.writeHead(405).end();
      resumed[reply.user]++;
      check(req, 'resumed reply', tokenAtUpstream(reply.user));
      beginStream(res, `data: ${JSON.stringify(reply.answer)}\n\n`);
      return void res.end();
    }
    if (req.method === 'DELETE' || message.id === undefined) return void res.writeHead(202).end();
    switch (message.method) {
      case 'server/discover':
        if (era === 'modern') sendJson(res, answerTo(message, { supportedVersions: [NEWEST.date], ...DESCRIBED }));
        else sendJson(res, { jsonrpc: '2.0', id: message.id, error: { code: -32601, message: 'Method not found' } });
        return;
      case 'initialize': {
        const id = `session-${sessions.size}`;
        sessions.set(id, authorization);
        sendJson(res, answerTo(message, { protocolVersion: LEGACY.at(-1)!.date, ...DESCRIBED }), {
          'mcp-session-id': id,
        });
        return;
      }
      case 'tools/list':
        sendJson(res, answerTo(message, { tools: [TOOL], ttlMs: 60_000, cacheScope: 'private' }));
        return;
      case 'tools/call':
        call(message, res, req);
        return;
      default:
        sendJson(res, { jsonrpc: '2.0', id: message.id, error: { code: -32601, message: 'Method not found' } });
    }
  });
  closing.push(() => server.close());
  return Object.assign(server, { mixed, calls, resumed });
}

/** Stores a token for each user, as a sign-in does. */
async function seed(config: Config, url: string): Promise<void> {
  const state = await openStorage(config, SILENT);
  const parts = credentialServices(state, SILENT);
  const issuer = 'https://issuer.example';
  const at = { issuer, server: issuer, tokenEndpoint: `${issuer}/token`, resource: url, namesIssuer: false };
  for (const user of USERS) {
    await parts.vault.put(
      { caller: user, issuer, resource: url, upstream: 'server:up' },
      { accessToken: tokenAtUpstream(user).slice('Bearer '.length), login: user, at, client: { client_id: 'parley' } },
      { state: 'active', expiresAt: Date.now() + 3_600_000 },
    );
  }
  await parts.close();
  await state.close();
}

async function start(upstream: Upstream): Promise<RunningGateway> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-two-users-'));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  const { config } = configFrom(
    {
      listen: '127.0.0.1:0',
      data: join(folder, 'data'),
      servers: { up: { url: upstream.url, auth: { oauth: { registration: 'auto' } } } },
      auth: { tokens: USERS.map((user) => ({ name: user, token: tokenAtGateway(user) })) },
      timeouts: { drain: '1s' },
    },
    { env: {} },
  );
  await seed(config, upstream.url);
  const gateway = await startServe(config, { log: SILENT });
  closing.push(() => gateway.close());
  return gateway;
}

let nextId = 0;

async function post(
  url: string,
  user: User,
  message: { method: string; params?: object; id?: number },
  headers: Record<string, string> = {},
): Promise<{ reply: Response; body: Answer | undefined }> {
  const reply = await fetch(`${url}/mcp/up`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${tokenAtGateway(user)}`,
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  });
  const text = await reply.text();
  return { reply, body: answerIn(text) ?? (await resumed(url, user, text, headers)) };
}

interface Answer {
  readonly result?: { readonly content?: readonly { readonly text: string }[] };
  readonly error?: object;
}

function answerIn(text: string): Answer | undefined {
  const data = text.startsWith('{') ? text : text.match(/^data: (\{.*"(?:result|error)".*)$/m)?.[1];
  return data === undefined ? undefined : (JSON.parse(data) as Answer);
}

/**
 * The gateway ends its reply while the server's reply is interrupted. The client of the gateway fetches the rest with
 * GET, as the gateway does at the server.
 */
async function resumed(
  url: string,
  user: User,
  first: string,
  headers: Record<string, string>,
): Promise<Answer | undefined> {
  for (let text = first, tries = 0; tries < 100; tries++) {
    const last = [...text.matchAll(/^id: ?(.+)$/gm)].at(-1)?.[1];
    if (last === undefined) return undefined;
    await new Promise((resolve) => setTimeout(resolve, 50));
    const reply = await fetch(`${url}/mcp/up`, {
      headers: {
        accept: 'text/event-stream',
        authorization: `Bearer ${tokenAtGateway(user)}`,
        ...headers,
        'last-event-id': last,
      },
    });
    text = `id: ${last}\n${await reply.text()}`;
    const answer = answerIn(text);
    if (answer) return answer;
  }
  return undefined;
}

const argumentsOf = (user: User, how: string): object => ({ name: 'whoami', arguments: { user, how } });

function modernCall(url: string, user: User, how: string): Promise<unknown> {
  const prefix = 'io.modelcontextprotocol';
  const _meta = { [`${prefix}/protocolVersion`]: NEWEST.date, [`${prefix}/clientCapabilities`]: {} };
  const message = { id: ++nextId, method: 'tools/call', params: { ...argumentsOf(user, how), _meta } };
  const headers = { 'mcp-protocol-version': NEWEST.date, 'mcp-method': 'tools/call', 'mcp-name': 'whoami' };
  return post(url, user, message, headers).then(({ body }) => body?.result?.content?.[0]?.text ?? body);
}

async function openSession(url: string, user: User): Promise<(how: string) => Promise<unknown>> {
  const date = LEGACY.at(-1)!.date;
  const params = { protocolVersion: date, capabilities: {}, clientInfo: { name: 'test', version: '1' } };
  const { reply } = await post(url, user, { id: ++nextId, method: 'initialize', params });
  const headers = { 'mcp-session-id': reply.headers.get('mcp-session-id')!, 'mcp-protocol-version': date };
  await post(url, user, { method: 'notifications/initialized' }, headers);
  return async (how) => {
    const message = { id: ++nextId, method: 'tools/call', params: argumentsOf(user, how) };
    const { body } = await post(url, user, message, headers);
    return body?.result?.content?.[0]?.text ?? body;
  };
}

describe.each(['modern', 'legacy'] as const)('a %s server', (era) => {
  test('each of 200 concurrent calls carries the token of its own user', async () => {
    const upstream = await startUpstream(era);
    const { url } = await start(upstream);
    const sessions = await Promise.all(
      USERS.flatMap((user) =>
        Array.from({ length: SESSIONS_EACH }, async () => ({ user, call: await openSession(url, user) })),
      ),
    );
    const hows = ['json', 'stream', 'resumed'];
    const calls = USERS.flatMap((user) => {
      const own = sessions.filter((each) => each.user === user);
      return Array.from({ length: 4 * CALLS_EACH }, async (_, i) => {
        const how = hows[i % hows.length]!;
        const said = await (i % 2 ? modernCall(url, user, how) : own[i % own.length]!.call(how));
        return [said, `${user} ${tokenAtUpstream(user)}`];
      });
    });
    expect(calls).toHaveLength(200);
    for (const [said, wanted] of await Promise.all(calls)) expect(said).toBe(wanted);
    expect(upstream.mixed).toEqual([]);
    expect(upstream.calls).toEqual({ ada: 100, bob: 100 });
    if (era === 'legacy') expect(Math.min(upstream.resumed.ada, upstream.resumed.bob)).toBeGreaterThan(20);
  }, 120_000);
});
