/**
 * S2: without a credential every route and every method of both protocols is refused, except the listed public ones.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { SERVICES } from '../../src/protocol/a2a/proto/services.js';
import { MODERN_METHODS, SESSION_METHODS } from '../../src/protocol/mcp/methods.js';
import { SILENT } from '../../src/telemetry/log.js';
import { BOTH, modernBody, modernHeaders } from '../input/support/speak.js';
import { ask } from '../input/support/wire.js';
import { type CountedUpstream, startCountedAgent, startCountedServer } from '../pipeline/upstreams.js';
import { freePort } from '../support/services.js';
import { type Issuer, startIssuer } from './support.js';

/** The public routes, each with its reason. A new public route belongs here. */
const PUBLIC = [
  // Health checks of orchestrators.
  /^\/health$/,
  /^\/_health\/(live|ready)$/,
  // Agent cards, unless `a2a.publicCards` is false, and the keys of their signatures.
  /^\/\.well-known\/(agent|api-catalog|jwks)/,
  /agent-card|agent\.json|\/card$|AgentCard$|well-known/,
  // The description of the API: the routes of the product, none of the configuration.
  /^\/(docs|docs\/style\.css|openapi\.json)$/,
  // OAuth metadata.
  /^\/\.well-known\/(oauth-|openid-configuration$)/,
  // The authorization server: clients and users get their tokens there, so they come without one.
  /^\/oauth\/(authorize(\/\{uid\})?|token|register|revoke|jwks|callback|style\.css)$/,
  /^\/oauth\/interaction\/\{uid\}(\/(login|elsewhere|consent|switch))?$/,
  // The pages on which users sign in at servers and agents: a sealed link admits the browser.
  /^\/connect\/(\{name\}|agents\/\{name\}|callback|client-metadata\.json|return)$/,
];
/** Routes whose callers are agents with a sealed URL. */
const SEALED = '/a2a/push/{address}';

/** Headers by which other gateways could be deceived about the caller. */
const INTERNAL = {
  'x-forwarded-for': '127.0.0.1',
  'x-forwarded-user': 'admin',
  'x-forwarded-email': 'admin@example.com',
  'x-real-ip': '127.0.0.1',
  'x-original-url': '/health',
  'x-rewrite-url': '/health',
  'x-parley-principal': 'admin',
  'x-parley-caller': 'admin',
  'x-parley-agent': 'helper',
  'x-ssl-client-verify': 'SUCCESS',
  'x-ssl-client-s-dn': 'CN=admin',
  'x-client-cert': 'CN=admin',
  'x-admin-api-key': 'admin',
  'x-api-key': 'admin',
  'mcp-session-id': 'admin',
};

let folder: string;
let upstreams: CountedUpstream[];
let issuer: Issuer;
let gateway: RunningGateway;
let grpcAddress: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-public-'));
  issuer = await startIssuer();
  upstreams = await Promise.all([startCountedServer(), startCountedAgent()]);
  const { config } = configFrom({
    listen: `127.0.0.1:${await freePort()}`,
    grpc: { listen: '127.0.0.1:0' },
    data: join(folder, 'data'),
    egress: { allowPrivate: true },
    servers: { one: { url: upstreams[0]!.url } },
    agents: { helper: { url: upstreams[1]!.url } },
    auth: { keys: true, jwt: [{ issuer: issuer.url }], builtin: { enabled: true } },
  });
  gateway = await startServe(config, { log: SILENT });
  await gateway.settled(10_000);
  grpcAddress = gateway.summary().endpoints.find(({ label }) => label === 'A2A gRPC')!.address;
});
afterAll(async () => {
  await gateway?.close();
  await Promise.all(upstreams.map((upstream) => upstream.close()));
  await issuer.close();
  await rm(folder, { recursive: true, force: true });
});

const SAMPLES: Readonly<Record<string, string>> = { server: 'one', name: 'one', agent: 'helper', card: 'helper' };
const urlOf = (path: string): string =>
  gateway.url + path.replace(/\{(\w+)\}/g, (_, name: string) => SAMPLES[name] ?? `${name}-1`);

