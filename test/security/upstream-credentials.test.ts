/** Credentials of the gateway at a server, over a whole gateway: OAuth grants, API keys, headers that are sent on. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { afterEach, expect, test } from 'vitest';
import { forgetSecrets, listSecrets } from '../../src/app/commands/vault.js';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import type { Config } from '../../src/config/schema.js';
import { NEWEST } from '../../src/protocol/mcp/revisions/index.js';
import { SILENT } from '../../src/telemetry/log.js';
import { sendJson, startLoose } from '../support/counting-server.js';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Issuer {
  readonly url: string;
  /** The forms that the token endpoint received, with the Authorization header. */
  readonly asked: { readonly form: URLSearchParams; readonly authorization: string | undefined }[];
  /** Chooses the answer of the token endpoint. */
  answer(form: URLSearchParams, count: number): { status?: number; body: object };
}

async function startIssuer(answer?: Issuer['answer']): Promise<Issuer> {
  const issuer: { -readonly [K in keyof Issuer]: Issuer[K] } = {
    url: '',
    asked: [],
    answer:
      answer ?? ((_, count) => ({ body: { access_token: `token-${count}`, token_type: 'Bearer', expires_in: 3600 } })),
  };
  const server: Server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      if (req.url === '/.well-known/oauth-authorization-server/tenant') {
        sendJson(res, {
          issuer: issuer.url,
          token_endpoint: issuer.url.replace('/tenant', '/token'),
          token_endpoint_auth_methods_supported: ['client_secret_post', 'private_key_jwt'],
        });
        return;
      }
      if (req.url !== '/token') return void res.writeHead(404).end();
      const form = new URLSearchParams(Buffer.concat(chunks).toString());
      issuer.asked.push({ form, authorization: req.headers.authorization });
      const { status = 200, body } = issuer.answer(form, issuer.asked.length);
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  issuer.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/tenant`;
  return issuer;
}

interface Upstream {
  readonly url: string;
  readonly calls: IncomingHttpHeaders[];
  readonly all: string[];
}

/**
 * A modern server that accepts the requests that `accepts` selects, and records every byte of the heads of its
 * requests.
 */
async function startUpstream(accepts: (headers: IncomingHttpHeaders) => boolean = () => true): Promise<Upstream> {
  const calls: IncomingHttpHeaders[] = [];
  const all: string[] = [];
  const server = await startLoose(({ id, method, params }, res, req) => {
    all.push(JSON.stringify([req.rawHeaders, req.url, method, params]));
    if (method === 'tools/call') calls.push(req.headers);
    if (!accepts(req.headers))
      return void res.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end();
    const result =
      method === 'server/discover'
        ? { supportedVersions: [NEWEST.date], capabilities: { tools: {} } }
        : method === 'tools/list'
          ? { tools: [{ name: 'go', inputSchema: { type: 'object' } }], ttlMs: 60_000, cacheScope: 'private' }
          : { content: [{ type: 'text', text: 'done' }] };
    sendJson(res, { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } });
  });
  closing.push(() => server.close());
  return { url: server.url, calls, all };
}

async function start(server: object, more: object = {}): Promise<RunningGateway & { config: Config }> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-credentials-'));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  const settings = {
    listen: '127.0.0.1:0',
    data: join(folder, 'data'),
    servers: { up: server },
    timeouts: { drain: '1s' },
  };
  const { config } = configFrom({ ...settings, ...more }, { env: {} });
  const gateway = await startServe(config, { log: SILENT });
  closing.push(() => gateway.close());
  return { ...gateway, config };
}

async function call(url: string, headers: Record<string, string> = {}): Promise<{ status: number; text: string }> {
  const prefix = 'io.modelcontextprotocol';
  const _meta = { [`${prefix}/protocolVersion`]: NEWEST.date, [`${prefix}/clientCapabilities`]: {} };
  const reply = await fetch(`${url}/mcp/up`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': NEWEST.date,
      'mcp-method': 'tools/call',
      'mcp-name': 'go',
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'go', arguments: {}, _meta } }),
  });
  return { status: reply.status, text: await reply.text() };
}

const CLIENT = { clientId: 'gate:way', clientSecret: 's3cret&=/+ü', scope: 'read write' };

test('S1-11: client credentials: one token for all calls, found by the metadata of the issuer, kept in the vault', async () => {
  const issuer = await startIssuer();
  const upstream = await startUpstream(({ authorization }) => authorization === 'Bearer token-1');
  const auth = { clientCredentials: { issuer: issuer.url, ...CLIENT, audience: 'aud' } };
  const { url, config } = await start({ url: upstream.url, auth });
  const answers = await Promise.all(Array.from({ length: 50 }, () => call(url)));
  for (const { text } of answers) expect(text).toContain('done');
  expect(issuer.asked).toHaveLength(1);
  expect(Object.fromEntries(issuer.asked[0]!.form)).toEqual({
    grant_type: 'client_credentials',
    client_id: CLIENT.clientId,
    client_secret: CLIENT.clientSecret,
    scope: CLIENT.scope,
    audience: 'aud',
    resource: upstream.url,
  });
  const [row] = await listSecrets(config, {});
  expect(row).toMatchObject({ upstream: 'server:up', state: 'active', ofGateway: true, issuer: issuer.url });
  expect(JSON.stringify(row)).not.toContain('token-1');
});

test('S1-11: a token that the server refuses is renewed once, and the call is sent again', async () => {
  const issuer = await startIssuer();
  let valid = 'token-1';
  const upstream = await startUpstream(({ authorization }) => authorization === `Bearer ${valid}`);
  const auth = { clientCredentials: { tokenUrl: issuer.url.replace('/tenant', '/token'), ...CLIENT } };
  const { url, config } = await start({ url: upstream.url, auth });
  expect((await call(url)).text).toContain('done');
  expect(issuer.asked[0]!.authorization).toMatch(/^Basic /);
  // The gateway does not renew a refused token that was issued a moment ago, so the test makes the stored token older.
  const { openStorage } = await import('../../src/app/storage.js');
  const state = await openStorage(config, SILENT);
  const [row] = await state.vault.list();
  const entry = await state.vault.get<{ accessToken: string; issuedAt: number }>(row!);
  await state.vault.update(row!, entry!.rev, { ...entry!.secret, issuedAt: Date.now() - 60_000 }, { state: 'active' });
  await state.close();
  valid = 'token-2';
  await new Promise((resolve) => setTimeout(resolve, 600));
  const before = upstream.calls.length;
  const answers = await Promise.all(Array.from({ length: 20 }, () => call(url)));
  for (const { text } of answers) expect(text).toContain('done');
  expect(issuer.asked).toHaveLength(2);
  // Each call was sent at most twice.
  expect(upstream.calls.length - before).toBeLessThanOrEqual(40);
});

test('a refusal that a renewal does not end causes no renewal for each further call', async () => {
  const issuer = await startIssuer();
  const upstream = await startUpstream(({ 'mcp-method': method }) => method !== 'tools/call');
  const auth = { clientCredentials: { issuer: issuer.url, ...CLIENT } };
  const { url } = await start({ url: upstream.url, auth });
  for (let n = 0; n < 10; n++) expect((await call(url)).text).toContain('upstream_unauthorized');
  expect(issuer.asked.length).toBeLessThanOrEqual(2);
});

test('an issuer that fails is not contacted for every call; the error gives the reason, without the secret', async () => {
  const body = { error: 'invalid_client', error_description: 'unknown client' };
  const issuer = await startIssuer(() => ({ status: 401, body }));
  const upstream = await startUpstream();
  const auth = { clientCredentials: { issuer: issuer.url, ...CLIENT } };
  const { url, config } = await start({ url: upstream.url, auth, revision: NEWEST.date });
  for (let n = 0; n < 5; n++) {
    const { text } = await call(url);
    expect(text).toContain('invalid_client: unknown client');
    expect(text).not.toContain('s3cret');
  }
  expect(issuer.asked).toHaveLength(1);
  expect(upstream.all).toEqual([]);
  expect(await listSecrets(config, {})).toMatchObject([
    { state: 'failed', reason: expect.stringContaining('invalid_client') },
  ]);
});

test('private_key_jwt: the gateway signs for the issuer, and sends no secret', async () => {
  const issuer = await startIssuer();
  const upstream = await startUpstream();
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const key = { clientId: 'gw', privateKey: pem, keyId: 'k1', algorithm: 'ES256' };
  const { url } = await start({ url: upstream.url, auth: { clientCredentials: { issuer: issuer.url, ...key } } });
  expect((await call(url)).text).toContain('done');
  const { form } = issuer.asked[0]!;
  const assertion = form.get('client_assertion')!;
  expect(decodeJwt(assertion)).toMatchObject({ iss: 'gw', sub: 'gw', aud: issuer.url });
  expect(decodeProtectedHeader(assertion)).toEqual({ alg: 'ES256', kid: 'k1' });
  expect(form.get('client_secret')).toBeNull();
});

const jwt = (user: string): string => `${'h'.repeat(20)}.canary-${user}.${'s'.repeat(20)}`;
const USERS = ['ada', 'bob'];
const CALLERS = {
  auth: {
    tokens: [
      ...USERS.map((name) => ({ name, token: jwt(name) })),
      { name: 'key', token: 'a-static-token-of-30-characters' },
    ],
  },
};

test('S12: token exchange gives each caller its own token; the token of the caller goes to the issuer only', async () => {
  const issuer = await startIssuer((form) => ({
    body: {
      access_token: `for-${form.get('subject_token')?.split('.')[1]?.slice(7)}`,
      token_type: 'Bearer',
      expires_in: 60,
    },
  }));
  const upstream = await startUpstream(({ authorization }) => /^Bearer for-(ada|bob)$/.test(authorization ?? ''));
  const auth = { tokenExchange: { issuer: issuer.url, ...CLIENT } };
  const { url } = await start({ url: upstream.url, auth }, CALLERS);
  const as = (user: string) =>
    call(url, { authorization: `Bearer ${jwt(user)}`, cookie: 'canary=cookie', 'x-any': 'canary' });
  const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => as(USERS[i % 2]!)));
  for (const { text } of answers) expect(text).toContain('done');
  expect(upstream.calls.filter(({ authorization }) => authorization === 'Bearer for-ada')).toHaveLength(20);
  expect(upstream.calls.filter(({ authorization }) => authorization === 'Bearer for-bob')).toHaveLength(20);
  expect(issuer.asked.map(({ form }) => form.get('subject_token')).sort()).toEqual(USERS.map(jwt));
  expect(issuer.asked[0]!.form.get('grant_type')).toBe('urn:ietf:params:oauth:grant-type:token-exchange');
  expect(upstream.all.join()).not.toContain('canary');
  // A static token is a secret of the gateway, which no issuer gets.
  const { text } = await call(url, { authorization: 'Bearer a-static-token-of-30-characters' });
  expect(text).toContain('upstream_unauthorized');
  expect(issuer.asked).toHaveLength(2);
});

test('S3: rules about a tool show the server to those who may use the tool, although only they can read its list', async () => {
  const issuer = await startIssuer(() => ({
    body: { access_token: 'exchanged', token_type: 'Bearer', expires_in: 3_600 },
  }));
  const upstream = await startUpstream(({ authorization }) => authorization === 'Bearer exchanged');
  const rule = { name: 'ada', when: 'caller.subject == "ada" && tool == "go"', effect: 'allow' };
  const { url } = await start(
    { url: upstream.url, revision: NEWEST.date, auth: { tokenExchange: { issuer: issuer.url, ...CLIENT } } },
    { ...CALLERS, policy: { rules: [rule] } },
  );
  const as = (user: string) => call(url, { authorization: `Bearer ${jwt(user)}` });
  expect((await as('ada')).text).toContain('done');
  expect(await as('bob')).toMatchObject({ status: 404, text: expect.stringContaining('Nothing is served') });
  expect(upstream.calls).toHaveLength(1);
});

test('S12: an issuer that returns the token of the caller is refused', async () => {
  const issuer = await startIssuer((form) => ({
    body: { access_token: form.get('subject_token'), token_type: 'Bearer' },
  }));
  const upstream = await startUpstream();
  const { url } = await start(
    { url: upstream.url, auth: { tokenExchange: { issuer: issuer.url, ...CLIENT } } },
    CALLERS,
  );
  expect((await call(url, { authorization: `Bearer ${jwt('ada')}` })).text).toContain('upstream_unauthorized');
  expect(upstream.all.join()).not.toContain('canary');
});

test('S4, S12: only the named headers are sent on, under their new names; each value has its own connections', async () => {
  const upstream = await startUpstream();
  const forwardHeaders = { 'x-tenant': 'X-Customer' };
  const settings = { url: upstream.url, headers: { 'x-fixed': '1' }, auth: { apiKey: 'the-key' }, forwardHeaders };
  const { url } = await start(settings, CALLERS);
  const as = (tenant: string) =>
    call(url, { authorization: `Bearer ${jwt('ada')}`, 'x-tenant': tenant, 'x-other': 'canary', cookie: 'c=canary' });
  await Promise.all(['red', 'blue', 'red', 'blue'].map(as));
  expect(upstream.calls.map((headers) => headers['x-customer']).sort()).toEqual(['blue', 'blue', 'red', 'red']);
  for (const headers of upstream.calls) {
    expect(headers.authorization).toBe('Bearer the-key');
    expect(headers['x-fixed']).toBe('1');
    expect(headers['x-tenant']).toBeUndefined();
  }
  expect(upstream.all.join()).not.toContain('canary');
  // Everything is bounded per caller: each set of values costs connections.
  const many = await Promise.all(Array.from({ length: 80 }, (_, i) => as(`t${i}`)));
  expect(many.filter(({ text }) => text.includes('rate_limited')).length).toBeGreaterThanOrEqual(10);
});

test('a forgotten credential is out of use within a second', async () => {
  const issuer = await startIssuer();
  const upstream = await startUpstream();
  const { url, config } = await start({
    url: upstream.url,
    auth: { clientCredentials: { issuer: issuer.url, ...CLIENT } },
  });
  await call(url);
  expect(await forgetSecrets(config, { upstream: 'up' })).toHaveLength(1);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  await call(url);
  expect(upstream.calls.at(-1)?.authorization).toBe('Bearer token-2');
});
