import { createHmac } from 'node:crypto';
import { exportJWK, exportSPKI, generateKeyPair, type JSONWebKeySet, SignJWT } from 'jose';
import { beforeAll, describe, expect, test } from 'vitest';
import { ProtocolError } from '../protocol/errors.js';
import { type AuthenticationRequest, Challenge } from './authenticator.js';
import { FailedAttempts, LimitedAuthenticator } from './failed-attempts.js';
import { JwtAuthenticator, type JwtAuthenticatorOptions } from './jwt-authenticator.js';
import { type KeyResolver, localKeys, RemoteKeys } from './key-sets.js';
import { ProtectedResources } from './protected-resource.js';

const ISSUER = 'https://idp.example';
const BASE = 'https://gateway.example';

const request = (token: string | undefined, url = '/mcp'): AuthenticationRequest => ({
  method: 'POST',
  url,
  peer: '127.0.0.1',
  certificate: undefined,
  header: (name) => (name === 'authorization' && token !== undefined ? `Bearer ${token}` : undefined),
});

const resources = new ProtectedResources({
  bases: () => [BASE],
  authorizationServers: [ISSUER],
  requiredScopes: [],
  supportedScopes: [],
  reservedAgents: new Set(['tasks']),
});

type Keys = Awaited<ReturnType<typeof generateKeyPair>>;
let good: Keys;
let other: Keys;
let set: JSONWebKeySet;

beforeAll(async () => {
  good = await generateKeyPair('RS256', { extractable: true });
  other = await generateKeyPair('RS256', { extractable: true });
  set = { keys: [{ ...(await exportJWK(good.publicKey)), kid: 'one', alg: 'RS256', use: 'sig' }] };
});

const authenticator = (changed: Partial<JwtAuthenticatorOptions> = {}): JwtAuthenticator =>
  new JwtAuthenticator({
    issuer: ISSUER,
    accepts: (audience, given) => resources.covers(audience, given),
    algorithms: ['RS256', 'ES256'],
    keys: localKeys(() => set),
    claims: { subject: 'sub', roles: 'realm_access.roles', groups: 'groups' },
    ...changed,
  });

function countedKeys(): { readonly keys: KeyResolver; asked(): number } {
  const local = localKeys(() => set);
  let count = 0;
  return {
    keys: (query) => {
      count++;
      return local(query);
    },
    asked: () => count,
  };
}

interface TokenOptions {
  readonly claims?: Record<string, unknown>;
  readonly header?: Record<string, unknown>;
  readonly key?: Keys['privateKey'];
  readonly aud?: string | string[];
  readonly exp?: number;
}

const seconds = (): number => Math.floor(Date.now() / 1_000);

function token({ claims = {}, header = {}, key = good.privateKey, aud = `${BASE}/mcp`, exp }: TokenOptions = {}) {
  return new SignJWT({ iss: ISSUER, sub: 'ada', ...claims })
    .setProtectedHeader({ alg: 'RS256', kid: 'one', typ: 'at+jwt', ...header })
    .setAudience(aud)
    .setExpirationTime(exp ?? seconds() + 300)
    .sign(key);
}

const refusal = async (given: unknown): Promise<string> => {
  const known = await given;
  expect(known).toBeInstanceOf(Challenge);
  return (known as Challenge).message;
};

