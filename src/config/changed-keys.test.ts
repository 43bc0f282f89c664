import { expect, test } from 'vitest';
import { changedKeys } from './changed-keys.js';
import { configFrom } from './load.js';

const configOf = (value: object) => configFrom(value, { cwd: '/' }).config;

test('no key changed between two readings of the same file', () => {
  const file = { servers: { one: { command: 'x', env: { KEY: 'v' } } }, auth: { tokens: [] as object[] } };
  expect(changedKeys(configOf({ servers: file.servers }), configOf({ servers: file.servers }))).toEqual([]);
});

test('changed, added and removed keys are named by their path, lists as a whole', () => {
  const before = configOf({ servers: { one: { command: 'x' }, two: { command: 'y' } }, hosts: ['a'], log: {} });
  const after = configOf({
    servers: { one: { command: 'z' }, three: { command: 'y' } },
    hosts: ['a', 'b'],
    log: { level: 'debug' },
    publicUrl: 'https://gateway.example.com',
  });
  expect(changedKeys(before, after).sort()).toEqual([
    'hosts',
    'log.level',
    'publicUrl',
    'servers.one.command',
    'servers.three',
    'servers.two',
  ]);
});

test('values that the configuration derives from a key are not keys', () => {
  const before = configOf({ servers: { one: { command: 'x', timeouts: { connect: '1s' } } } });
  const after = configOf({
    servers: { one: { command: 'x', timeouts: { connect: '1s' } } },
    timeouts: { connect: '9s' },
  });
  expect(changedKeys(before, after)).toEqual(['timeouts.connect']);
});
