import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { principalOf } from '../core/caller.js';
import type { StoredApiKey } from '../state/index.js';
import { SILENT } from '../telemetry/log.js';
import { apiKeyDigest, apiKeyId, isApiKey, newApiKey } from './api-key.js';
import { ApiKeyAuthenticator, type ApiKeyRecords } from './api-key-authenticator.js';
import { type AuthenticationRequest, Challenge } from './authenticator.js';
import { RestrictionAdmission } from './restrictions.js';

const request = (token: string): AuthenticationRequest => ({
  method: 'POST',
  url: '/mcp',
  peer: '127.0.0.1',
  certificate: undefined,
  header: () => `Bearer ${token}`,
});

describe('S17: the form of API keys', () => {
  test('each key has a prefix, 256 random bits and a checksum', () => {
    const all = new Set(Array.from({ length: 1_000 }, newApiKey));
    expect(all.size).toBe(1_000);
    for (const key of all) expect([key.length, isApiKey(key), key.startsWith('parley_')]).toEqual([56, true, true]);
  });

  test('a changed character breaks the checksum', () => {
    const key = newApiKey();
    for (let at = 7; at < key.length; at++) {
      const changed = key.slice(0, at) + (key[at] === 'a' ? 'b' : 'a') + key.slice(at + 1);
      expect(isApiKey(changed)).toBe(false);
    }
  });
});

describe('S17: the authenticator', () => {
  const keys = [1, 2].map((n) => ({ id: `k${n}`, key: randomBytes(32) }));
  const keyring = { active: keys[0]!, find: (id: string) => keys.find((key) => key.id === id)?.key };
  const key = newApiKey();
  const stored = (keyedBy = keys[0]!): StoredApiKey => ({
    id: apiKeyId(key),
    name: 'ci',
    tenant: undefined,
    roles: ['r'],
    servers: [],
    tools: [],
    digest: apiKeyDigest(key, keyedBy.key).toString('base64url'),
    keyedBy: keyedBy.id,
    createdAt: 0,
    expiresAt: 1_000,
    lastUsedAt: undefined,
    revokedAt: undefined,
  });
  const made = (row: StoredApiKey | undefined, changed: Partial<ApiKeyRecords> = {}) => {
    const log: string[] = [];
    let now = 0;
    const records: ApiKeyRecords = {
      version: async () => 1,
      find: async (id) => {
        log.push('find');
        return id === row?.id ? row : undefined;
      },
      used: async () => void log.push('used'),
      rekey: async (_, digest, by) => void log.push(`rekey ${by} ${digest}`),
      ...changed,
    };
    const authenticator = new ApiKeyAuthenticator({ records, keyring, log: SILENT, now: () => now });
    return { authenticator, log, at: (time: number) => (now = time) };
  };

  test('finds a key once, then answers without a promise, until it expires', async () => {
    const { authenticator, log, at } = made(stored());
    expect(await authenticator.authenticate(request(key))).toMatchObject({ key: 'ci', roles: ['r'] });
    expect(authenticator.authenticate(request(key))).toMatchObject({ credential: { kind: 'key', id: apiKeyId(key) } });
    expect(log.filter((each) => each === 'find')).toHaveLength(1);
    at(1_000);
    expect(authenticator.authenticate(request(key))).toMatchObject({ message: expect.stringContaining('expired') });
  });

  test('a row with the digest of another key opens nothing', async () => {
    const foreign = { ...stored(), digest: apiKeyDigest(newApiKey(), keys[0]!.key).toString('base64url') };
    expect(await made(foreign).authenticator.authenticate(request(key))).toBeInstanceOf(Challenge);
    const { authenticator, log } = made(undefined);
    for (let i = 0; i < 3; i++) expect(await authenticator.authenticate(request(key))).toBeInstanceOf(Challenge);
    expect(log).toEqual(['find']);
  });

  test('a digest that was made with an older key of the keyring is replaced', async () => {
    const { authenticator, log } = made(stored(keys[1]));
    expect(await authenticator.authenticate(request(key))).toMatchObject({ key: 'ci' });
    expect(log).toContain(`rekey k1 ${stored().digest}`);
  });

  test('without the database the caller is asked to try again later', async () => {
    const down = made(stored(), { version: () => Promise.reject(new Error('down')) }).authenticator;
    await expect(down.authenticate(request(key))).rejects.toMatchObject({ reason: 'overloaded' });
  });
});

test('a scope of tools compares server and tool separately', () => {
  const admission = new RestrictionAdmission();
  const caller = { principal: principalOf({ subject: 'x', restriction: { servers: [], tools: ['weather__get*'] } }) };
  const sees = (server: string, name: string) => admission.sees(caller as never, { server, kind: 'tool', name });
  expect(sees('weather', 'get_forecast')).toBe(true);
  expect(sees('weather', 'delete')).toBe(false);
  expect(sees('evil', 'weather__get')).toBe(false);
  expect(sees('weather-evil', 'get')).toBe(false);
});