describe('S13: a valid token', () => {
  test('identifies its caller, with the mapped claims', async () => {
    const claims = { realm_access: { roles: ['admin', 7] }, groups: ['ops'], scope: 'read write' };
    expect(await authenticator().authenticate(request(await token({ claims })))).toMatchObject({
      key: `${ISSUER}#ada`,
      issuer: ISSUER,
      roles: ['admin', '7'],
      groups: ['ops'],
      scopes: ['read', 'write'],
      claims: { sub: 'ada' },
    });
  });

  test('is verified once: the next request needs no promise and no key', async () => {
    const { keys, asked } = countedKeys();
    const jwt = authenticator({ keys });
    const text = await token();
    await Promise.all([1, 2, 3].map(() => jwt.authenticate(request(text))));
    expect(jwt.authenticate(request(text))).toMatchObject({ subject: 'ada' });
    expect(asked()).toBe(1);
  });

  test('is verified again after a minute, and never used after its expiry', async () => {
    let now = Date.now();
    const { keys, asked } = countedKeys();
    const jwt = authenticator({ now: () => now, keys });
    const text = await token({ exp: seconds() + 90 });
    await jwt.authenticate(request(text));
    now += 61_000;
    expect(await jwt.authenticate(request(text))).toMatchObject({ subject: 'ada' });
    expect(asked()).toBe(2);
    now += 90_000;
    expect(await refusal(jwt.authenticate(request(text)))).toContain('expired');
  });

  test('is accepted at an address where many tokens have expired, but not where many were forged', async () => {
    const limits = { perAddress: 5, perAccount: 5, window: 60_000 };
    const revoked = await token({ claims: { jti: 'revoked' } });
    const jwt = authenticator({ revoked: ({ jti }) => jti === 'revoked' });
    const limited = new LimitedAuthenticator(jwt, new FailedAttempts(limits));
    for (const old of [await token({ exp: seconds() - 100 }), await token({ aud: 'https://other.example' }), revoked])
      for (let i = 0; i < 10; i++) await refusal(limited.authenticate(request(old)));
    expect(await limited.authenticate(request(await token()))).toMatchObject({ subject: 'ada' });
    const forged = await token({ key: other.privateKey });
    for (let i = 0; i < 5; i++) await refusal(limited.authenticate(request(forged)));
    const fresh = await token({ exp: seconds() + 200 });
    expect(() => limited.authenticate(request(fresh))).toThrow('Too many failed');
  });

  test('keeps tenants apart in the key of the principal', async () => {
    const jwt = authenticator({ claims: { subject: 'sub', tenant: 'tid' } });
    const one = await jwt.authenticate(request(await token({ claims: { tid: 'a' } })));
    const two = await jwt.authenticate(request(await token({ claims: { tid: 'b' } })));
    expect((one as { key: string }).key).not.toBe((two as { key: string }).key);
    expect(await refusal(jwt.authenticate(request(await token())))).toContain('"tid"');
  });
});

describe('S13 S1-03 S3-16: refused', () => {
  test.each<[string, () => Promise<string>]>([
    ['another audience', () => token({ aud: 'https://other.example/mcp' })],
    ['another resource of the same issuer', () => token({ aud: `${BASE}/mcp/weather` })],
    ['a URL that only begins like ours', () => token({ aud: `${BASE}.evil.example/mcp` })],
    ['expired', () => token({ exp: seconds() - 61 })],
    ['not yet valid', () => token({ claims: { nbf: seconds() + 120 } })],
    ['another key', () => token({ key: other.privateKey })],
    ['unknown kid', () => token({ header: { kid: 'two' }, key: other.privateKey })],
    ['type of an ID token', () => token({ header: { typ: 'logout+jwt' } })],
    ['without subject', () => token({ claims: { sub: undefined } })],
    [
      'a key in the header',
      async () => token({ key: other.privateKey, header: { jwk: await exportJWK(other.publicKey), kid: undefined } }),
    ],
    [
      'keys at a URL in the header',
      async () => token({ key: other.privateKey, header: { jku: 'https://evil.example/keys', kid: 'evil' } }),
    ],
  ])('%s', async (_, make) => {
    const given = await authenticator().authenticate(request(await make()));
    expect(given).toBeInstanceOf(Challenge);
    expect((given as Challenge).bearer.error).toBe('invalid_token');
  });

  const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = () => encode({ iss: ISSUER, sub: 'ada', aud: `${BASE}/mcp`, exp: seconds() + 60 });

  test('algorithm none', async () => {
    const forged = `${encode({ alg: 'none', kid: 'one' })}.${claims()}.${encode('')}`;
    expect(await refusal(authenticator().authenticate(request(forged)))).toContain('algorithm');
  });

  test('HS256 with the public key as secret', async () => {
    const pem = await exportSPKI(good.publicKey);
    const text = `${encode({ alg: 'HS256', kid: 'one' })}.${claims()}`;
    const forged = `${text}.${createHmac('sha256', pem).update(text).digest('base64url')}`;
    expect(await refusal(authenticator().authenticate(request(forged)))).toContain('algorithm');
  });

  test('a token without an expiry, or without an audience', async () => {
    const jwt = authenticator();
    const sign = (payload: Record<string, unknown>) =>
      new SignJWT({ iss: ISSUER, sub: 'ada', ...payload })
        .setProtectedHeader({ alg: 'RS256', kid: 'one' })
        .sign(good.privateKey);
    expect(await refusal(jwt.authenticate(request(await sign({ aud: `${BASE}/mcp` }))))).toContain('"exp"');
    expect(await refusal(jwt.authenticate(request(await sign({ exp: seconds() + 60 }))))).toContain('"aud"');
  });

  test('a token of another issuer is left to other authenticators', async () => {
    const given = authenticator().authenticate(request(await token({ claims: { iss: 'https://elsewhere.example' } })));
    expect(given).toBeInstanceOf(Challenge);
    expect((given as Challenge).bearer).toEqual({});
  });

  test('a cached token at an endpoint that it is not for', async () => {
    const jwt = authenticator();
    const text = await token({ aud: `${BASE}/mcp/weather` });
    expect(await jwt.authenticate(request(text, '/mcp/weather'))).toMatchObject({ subject: 'ada' });
    expect(await refusal(jwt.authenticate(request(text, '/mcp')))).toContain('another resource');
  });

  test('a cached token once the token is revoked', async () => {
    const revoked = new Set<unknown>();
    const jwt = authenticator({ revoked: ({ jti }) => revoked.has(jti) });
    const text = await token({ claims: { jti: 'x' } });
    expect(await jwt.authenticate(request(text))).toMatchObject({ credential: { kind: 'jwt', id: 'x' } });
    revoked.add('x');
    expect(await refusal(jwt.authenticate(request(text)))).toContain('revoked');
  });

  test('a text of any form that is not a token', async () => {
    const jwt = authenticator();
    for (const text of ['', 'a', 'a.b', 'a.b.c', '..', `${'a'.repeat(20_000)}.b.c`, `${encode(5)}.${encode(null)}.x`])
      expect(await jwt.authenticate(request(text))).toBeInstanceOf(Challenge);
  });
});

