import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mayBeShortened, NAME_LIMIT, prefixedName, splitName } from './names.js';

/** What the configuration takes for the name of a server. */
const server = fc.stringMatching(/^[a-z0-9_-]{0,19}[a-z0-9-]$/).filter((name) => !name.includes('__'));
const tool = fc.stringMatching(/^[A-Za-z0-9_.-]{1,40}$/);

describe('prefixedName', () => {
  it('is split again into what it was made of, whatever the tool is called', () => {
    fc.assert(
      fc.property(server, tool, (name, own) => {
        fc.pre(`${name}__${own}`.length <= NAME_LIMIT);
        expect(splitName(prefixedName(name, own, '__'), new Set([name]), '__')).toEqual({ server: name, own });
      }),
    );
  });

  it('stands for one tool of one server, whatever other servers there are', () => {
    fc.assert(
      fc.property(server, server, tool, (name, other, own) => {
        fc.pre(`${name}__${own}`.length <= NAME_LIMIT);
        expect(splitName(prefixedName(name, own, '__'), new Set([other, name]), '__')).toEqual({ server: name, own });
      }),
    );
    const servers = new Set(['a', 'a_b', '_a', 'my_server']);
    expect(splitName('a_b__c', servers, '__')).toEqual({ server: 'a_b', own: 'c' });
    expect(splitName('a___b', servers, '__')).toEqual({ server: 'a', own: '_b' });
    expect(splitName('_a__b', servers, '__')).toEqual({ server: '_a', own: 'b' });
    expect(splitName('my_server__read_file', servers, '__')).toEqual({ server: 'my_server', own: 'read_file' });
  });

  it('keeps long names within the limit, alike every time and different for different names', () => {
    const long = 'x'.repeat(100);
    const name = prefixedName('files', `${long}1`, '__');
    expect(name).toHaveLength(NAME_LIMIT);
    expect(mayBeShortened(name)).toBe(true);
    expect(prefixedName('files', `${long}1`, '__')).toBe(name);
    expect(prefixedName('files', `${long}2`, '__')).not.toBe(name);
    expect(splitName(name, new Set(['files']), '__')?.server).toBe('files');
  });
});

describe('splitName', () => {
  const servers = new Set(['files', 'my-files', 'weather']);

  it.each([
    ['files__read', '__', 'files', 'read'],
    ['Files__Read', '__', 'files', 'Read'],
    ['files.read', '__', 'files', 'read'],
    ['files__a__b', '__', 'files', 'a__b'],
    ['my-files-read', '-', 'my-files', 'read'],
    ['weather.now', '.', 'weather', 'now'],
  ])('takes %s apart', (name, separator, expected, own) => {
    expect(splitName(name, servers, separator)).toEqual({ server: expected, own });
  });

  it('knows no server that does not exist', () => {
    expect(splitName('other__read', servers, '__')).toBeUndefined();
    expect(splitName('read', servers, '__')).toBeUndefined();
  });
});
