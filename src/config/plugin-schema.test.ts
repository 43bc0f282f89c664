import { expect, test } from 'vitest';
import { configFrom } from './load.js';
import { ConfigError } from './problem.js';

const servers = { s: { url: 'https://s.example/mcp' } };
const read = (...plugins: object[]) => configFrom({ servers, plugins }, { cwd: '/etc/parley' });
const SECRET = 'x'.repeat(32);

function problemsOf(...plugins: object[]): string[] {
  try {
    read(...plugins);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(({ key, message }) => `${key} ${message}`);
    throw error;
  }
  return [];
}

test('a module is a shipped name, a path from the file, or a package', () => {
  const { plugins } = read({ use: 'redaction' }, { use: './own.mjs' }, { use: '@acme/plugin' }, { use: 'x.js' }).config;
  expect(plugins.map(({ use }) => use)).toEqual([
    'redaction',
    '/etc/parley/own.mjs',
    '@acme/plugin',
    '/etc/parley/x.js',
  ]);
  expect(plugins[0]).toMatchObject({ onFailure: 'closed', timeout: 1_000, blockLimit: 1_000, servers: [], hooks: [] });
});

test('a plugin has a module or an address, and an address has hooks and a secret', () => {
  expect(problemsOf({})).toEqual(['plugins[0] must have either use or url']);
  expect(problemsOf({ use: 'redaction', url: 'https://x.example', hooks: ['onRequest'], secret: SECRET })).toEqual([
    'plugins[0] must have either use or url',
  ]);
  expect(problemsOf({ url: 'https://x.example' })).toEqual([
    'plugins[0].hooks is missing',
    'plugins[0].secret is missing',
  ]);
  const [warning] = read({ url: 'http://x.example', hooks: ['onRequest'], secret: SECRET }).warnings;
  expect(warning?.message).toContain('without encryption');
  expect(read({ url: 'http://127.0.0.1:8', hooks: ['onRequest'], secret: SECRET }).warnings).toEqual([]);
});

test('names are unique, and patterns are checked', () => {
  expect(problemsOf({ use: 'redaction' }, { use: 'redaction' })[0]).toContain('is also the name of plugins[0]');
  expect(problemsOf({ use: 'redaction' }, { use: 'redaction', name: 'second' })).toEqual([]);
  expect(problemsOf({ use: 'redaction', redaction: { patterns: ['(a'] } })[0]).toContain('is not a pattern');
  expect(problemsOf({ use: 'a b' })[0]).toContain('is neither a plugin nor a module');
});

test('the secret is not shown', () => {
  const { shown } = read({ url: 'https://x.example', hooks: ['onRequest'], secret: SECRET });
  expect(JSON.stringify(shown)).not.toContain(SECRET);
});
