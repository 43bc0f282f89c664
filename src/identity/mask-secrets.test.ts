import { describe, expect, test } from 'vitest';
import { hideTokens, hiding, MASK, maskArguments, secretsIn } from './mask-secrets.js';

describe('hideTokens', () => {
  test.each([
    ['sk-ant-api03-abcdefghijklmnop', MASK],
    ['using ghp_abcdefghijklmnopqrstuvwxyz012345 now', `using ${MASK} now`],
    ['AKIAIOSFODNN7EXAMPLE', MASK],
    ['token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl!', `token ${MASK}!`],
    ['Authorization: Bearer abcdefgh12345678', `Authorization: Bearer ${MASK}`],
    ['API_KEY=hunter2hunter2 rejected', `API_KEY=${MASK} rejected`],
    ['connect to postgres://ada:pass@db:5432/x failed', `connect to postgres://${MASK}@db:5432/x failed`],
    ['GET https://api.example.com/x?api_key=abc&page=2', `GET https://api.example.com/x?api_key=${MASK}&page=2`],
  ])('%s', (text, shown) => {
    expect(hideTokens(text)).toBe(shown);
  });

  test.each([
    'Error: API_KEY is required',
    'OPENAI_API_KEY: not set',
    "Error: Cannot find module '/srv/files/server.mjs'",
    'npm error 404 Not Found - GET https://registry.npmjs.org/no-such - Not found',
    'ModuleNotFoundError: No module named tokenizers',
  ])('leaves %s', (text) => {
    expect(hideTokens(text)).toBe(text);
  });
});

/** The processor time of the shortest of three runs, in milliseconds. */
function timeOf(text: string): number {
  let shortest = Number.POSITIVE_INFINITY;
  for (let turn = 0; turn < 3; turn++) {
    const before = process.cpuUsage();
    hideTokens(text);
    const { user, system } = process.cpuUsage(before);
    shortest = Math.min(shortest, (user + system) / 1_000);
  }
  return shortest;
}

test.each(['eyJ-', 'eyJaaaaaaaa.', 'sk-', '://', 'token', 'Bearer ', '?a', '1 ', 'a.a.a.a@', 'Zm9v', ' '])(
  'the time for texts of %j is linear in their length',
  (unit) => {
    const text = (length: number): string => `key ${unit.repeat(length / unit.length)}!`;
    timeOf(text(1_000));
    // The longer text is four times as long, for which a quadratic pattern takes sixteen times as long. Times below 2
    // ms are too short to compare.
    expect(timeOf(text(48_000)) / Math.max(2, timeOf(text(12_000)))).toBeLessThan(9);
  },
);

test('environment values are hidden by their name or their form; words and paths are not', () => {
  const env = {
    API_KEY: 'short1',
    PASSWORD: 'correct horse',
    ACCOUNT: 'a1b2c3d4e5f6a7b8c9d0e1f2',
    ROOT: '/srv/files/of/2026/with/a/long/name',
    MODE: 'production',
    PORT: '8080',
  };
  expect(secretsIn(env)).toEqual(['short1', 'correct horse', 'a1b2c3d4e5f6a7b8c9d0e1f2']);
  expect(hiding(secretsIn(env))('mode production, key short1')).toBe(`mode production, key ${MASK}`);
});

test('arguments that follow a flag for a secret are masked', () => {
  expect(maskArguments(['-y', 'x', '--api-key', 'abc', '--token=abc', '--verbose'])).toEqual([
    '-y',
    'x',
    '--api-key',
    MASK,
    `--token=${MASK}`,
    '--verbose',
  ]);
});
