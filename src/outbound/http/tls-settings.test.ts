import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer as createHttps } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Authority } from '../../../test/support/certificate.js';
import { ask } from '../../../test/support/raw-http-servers.js';
import { HttpClient, type TlsSettings } from './index.js';

const folder = mkdtempSync(path.join(tmpdir(), 'parley-tls-'));
const authority = new Authority();
const stranger = new Authority();
const ada = authority.sign('ada');
const bob = authority.sign('bob');
let port: number;
const closing: (() => unknown)[] = [];

beforeAll(async () => {
  const certificate = authority.sign('server', 'server.example', '127.0.0.1');
  const server = createHttps({ ...certificate, ca: authority.cert, requestCert: true }, (request, response) => {
    response.setHeader('connection', 'close').end((request.socket as TLSSocket).getPeerCertificate().subject?.CN);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
  closing.push(() => new Promise((resolve) => server.close(resolve)));
});
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  rmSync(folder, { recursive: true });
});

async function asked(tls: TlsSettings, http = new HttpClient({ connectTimeout: 5_000, tls })): Promise<unknown> {
  const ear = ask(http, `https://127.0.0.1:${port}/`);
  await ear.over;
  await http.close();
  return ear.failure ?? ear.body;
}

const file = (name: string, text: string): string => {
  const place = path.join(folder, name);
  writeFileSync(place, text);
  return place;
};

describe('the TLS settings of a server', () => {
  it('trust only a configured authority', async () => {
    expect(await asked({ ca: authority.cert, ...ada })).toBe('ada');
    expect(await asked({ ca: stranger.cert })).toMatchObject({
      sent: false,
      error: { code: expect.stringMatching(/^UNABLE_TO_|SELF_SIGNED/) },
    });
    expect(await asked({})).toMatchObject({
      sent: false,
      error: { code: expect.stringMatching(/^UNABLE_TO_|SELF_SIGNED/) },
    });
  });

  it('may be files or texts', async () => {
    const ca = file('ca.pem', authority.cert);
    const cert = file('cert.pem', ada.cert);
    const key = file('key.pem', ada.key);
    expect(await asked({ ca, cert, key })).toBe('ada');
    expect(await asked({ ca, cert: ada.cert, key })).toBe('ada');
  });

  it('set the required name in the certificate', async () => {
    expect(await asked({ ca: authority.cert, ...ada, serverName: 'server.example' })).toBe('ada');
    expect(await asked({ ca: authority.cert, serverName: 'other.example' })).toMatchObject({
      sent: false,
      error: { code: 'ERR_TLS_CERT_ALTNAME_INVALID' },
    });
  });

  it('follow changed files, and ignore an invalid change', async () => {
    const cert = file('turns.pem', ada.cert);
    const key = file('turns-key.pem', ada.key);
    const http = new HttpClient({ connectTimeout: 5_000, tls: { ca: authority.cert, cert, key } });
    const who = async (): Promise<string> => {
      const ear = ask(http, `https://127.0.0.1:${port}/`);
      await ear.over;
      return ear.body;
    };
    expect(await who()).toBe('ada');
    writeFileSync(cert, bob.cert);
    utimesSync(cert, new Date(), new Date(Date.now() + 1_000));
    // The key file has not changed yet, so it does not match.
    expect(await who()).toBe('ada');
    writeFileSync(key, bob.key);
    utimesSync(key, new Date(), new Date(Date.now() + 1_000));
    expect(await who()).toBe('bob');
    rmSync(key);
    expect(await who()).toBe('bob');
    await http.close();
  });

  it('are reported if they are invalid', async () => {
    const missing = path.join(folder, 'missing.pem');
    expect(await asked({ ca: missing })).toMatchObject({
      sent: false,
      error: { code: 'TLS_SETTINGS', message: expect.stringContaining('missing.pem') },
    });
    expect(await asked({ ca: authority.cert, cert: ada.cert, key: bob.key })).toMatchObject({
      sent: false,
      error: { code: 'TLS_SETTINGS' },
    });
  });
});
