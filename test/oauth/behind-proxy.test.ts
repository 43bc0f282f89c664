import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { selfSigned } from '../support/certificate.js';
import { begin, REDIRECT_URI } from './code-grant.js';
import { allow, PageReader } from './page-reader.js';
import { addUser, type OAuthGateway, PASSWORD, startOAuthGateway } from './stand.js';

const PUBLIC = 'https://gateway.example/parley';
const ADA = { name: 'ada', password: PASSWORD };

let folder: string;
let gateway: OAuthGateway;
/** The server of a client's metadata document. */
let publisher: Server;
let clientId: string;
let document: Record<string, unknown>;
let asked = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-oauth-'));
  const { cert, key } = selfSigned('localhost');
  const ca = join(folder, 'ca.pem');
  await writeFile(ca, cert);
  publisher = createServer({ cert, key }, (_, res) => {
    asked++;
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document));
  });
  await new Promise<void>((resolve) => publisher.listen(0, '127.0.0.1', resolve));
  clientId = `https://localhost:${(publisher.address() as AddressInfo).port}/client.json`;
  gateway = await startOAuthGateway({
    config: { publicUrl: PUBLIC, egress: { allowPrivate: true } },
    env: { NODE_EXTRA_CA_CERTS: ca },
  });
  await addUser(gateway);
}, 120_000);
afterAll(async () => {
  await gateway?.close();
  publisher?.closeAllConnections();
  publisher?.close();
  await rm(folder, { recursive: true, force: true });
});

const newReader = (): PageReader => new PageReader('https://gateway.example', [PUBLIC, gateway.url]);
/** Begins a sign-in at the public URL of the gateway. */
const start = async (client: string, change: Record<string, string> = {}) =>
  begin({ url: PUBLIC }, { resource: `${PUBLIC}/mcp`, ...change }, client);

describe('behind a proxy with https and a path', () => {
  test('documents name the public URL, also at the places for issuers with a path', async () => {
    for (const path of [
      '/.well-known/openid-configuration',
      '/.well-known/oauth-authorization-server',
      '/.well-known/oauth-authorization-server/parley',
      '/.well-known/openid-configuration/parley',
    ]) {
      const found = (await (await fetch(gateway.url + path)).json()) as Record<string, unknown>;
      expect(found).toMatchObject({ issuer: PUBLIC, token_endpoint: `${PUBLIC}/oauth/token` });
    }
  });

  test('S5: every cookie has the prefix __Host- and is sent over https only', async () => {
    document = { client_id: clientId, client_name: 'Published', redirect_uris: [REDIRECT_URI] };
    const reader = newReader();
    const { url } = await start(clientId);
    const back = await allow(reader, url.href, ADA);
    expect(back.searchParams.get('iss')).toBe(PUBLIC);
    expect(back.searchParams.get('code')).not.toBeNull();
    const set = reader.lines.filter((line) => !/expires=Thu, 01 Jan 1970|max-age=0/i.test(line));
    expect(set.length).toBeGreaterThan(3);
    for (const line of set) {
      expect(line).toMatch(/^__Host-parley_/);
      expect(line).toMatch(/; secure/i);
      expect(line).toMatch(/; path=\/(;|$)/i);
      expect(line).toMatch(/; httponly/i);
      expect(line).toMatch(/; samesite=lax/i);
    }
  });
});

describe('S16: client metadata documents', () => {
  test('the consent page shows who publishes the document and where the code goes', async () => {
    const id = `${clientId}?local`;
    document = { client_id: id, client_name: 'Published', redirect_uris: ['http://localhost:7777/cb'] };
    const reader = newReader();
    const { url } = await start(id, { redirect_uri: 'http://localhost:9999/cb' });
    const login = await reader.get(url.href);
    const page = await reader.submit(login.forms.find(({ action }) => action.endsWith('/login'))!, ADA);
    expect(page.text).toContain(new URL(clientId).host);
    expect(page.text).toContain('localhost:9999');
    expect(page.text).toContain('runs on your computer');
  });

  test.each([
    ['names another client', { client_id: 'https://localhost/other' }],
    ['has a secret', { client_secret: 'x' }],
    ['has a redirect to a script', { redirect_uris: ['javascript:alert(1)'] }],
    ['has no redirect', { redirect_uris: undefined }],
    ['is too large', { client_name: 'x'.repeat(100_000) }],
  ])('a document that %s is refused', async (why, change) => {
    const id = `${clientId}?${why.replaceAll(' ', '-')}`;
    document = { client_id: id, client_name: 'Published', redirect_uris: [REDIRECT_URI], ...change };
    const before = asked;
    const page = await newReader().get((await start(id)).url.href);
    expect(page.status).toBe(400);
    expect(asked).toBe(before + 1);
  });
});
