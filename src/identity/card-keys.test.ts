import { createLocalJWKSet, flattenedVerify, jwtVerify } from 'jose';
import { describe, expect, test } from 'vitest';
import { type CardKeyRecord, type CardKeyStore, CardKeys, type KeySealer } from './card-keys.js';

/** Stores one record like the registry: each write has a revision and names the revision that it replaces. */
class Store implements CardKeyStore {
  text: string | undefined;
  rev = 0;

  async load() {
    return this.text === undefined ? undefined : { record: JSON.parse(this.text) as CardKeyRecord, rev: this.rev };
  }

  async save(record: CardKeyRecord, rev: number) {
    if (rev !== this.rev) return false;
    this.text = JSON.stringify(record);
    this.rev++;
    return true;
  }
}

const sealerWith = (secret: string): KeySealer => ({
  close: (value) => `${secret}:${Buffer.from(JSON.stringify(value)).toString('base64').split('').reverse().join('')}`,
  open: (sealed) => {
    if (!sealed.startsWith(`${secret}:`)) throw new Error('sealed with another secret');
    const text = sealed
      .slice(secret.length + 1)
      .split('')
      .reverse()
      .join('');
    return JSON.parse(Buffer.from(text, 'base64').toString()) as unknown;
  },
});

const sealer = sealerWith('one');
const payload = '{"name":"x"}';

async function verify(keys: CardKeys, signature: { protected: string; signature: string }): Promise<string> {
  const jws = { ...signature, payload: Buffer.from(payload).toString('base64url') };
  const { protectedHeader } = await flattenedVerify(jws, createLocalJWKSet(await keys.jwks()));
  return protectedHeader?.kid ?? '';
}

describe('the signing keys of cards (S-6, G-13)', () => {
  test('a signature names its algorithm, key, type and key URL', async () => {
    const keys = new CardKeys({ store: new Store(), sealer });
    const signature = await keys.sign(payload, 'https://gw.example.com/.well-known/jwks.json');
    const header = JSON.parse(Buffer.from(signature.protected, 'base64url').toString()) as unknown;
    expect(header).toEqual({
      alg: 'ES256',
      kid: await keys.kid(),
      typ: 'JOSE',
      jku: 'https://gw.example.com/.well-known/jwks.json',
    });
    expect(await verify(keys, signature)).toBe(await keys.kid());
  });

  test('replicas that start at the same time share one key', async () => {
    const store = new Store();
    const replicas = [1, 2, 3].map(() => new CardKeys({ store, sealer }));
    const kids = await Promise.all(replicas.map((keys) => keys.kid()));
    expect(new Set(kids).size).toBe(1);
    expect(await verify(replicas[1]!, await replicas[0]!.sign(payload))).toBe(kids[0]);
  });

  test('the key survives a restart, and the store contains no readable private key', async () => {
    const store = new Store();
    const kid = await new CardKeys({ store, sealer }).kid();
    expect(await new CardKeys({ store, sealer }).kid()).toBe(kid);
    expect(store.text).not.toContain('"d"');
    expect(JSON.stringify(await new CardKeys({ store, sealer }).jwks())).not.toContain('"d"');
  });

  test('after a rotation the new key signs, and old signatures stay verifiable for a limited time', async () => {
    let now = 1_000_000;
    const store = new Store();
    const options = { store, sealer, keep: 10_000, fresh: 100, now: () => now };
    const keys = new CardKeys(options);
    const other = new CardKeys(options);
    const old = await other.sign(payload);
    const before = await keys.kid();
    const after = await keys.rotate();
    expect(after).not.toBe(before);
    expect(await keys.kid()).toBe(after);
    now += 200;
    expect(await other.kid()).toBe(after);
    expect(await verify(other, old)).toBe(before);
    expect((await keys.jwks()).keys.map(({ kid }) => kid)).toEqual([after, before]);
    now += 10_000;
    expect((await keys.jwks()).keys.map(({ kid }) => kid)).toEqual([after]);
    expect(store.text!.match(/"sealed"/g)).toHaveLength(1);
  });

  test('a key that can no longer be opened is replaced and stays published', async () => {
    const store = new Store();
    const lost = await new CardKeys({ store, sealer }).kid();
    const keys = new CardKeys({ store, sealer: sealerWith('two') });
    expect(await keys.kid()).not.toBe(lost);
    expect((await keys.jwks()).keys.map(({ kid }) => kid)).toContain(lost);
  });

  test('while the store is unavailable, the known key keeps signing', async () => {
    let now = 0;
    const store = new Store();
    const keys = new CardKeys({ store, sealer, fresh: 10, now: () => now });
    const kid = await keys.kid();
    store.load = () => Promise.reject(new Error('away'));
    now += 100;
    expect(await keys.kid()).toBe(kid);
    await expect(new CardKeys({ store, sealer }).kid()).rejects.toThrow('away');
  });

  test('JWTs expire, and the published keys verify them', async () => {
    const keys = new CardKeys({ store: new Store(), sealer });
    const token = await keys.signJwt({ iss: 'parley', aud: 'https://hook.example.com', jti: '1' }, 60);
    const { payload: claims, protectedHeader } = await jwtVerify(token, createLocalJWKSet(await keys.jwks()), {
      audience: 'https://hook.example.com',
    });
    expect(claims.exp! - claims.iat!).toBe(60);
    expect(protectedHeader.kid).toBe(await keys.kid());
  });
});
