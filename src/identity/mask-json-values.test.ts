import { describe, expect, test } from 'vitest';
import { isSecretMember, maskValues } from './mask-json-values.js';

const M = '********';

/** The processor time of the shortest of three runs, in milliseconds. */
function timeOf(text: string): number {
  let shortest = Number.POSITIVE_INFINITY;
  for (let turn = 0; turn < 3; turn++) {
    const before = process.cpuUsage();
    maskValues(text);
    const { user, system } = process.cpuUsage(before);
    shortest = Math.min(shortest, (user + system) / 1_000);
  }
  return shortest;
}

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
    [{ env: [{ name: 'DB_PASSWORD', value: 'x' }] }, { env: [{ name: 'DB_PASSWORD', value: M }] }],
    // Servers repeat structured results as text, so the same secrets appear in text.
    [{ text: '{"user": "ada", "password": "hunter2"}' }, { text: `{"user":"ada","password":"${M}"}` }],
    [{ text: '[{"db":"{\\"dbPassword\\":\\"hunter2\\"}"}]' }, { text: `[{"db":"{\\"dbPassword\\":\\"${M}\\"}"}]` }],
    [{ text: 'Found {"apiKey": "a\\"b c", "id": 5}.' }, { text: `Found {"apiKey": "${M}", "id": 5}.` }],
    [
      { text: String.raw`Found "{\"password\": \"hunter2\", \"id\": 5}".` },
      { text: String.raw`Found "{\"password\": \"${M}\", \"id\": 5}".` },
    ],
    ['user: ada\npassword: hunter2\nid: 5', `user: ada\npassword: ${M}\nid: 5`],
    ["{'client_secret': 'two words', 'id': 5}", `{'client_secret': '${M}', 'id': 5}`],
    ['X-Api-Key: hunter2\nCookie: a=b; c=d\nHost: x', `X-Api-Key: ${M}\nCookie: ${M}\nHost: x`],
    ['<user id="5"><password>hunter2</password></user>', `<user id="5"><password>${M}</password></user>`],
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
    ['The password: it must be long. A token: 5. sort_key: column'],
    ['{ "city": "Oslo", "big": 12345678901234567890 }'],
    ['{ not JSON'],
    [{ name: 'CITY', value: 'Oslo' }],
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

  test.each(['password: "', "password:'\\", 'password:', '<password>', '"\\', '\\\\"', 'x:', '<a ', '{"a":', '[', ' '])(
    'the time for texts of %j is linear in their length',
    (unit) => {
      const text = (length: number): string => `key ${unit.repeat(length / unit.length)}!`;
      timeOf(text(1_000));
      // The longer text is four times as long, for which a quadratic search takes sixteen times as long. Times below 2
      // ms are too short to compare.
      expect(timeOf(text(60_000)) / Math.max(2, timeOf(text(15_000)))).toBeLessThan(9);
    },
  );

  test('names of members', () => {
    expect(['accessToken', 'X-Api-Key', 'clientSecret', 'set-cookie', 'PIN_OTP'].every(isSecretMember)).toBe(true);
    expect(['monkey', 'keyboard', 'authors', 'tokenizer', 'session_title'].some(isSecretMember)).toBe(false);
  });
});
