/** S26: administrative routes are for administrators, and a page in a browser cannot use them. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';

const USER = 'user-0123456789abcdef0123456789abcdef';
const ADMIN = 'admin-k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH';
const SECRET = 'credential-of-the-server-5d1f';

let folder: string;
let gateway: RunningGateway;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-admin-'));
  const { config } = configFrom(
    {
      listen: '127.0.0.1:0',
      data: join(folder, 'data'),
      servers: { closed: { url: 'http://127.0.0.1:9/mcp', headers: { Authorization: `Bearer ${SECRET}` } } },
      auth: {
        tokens: [
          { name: 'ada', token: USER },
          { name: 'root', token: ADMIN, admin: true },
        ],
      },
    },
    { env: {} },
  );
  gateway = await startServe(config, { log: SILENT });
});
afterAll(async () => {
  await gateway.close();
  await rm(folder, { recursive: true, force: true });
});

const routes = () =>
  gateway.routes
    .filter(({ access }) => access === 'admin')
    .map(({ method, path }) => ({ method, url: gateway.url + path.replace(/\{\w+\}/g, 'closed') }));
const asked = async (method: string, url: string, headers: Record<string, string>): Promise<Response> => {
  const reply = await fetch(url, { method, headers, ...(method === 'POST' && { body: 'a=1' }), redirect: 'manual' });
  return new Response(await textOf(reply), reply);
};

/** The whole text, or the first part of a stream, which has no end. */
async function textOf(reply: Response): Promise<string> {
  if (!reply.headers.get('content-type')?.startsWith('text/event-stream')) return reply.text();
  const reader = reply.body!.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return Buffer.from(value ?? []).toString();
}

describe('S26: every administrative route', () => {
  test('is refused to others: 401 without a token, 403 with the token of a user', async () => {
    expect(routes().length).toBeGreaterThan(0);
    for (const { method, url } of routes()) {
      expect((await asked(method, url, {})).status, url).toBe(401);
      expect((await asked(method, url, { authorization: `Bearer ${USER}` })).status, url).toBe(403);
      expect((await asked(method, url, { cookie: `token=${ADMIN}` })).status, url).toBe(401);
    }
  });

  test('is refused to a form of another site, even with the token of an administrator', async () => {
    for (const { method, url } of [...routes(), { method: 'POST', url: `${gateway.url}/mcp` }]) {
      const form = { 'content-type': 'application/x-www-form-urlencoded', origin: 'https://evil.example' };
      expect((await asked(method, url, form)).status, url).toBe(403);
      expect((await asked(method, url, { ...form, authorization: `Bearer ${ADMIN}` })).status, url).toBe(403);
      expect((await asked(method, url, { ...form, origin: 'null' })).status, url).toBe(403);
    }
  });

  test('returns no secret to an administrator', async () => {
    for (const path of ['/', '/health', ...routes().map(({ url }) => url.slice(gateway.url.length))]) {
      const reply = await asked('GET', gateway.url + path, { authorization: `Bearer ${ADMIN}`, accept: 'text/html' });
      const text = await reply.text();
      for (const secret of [SECRET, ADMIN, USER]) expect(text, path).not.toContain(secret);
    }
  });
});

test('S26: the page has a policy without inline scripts', async () => {
  const reply = await asked('GET', `${gateway.url}/`, { authorization: `Bearer ${ADMIN}`, accept: 'text/html' });
  expect(reply.headers.get('content-type')).toContain('text/html');
  const policy = reply.headers.get('content-security-policy') ?? '';
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toMatch(/script-src|unsafe-eval|'unsafe-inline'/);
});
