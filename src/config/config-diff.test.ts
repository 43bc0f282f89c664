import { expect, test } from 'vitest';
import { configDiff, diffLines } from './config-diff.js';
import { configFrom } from './load.js';

const load = (value: object) => configFrom(value, { cwd: '/' });

test('names added, removed and changed keys with their values, and the keys that need a restart', () => {
  const before = load({ servers: { one: { command: 'x' }, two: { url: 'http://127.0.0.1:1/mcp' } } });
  const after = load({ servers: { one: { command: 'z' } }, limits: { pageSize: 7 }, hosts: ['a'] });
  const changes = configDiff(before, after);
  expect(changes).toMatchObject([
    { key: 'servers.one.command', change: 'changed', restart: false, before: 'x', after: 'z' },
    { key: 'servers.two', change: 'removed', restart: false, before: { url: 'http://127.0.0.1:1/mcp' } },
    { key: 'limits.pageSize', change: 'changed', restart: true, before: 1000, after: 7 },
    { key: 'hosts', change: 'added', restart: true, after: ['a'] },
  ]);
  const lines = diffLines(changes).map(({ mark, text }) => `${mark}${text}`);
  expect(lines.slice(0, 3)).toEqual([' servers.one.command', '-  x', '+  z']);
  expect(lines).toContain(' limits.pageSize (takes effect after a restart)');
});

test('the key of a changed secret is named, and its value is never shown', () => {
  const server = (key: string) => load({ servers: { one: { command: 'x', env: { API_KEY: key } } } });
  const changes = configDiff(server('first-secret'), server('second-secret'));
  expect(changes).toMatchObject([{ key: 'servers.one.env.API_KEY', change: 'changed' }]);
  expect(JSON.stringify(changes)).not.toMatch(/first|second/);
  expect(diffLines(changes)).toEqual([{ mark: ' ', text: 'servers.one.env.API_KEY (a secret changed)' }]);
});

test('a changed entry whose name contains a dot is found', () => {
  const tools = (name: string) => load({ servers: { one: { command: 'x', tools: { rename: { 'a.b': name } } } } });
  expect(configDiff(tools('c'), tools('d'))).toMatchObject([{ before: 'c', after: 'd' }]);
});
