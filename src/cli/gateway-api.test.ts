import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { CliEnvironment } from './command.js';
import { gatewayAddress, listenUrl, requestJson } from './gateway-api.js';

const ADA = { name: 'ada', token: '5b1c8e0f9a7d4c3e5b1c8e0f9a7d4c3e' };
const ROOT = { name: 'root', token: '6c1c8e0f9a7d4c3e5b1c8e0f9a7d4c3e', admin: true };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-address-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The address of the gateway for a command line in a folder with this configuration. */
function address(config: object, flags: Readonly<Record<string, string>> = {}, env: Record<string, string> = {}) {
  writeFileSync(
    path.join(folder, 'parley.json'),
    JSON.stringify({ servers: { x: { command: 'y' } }, data: folder, ...config }),
    { mode: 0o600 },
  );
  const io = { cwd: folder, env, quickstart: '' } as unknown as CliEnvironment;
  return gatewayAddress({ io, commands: [], operands: [], given: () => false, text: (flag) => flags[flag] });
}

describe('without --url', () => {
  test('the URL is the listen address as reached from this machine', () => {
    expect(address({})).toEqual({ url: 'http://127.0.0.1:4600', token: undefined });
    expect(address({ listen: '[::1]:4700' }).url).toBe('http://[::1]:4700');
    const open = { listen: '0.0.0.0:4700', auth: { tokens: [ADA, ROOT] } };
    expect(address(open)).toEqual({ url: 'http://127.0.0.1:4700', token: ROOT.token });
    expect(() => address({ listen: '127.0.0.1:0' })).toThrow('--url');
  });

  test('the URL is https if the gateway has a certificate', () => {
    const listen = { host: '127.0.0.1', port: 4600 };
    expect(listenUrl({ listen, tls: { cert: 'cert.pem' } } as Parameters<typeof listenUrl>[0])).toBe(
      'https://127.0.0.1:4600',
    );
  });

  test('a token without admin is used if there is no other, and a variable comes first', () => {
    const auth = { tokens: [ADA] };
    expect(address({ auth }).token).toBe(ADA.token);
    expect(address({ auth }, {}, { PARLEY_TOKEN: 'mine' }).token).toBe('mine');
    expect(address({ auth }, { 'token-env': 'OTHER' }, { OTHER: 'other', PARLEY_TOKEN: 'mine' }).token).toBe('other');
    expect(() => address({ auth }, { 'token-env': 'OTHER' })).toThrow('OTHER is not set');
  });
});

describe('with --url', () => {
  const auth = { tokens: [ROOT] };
  const tokenAt = (config: object, url: string) => address({ auth, ...config }, { url }).token;

  test('the token of the configuration goes to its own gateway only', () => {
    expect(address({ auth }, { url: 'http://127.0.0.1:4600/' })).toEqual({
      url: 'http://127.0.0.1:4600',
      token: ROOT.token,
    });
    expect(tokenAt({}, 'http://127.0.0.1:4601')).toBeUndefined();
    expect(tokenAt({}, 'https://gateway.example.com')).toBeUndefined();
    expect(tokenAt({ publicUrl: 'https://gateway.example.com' }, 'https://gateway.example.com')).toBe(ROOT.token);
    expect(address({ auth }, { url: 'https://gateway.example.com' }, { PARLEY_TOKEN: 'mine' }).token).toBe('mine');
  });

  test('a port that the system chooses fits every port of the same loopback host', () => {
    const listen = '127.0.0.1:0';
    expect(tokenAt({ listen }, 'http://127.0.0.1:39999')).toBe(ROOT.token);
    expect(tokenAt({ listen }, 'https://127.0.0.1:39999')).toBeUndefined();
    expect(tokenAt({ listen }, 'http://gateway.example.com:39999')).toBeUndefined();
    expect(tokenAt({ listen: '0.0.0.0:0' }, 'http://127.0.0.1:39999')).toBeUndefined();
  });
});

describe('an answer without end', () => {
  test.each([200, 500])('is refused at the limit, also without Content-Length: status %i', async (status) => {
    const part = Buffer.alloc(4 * 2 ** 20, ' ');
    let cut = false;
    const server = createServer((_, response) => {
      response.writeHead(status, { 'Content-Type': 'application/json' });
      const more = (): void => {
        while (!response.destroyed && response.write(part));
      };
      response.on('drain', more).on('close', () => {
        cut = true;
      });
      more();
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const asked = requestJson({ url, token: undefined }, '/status', { timeout: 60_000 });
      await expect(asked).rejects.toThrow('too large (more than 64 MiB)');
      await vi.waitFor(() => expect(cut).toBe(true));
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});