test('S14: a token with too few scopes is known but may not call', async () => {
  const jwt = authenticator({ requiredScopes: ['mcp:use'], scopes: { includes: { all: ['mcp:use'] } } });
  const refused = await jwt.authenticate(request(await token({ claims: { scope: 'other' } })));
  expect(refused).toMatchObject({ reason: 'forbidden', bearer: { error: 'insufficient_scope', scopes: ['mcp:use'] } });
  for (const scope of ['mcp:use', 'all', 'mcp:*'])
    expect(await jwt.authenticate(request(await token({ claims: { scope } })))).toMatchObject({ subject: 'ada' });
});

describe('S13: the keys of another issuer', () => {
  test('a flood of unknown keys causes one fetch in 30 seconds', async () => {
    let fetched = 0;
    let now = 0;
    const fetch = async (): Promise<JSONWebKeySet> => {
      fetched++;
      return set;
    };
    const remote = new RemoteKeys({ now: () => now, fetch });
    const jwt = authenticator({ keys: remote.resolve });
    expect(await jwt.authenticate(request(await token()))).toMatchObject({ subject: 'ada' });
    expect(fetched).toBe(1);
    now += 30_000;
    const flood = Array.from({ length: 20 }, (_, i) => token({ header: { kid: `k${i}` }, key: other.privateKey }));
    for (const each of flood) await refusal(jwt.authenticate(request(await each)));
    expect(fetched).toBe(2);
  });

  test('a rotated key is found', async () => {
    let now = 0;
    let current = set;
    const remote = new RemoteKeys({ now: () => now, fetch: async () => current });
    const jwt = authenticator({ keys: remote.resolve });
    await jwt.authenticate(request(await token()));
    current = { keys: [...set.keys, { ...(await exportJWK(other.publicKey)), kid: 'two', alg: 'RS256' }] };
    now += 31_000;
    const text = await token({ header: { kid: 'two' }, key: other.privateKey });
    expect(await jwt.authenticate(request(text))).toMatchObject({ subject: 'ada' });
  });

  test('without keys the caller is asked to try again later, and not told that its token is invalid', async () => {
    const failures: unknown[] = [];
    const fetch = async (): Promise<JSONWebKeySet> => {
      throw new Error('no route');
    };
    const jwt = authenticator({ keys: new RemoteKeys({ fetch, failed: (error) => failures.push(error) }).resolve });
    const asked = jwt.authenticate(request(await token()));
    await expect(asked).rejects.toBeInstanceOf(ProtocolError);
    await expect(asked).rejects.toMatchObject({ reason: 'overloaded' });
    expect(failures).toHaveLength(1);
  });

  test('old keys stay in use while the issuer does not answer, for a day', async () => {
    let now = 0;
    let up = true;
    const fetch = async (): Promise<JSONWebKeySet> => {
      if (!up) throw new Error('no route');
      return set;
    };
    const remote = new RemoteKeys({ now: () => now, fetch });
    const query = { alg: 'RS256', kid: 'one' };
    expect(await remote.resolve(query)).toHaveLength(1);
    up = false;
    now += 60 * 60_000;
    expect(await remote.resolve(query)).toHaveLength(1);
    now += 24 * 60 * 60_000;
    await expect(remote.resolve(query)).rejects.toThrow('cannot be fetched');
  });
});
