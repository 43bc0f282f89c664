import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { NAME_LIMIT, Naming, OWN_NAMES, spellingsOf } from './names.js';

const naming = (separator: string, prefix: 'always' | 'conflict' | 'never' = 'always') =>
  new Naming({ separator, prefix });
const NAMES = naming('__');

/** Valid server names in the configuration. */
const server = fc.stringMatching(/^[a-z0-9_-]{0,19}[a-z0-9-]$/).filter((name) => !name.includes('__'));
const tool = fc.stringMatching(/^[A-Za-z0-9_.-]{1,40}$/);

describe('a prefixed name', () => {
  it('is split into the same server and tool, for every tool name', () => {
    fc.assert(
      fc.property(server, tool, (name, own) => {
        fc.pre(`${name}__${own}`.length <= NAME_LIMIT);
        expect(NAMES.split(NAMES.prefixed(name, own), new Set([name]))).toEqual({ server: name, own });
      }),
    );
  });

  it('stands for one tool of one server, for every set of other servers', () => {
    fc.assert(
      fc.property(server, server, tool, (name, other, own) => {
        fc.pre(`${name}__${own}`.length <= NAME_LIMIT);
        expect(NAMES.split(NAMES.prefixed(name, own), new Set([other, name]))).toEqual({ server: name, own });
      }),
    );
    const servers = new Set(['a', 'a_b', '_a', 'my_server']);
    expect(NAMES.split('a_b__c', servers)).toEqual({ server: 'a_b', own: 'c' });
    expect(NAMES.split('a___b', servers)).toEqual({ server: 'a', own: '_b' });
    expect(NAMES.split('_a__b', servers)).toEqual({ server: '_a', own: 'b' });
    expect(NAMES.split('my_server__read_file', servers)).toEqual({ server: 'my_server', own: 'read_file' });
  });

  it('stays within the length limit, and is shortened to the same result only for the same name', () => {
    const long = 'x'.repeat(100);
    const name = NAMES.prefixed('files', `${long}1`);
    expect(name).toHaveLength(NAME_LIMIT);
    expect(NAMES.mayBeShortened(name)).toBe(true);
    expect(NAMES.prefixed('files', `${long}1`)).toBe(name);
    expect(NAMES.prefixed('files', `${long}2`)).not.toBe(name);
    expect(NAMES.split(name, new Set(['files']))?.server).toBe('files');
  });
});

describe('splitting a name', () => {
  const servers = new Set(['files', 'my-files', 'weather']);

  it.each([
    ['files__read', '__', 'files', 'read'],
    ['Files__Read', '__', 'files', 'Read'],
    ['files.read', '__', 'files', 'read'],
    ['files__a__b', '__', 'files', 'a__b'],
    ['my-files-read', '-', 'my-files', 'read'],
    ['weather.now', '.', 'weather', 'now'],
  ])('splits %s', (name, separator, expected, own) => {
    expect(naming(separator).split(name, servers)).toEqual({ server: expected, own });
  });

  it('costs a bounded number of lookups for any number of dashes', () => {
    let lookups = 0;
    const has = (): boolean => {
      lookups += 1;
      return false;
    };
    naming('-').split('b-'.repeat(10_000), { has });
    expect(lookups).toBeLessThan(200);
    expect(naming('-').split(`my-files-${'b-'.repeat(10_000)}`, servers)?.server).toBe('my-files');
  });

  it('finds no server that does not exist', () => {
    expect(NAMES.split('other__read', servers)).toBeUndefined();
    expect(NAMES.split('read', servers)).toBeUndefined();
  });
});

describe('the exposed name of an item', () => {
  const clashes = new Set(['read']);
  const long = 'x'.repeat(NAME_LIMIT + 1);

  it.each([
    ['always', 'files__read', 'files__write'],
    ['conflict', 'files__read', 'write'],
    ['never', 'read', 'write'],
  ] as const)('with prefix "%s" is %s if the name clashes, and otherwise %s', (prefix, clashing, other) => {
    expect(naming('__', prefix).exposed('files', 'read', clashes)).toBe(clashing);
    expect(naming('__', prefix).exposed('files', 'write', clashes)).toBe(other);
    expect(naming('__', prefix).exposed('files', long, clashes)).toHaveLength(NAME_LIMIT);
  });

  it('is the own name on the endpoint of one server', () => {
    expect(OWN_NAMES.exposed('files', long, clashes)).toBe(long);
    expect(OWN_NAMES.split('files__read', new Set(['files']))).toBeUndefined();
    expect(OWN_NAMES.clashes([['a'], ['a']]).size).toBe(0);
  });

  it('clashes if two lists contain it and prefixes are added only on conflict', () => {
    const lists = [['a', 'b'], ['b', 'c'], ['b']];
    expect([...naming('__', 'conflict').clashes(lists)]).toEqual(['b']);
    expect(naming('__', 'always').clashes(lists).size).toBe(0);
  });
});

test('the spellings of an item cover every view', () => {
  expect(spellingsOf('files', 'read')).toEqual(['read', 'files__read', 'files.read', 'files-read']);
  const long = 'x'.repeat(NAME_LIMIT);
  expect(spellingsOf('files', long)).toContain(NAMES.prefixed('files', long));
  expect(spellingsOf('files', long)).toContain(`files__${long}`);
});
