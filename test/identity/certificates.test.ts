/** Callers with client certificates, next to callers with tokens. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, fetch } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { CertificateAuthenticator } from '../../src/identity/certificate-authenticator.js';
import { SILENT } from '../../src/telemetry/log.js';
import { Authority } from '../support/certificate.js';

const TOKEN = 'user-0123456789-Kj8sLq2vXz7mNw4pRt6y';

let folder: string;
let gateway: RunningGateway;
const authority = new Authority();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-certificates-'));
  const server = authority.sign('gateway', '127.0.0.1');
  const files = { cert: server.cert, key: server.key, clientCa: authority.cert };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, `${name}.pem`), text);
  const { config } = configFrom({
    listen: '127.0.0.1:0',
    data: join(folder, 'data'),
    tls: {
      cert: join(folder, 'cert.pem'),
      key: join(folder, 'key.pem'),
      clientCa: join(folder, 'clientCa.pem'),
      clientCertificate: 'optional',
    },
    auth: {
      tokens: [{ name: 'bob', token: TOKEN }],
      certificates: { subject: 'commonName' },
      roles: [{ role: 'admin', callers: ['certificate#root'] }],
    },
  });
  gateway = await startServe(config, { log: SILENT });
});
afterAll(async () => {
  await gateway?.close();
  await rm(folder, { recursive: true, force: true });
});

async function statusFor(own: object, headers: Record<string, string> = {}, path = '/mcp'): Promise<number> {
  const dispatcher = new Agent({ connect: { ca: authority.cert, ...own } });
  try {
    const reply = await fetch(`${gateway.url}${path}`, {
      dispatcher,
      headers: { accept: 'application/json', ...headers },
    });
    return reply.status;
  } finally {
    await dispatcher.destroy();
  }
}

test('a certificate names its caller, and a mapped one is an administrator', async () => {
  expect(await statusFor(authority.sign('ada'))).toBe(200);
  expect(await statusFor({})).toBe(401);
  expect(await statusFor({}, { authorization: `Bearer ${TOKEN}` })).toBe(200);
  expect(await statusFor(authority.sign('ada'), {}, '/servers/x/logs')).toBe(403);
  expect(await statusFor(authority.sign('root'), {}, '/servers/x/logs')).toBe(404);
});

test('a wrong token is refused, even with a valid certificate', async () => {
  expect(await statusFor(authority.sign('ada'), { authorization: 'Bearer wrong-0123456789' })).toBe(401);
});

test.each([
  ['commonName', 'ada'],
  ['subject', 'O=x, CN=ada'],
  ['dns', 'ada.example'],
  ['uri', 'spiffe://example/ada'],
  ['email', undefined],
] as const)('the %s of a certificate', (part, subject) => {
  const certificate = {
    subject: 'O=x\nCN=ada',
    commonName: 'ada',
    names: 'DNS:ada.example, URI:spiffe://example/ada, DNS:"evil, URI:spiffe://example/root"',
    fingerprint: 'f',
  };
  const given = new CertificateAuthenticator(part).authenticate({
    method: 'GET',
    url: '/',
    peer: undefined,
    certificate,
    header: () => undefined,
  });
  expect((given as { subject?: string }).subject).toBe(subject);
});
