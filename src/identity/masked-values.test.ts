import { describe, expect, test } from 'vitest';
import { isSecretMember, maskValues } from './masked-values.js';

const M = '********';

describe('secrets in JSON values', () => {
  test.each([
    [
      { password: 'x', dbPassword: 'y', API_KEY: 1, 'private-key': ['z'] },
      { password: M, dbPassword: M, API_KEY: M, 'private-key': M },
    ],
    [
      { headers: { Authorization: 'Bearer abcdefghijkl', Accept: '*/*' } },
      { headers: { Authorization: M, Accept: '*/*' } },
    ],
    [
      ['sk-abcdefghijklmnop', 'Bearer abcdefghijkl'],
      [M, `Bearer ${M}`],
    ],
    [{ text: 'use ghp_0123456789abcdefABCD now' }, { text: `use ${M} now` }],
    [{ pem: '-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----' }, { pem: M }],
    [{ url: 'https://user:pw@example.com/?token=abc' }, { url: `https://${M}@example.com/?token=${M}` }],
    [{ note: 'key 0123456789abcdef0123456789abcdef' }, { note: `key ${M}` }],
    [{ '0123456789abcdef0123456789abcdef': 1 }, { [M]: 1 }],
    [{ data: Buffer.from('a picture '.repeat(20)).toString('base64') }, { data: M }],
  ])('%j', (value, masked) => {
    expect(maskValues(value).value).toEqual(masked);
    expect(maskValues(value).count).toBeGreaterThan(0);
  });

  test.each([
    [{ city: 'Oslo', days: 3, deep: { list: [true, null, 1.5, ''] } }],
    [{ author: 'Ada', keyword: 'x', sort_key: 'name', tokens: 5, primaryKey: 'id' }],
    [{ id: '123e4567-e89b-12d3-a456-426614174000' }],
    [{ path: '/srv/files/reports/2026/quarter-1/summary-of-sales.txt' }],
    [{ url: 'https://docs.example.com/guides/2026/getting-started/index.html' }],
    [{ text: 'An ordinary sentence of more than thirty-two characters, with 2 numbers.' }],
    [{ password: '', token: null }],
    ['text'],
    [42],
    [null],
  ])('%j stays', (value) => {
    expect(maskValues(value)).toEqual({ value, count: 0 });
  });

  test('a value that is too deep, too large or too long is masked', () => {
    let deep: unknown = 'x';
    for (let level = 0; level < 1_000; level++) deep = [deep];
    expect(JSON.stringify(maskValues(deep).value)).toContain(M);
    expect(maskValues(Array.from({ length: 50_000 }, () => 1)).count).toBeGreaterThan(0);
    expect(maskValues('word '.repeat(20_000)).value).toBe(M);
  });

  test('names of members', () => {
    expect(['accessToken', 'X-Api-Key', 'clientSecret', 'set-cookie', 'PIN_OTP'].every(isSecretMember)).toBe(true);
    expect(['monkey', 'keyboard', 'authors', 'tokenizer', 'session_title'].some(isSecretMember)).toBe(false);
  });
});
