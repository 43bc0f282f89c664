import { describe, expect, it } from 'vitest';
import { LOCAL } from '../../core/caller.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { Access, ErrorFormat, Fallback, Method, Route } from './route.js';
import { RouteTable } from './route-table.js';

const JSON_ERRORS: ErrorFormat = { name: 'json', write: () => {} };
const TEXT_ERRORS: ErrorFormat = { name: 'text', write: () => {} };

const route = (method: Method, path: string, access: Access = 'user', errors = JSON_ERRORS): Route => ({
  method,
  path,
  access,
  errors,
  description: `${method} ${path}`,
  handle: () => {},
});

const tableOf = (routes: readonly Route[], fallbacks: readonly Fallback[] = []): RouteTable =>
  new RouteTable({ routes, fallbacks, errors: JSON_ERRORS });

const found = (table: RouteTable, path: string): [string, Record<string, string>] => {
  const { resource, params } = table.match(path);
  return [resource.missing ? 'nothing' : resource.path, params];
};

describe('the route table', () => {
  const table = tableOf([
    route('GET', '/'),
    route('GET', '/things'),
    route('POST', '/things'),
    route('GET', '/things/{thing}'),
    route('POST', '/things/{thing}:stop'),
    route('GET', '/things/latest'),
    route('GET', '/things/{thing}/parts/{part}.json'),
    route('GET', '/{owner}/things'),
    route('GET', '/raw/{owner}/{rest*}'),
  ]);

  it.each([
    ['/', '/', {}],
    ['/things', '/things', {}],
    ['/things/', '/things', {}],
    ['/things/a', '/things/{thing}', { thing: 'a' }],
    ['/things/a%2Fb', '/things/{thing}', { thing: 'a/b' }],
    ['/things/a:stop', '/things/{thing}:stop', { thing: 'a' }],
    ['/things/a:b:stop', '/things/{thing}:stop', { thing: 'a:b' }],
    ['/things/:stop', '/things/{thing}', { thing: ':stop' }],
    ['/things/latest', '/things/latest', {}],
    ['/raw/a/b%2Fc/d', '/raw/{owner}/{rest*}', { owner: 'a', rest: 'b%2Fc/d' }],
    ['/raw/a', 'nothing', {}],
    ['/raw/things', '/{owner}/things', { owner: 'raw' }],
    ['/things/%6Catest', '/things/latest', {}],
    ['/things/latest/parts/p.json', '/things/{thing}/parts/{part}.json', { thing: 'latest', part: 'p' }],
    ['/things/things', '/things/{thing}', { thing: 'things' }],
    ['/ada/things', '/{owner}/things', { owner: 'ada' }],
    ['/things/a/parts', 'nothing', {}],
    ['/things//', 'nothing', {}],
    ['//things', 'nothing', {}],
    ['/things/%E0%A4%A', 'nothing', {}],
    ['', 'nothing', {}],
    ['*', 'nothing', {}],
  ])('finds %s at %s', (path, at, params) => {
    expect(found(table, path)).toEqual([at, params]);
  });

  it('lists the methods of a path: HEAD with GET, and OPTIONS always', () => {
    const { resource } = table.match('/things');
    expect(resource.allow).toBe('GET, HEAD, POST, OPTIONS');
    expect(resource.corsMethods).toBe('GET, POST, OPTIONS');
    expect(resource.methods.get('HEAD')).toBe(resource.methods.get('GET'));
    expect(table.match('/things/a:stop').resource.allow).toBe('POST, OPTIONS');
  });

  it('other methods need the access of the most open route of the path', () => {
    const mixed = tableOf([route('POST', '/x', 'admin'), route('GET', '/x', 'user')]);
    expect(mixed.match('/x').resource.access).toBe('user');
  });

  it('S1-56: refuses a contradictory table', () => {
    expect(() => tableOf([route('GET', '/x'), route('GET', '/x')])).toThrow('GET /x is in the table twice');
    expect(() => tableOf([route('GET', '/x'), route('POST', '/x', 'user', TEXT_ERRORS)])).toThrow('different formats');
    expect(() => tableOf([route('GET', '/x-{y}')])).toThrow('a parameter must begin its segment');
  });

  it('uses the fallback with the longest matching path', () => {
    const missing = (name: string) => () => new ProtocolError('not_found', name);
    const below = (path: string, access: Access = 'user'): Fallback => ({
      below: path,
      access,
      errors: TEXT_ERRORS,
      missing: missing(path),
    });
    const some = tableOf([route('GET', '/a/b')], [below('/a'), below('/a/b', 'public')]);
    const at = (path: string): [string | undefined, string, Access] => {
      const { resource } = some.match(path);
      return [resource.missing?.(path).message, resource.errors.name, resource.access];
    };
    expect(at('/a/x')).toEqual(['/a', 'text', 'user']);
    expect(at('/a/b/c')).toEqual(['/a/b', 'text', 'public']);
    expect(at('/ab')).toEqual(['Nothing is served at /ab', 'json', 'user']);
  });

  it('resolves parameters to canonical values and refuses unknown ones', () => {
    const named = new RouteTable({
      routes: [route('GET', '/{server}/{other}')],
      parameters: {
        server: (name) => {
          if (name === 'none') throw new ProtocolError('not_found', 'none');
          return name.toLowerCase();
        },
      },
      errors: JSON_ERRORS,
    });
    expect(named.resolve(named.match('/FILES/X'), '/FILES/X', LOCAL)).toEqual({ server: 'files', other: 'X' });
    expect(() => named.resolve(named.match('/none/x'), '/none/x', LOCAL)).toThrow('none');
  });

  it('is fast for a path of many segments', () => {
    expect(found(table, '/things'.repeat(2_000))).toEqual(['nothing', {}]);
  });
});