describe('S2: without a credential', () => {
  test('the public routes are exactly the listed ones', () => {
    const open = gateway.routes.filter(({ access }) => access === 'public').map(({ path }) => path);
    for (const path of open)
      expect(
        PUBLIC.some((known) => known.test(path)),
        path,
      ).toBe(true);
  });

  test('every other route answers 401, also with internal headers of proxies', async () => {
    for (const { method, path, access } of gateway.routes) {
      if (access === 'public' || path === SEALED) continue;
      for (const headers of [{}, INTERNAL]) {
        const body = method === 'GET' || method === 'DELETE' ? {} : { body: {} };
        const reply = await ask(urlOf(path), { method, headers, ...body });
        expect([method, path, reply.status]).toEqual([method, path, 401]);
      }
    }
    for (const path of ['/unknown', '/mcp/unknown', '/a2a/unknown', '/admin', '/mcp/%6fne', '//mcp'])
      expect([path, (await ask(`${gateway.url}${path}`, { body: {} })).status]).toEqual([path, 401]);
  });

  test('every method of MCP answers 401, in every era', async () => {
    for (const method of MODERN_METHODS) {
      const headers = { ...modernHeaders(method, {}), ...INTERNAL };
      expect([method, (await ask(`${gateway.url}/mcp`, { headers, body: modernBody(method, {}) })).status]).toEqual([
        method,
        401,
      ]);
    }
    for (const method of SESSION_METHODS) {
      const body = { jsonrpc: '2.0', id: 1, method, params: {} };
      for (const path of ['/mcp', '/messages?sessionId=x'])
        expect([method, (await ask(`${gateway.url}${path}`, { headers: { accept: BOTH }, body })).status]).toEqual([
          method,
          401,
        ]);
    }
  });

  test('every method of A2A answers 401, over gRPC too', async () => {
    const asIs = (bytes: Buffer): Buffer => bytes;
    const client = new Client(grpcAddress, credentials.createInsecure());
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(INTERNAL)) metadata.set(name, value);
    for (const { methods } of SERVICES) {
      for (const { path, operation, streams } of methods) {
        const code = await new Promise<number>((resolve) => {
          if (!streams)
            client.makeUnaryRequest(path, asIs, asIs, Buffer.alloc(0), metadata, (error) => resolve(error?.code ?? 0));
          else
            client
              .makeServerStreamRequest(path, asIs, asIs, Buffer.alloc(0), metadata)
              .on('error', (error) => resolve((error as Error & { code: number }).code))
              .resume();
        });
        expect([operation, code]).toEqual([operation, 16]);
        const body = { jsonrpc: '2.0', id: 1, method: operation, params: {} };
        expect((await ask(`${gateway.url}/a2a/helper`, { body })).status).toBe(401);
      }
    }
    client.close();
    expect(upstreams.flatMap(({ contacts }) => contacts)).not.toContain('tools/call');
  });
});

describe('S8: requests of web pages, and under foreign host names', () => {
  test('every route refuses a foreign Origin and a foreign Host, and allows no preflight of a foreign Origin', async () => {
    const foreign: Record<string, string | string[]>[] = [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: ['http://localhost', 'https://evil.example'] },
      { host: 'evil.example:80' },
    ];
    for (const { method, path } of gateway.routes) {
      for (const headers of foreign) {
        const reply = await ask(urlOf(path), { method, headers });
        expect([method, path, headers, reply.status]).toEqual([method, path, headers, 403]);
        expect(reply.headers['access-control-allow-origin']).toBeUndefined();
      }
      const preflight = { origin: 'https://evil.example', 'access-control-request-method': method };
      const reply = await ask(urlOf(path), { method: 'OPTIONS', headers: preflight });
      expect([path, reply.status, reply.headers['access-control-allow-origin']]).toEqual([path, 403, undefined]);
    }
  });
});
