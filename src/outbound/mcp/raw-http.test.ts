import { describe, expect, test } from 'vitest';
import { targetBelow } from './raw-http.js';

const URLS = 'https://tools.example/base/mcp/?tenant=7';
const at = (path: string, query = ''): string => targetBelow(URLS, { path, query }).path;

describe('S0-08: a path below the URL of a server', () => {
  test('keeps the path and the query of both', () => {
    expect(at('')).toBe('/base/mcp/?tenant=7');
    expect(at('a/b%20c', 'x=1&y')).toBe('/base/mcp/a/b%20c?tenant=7&x=1&y');
    expect(targetBelow('http://tools.example', { path: 'a', query: '' })).toEqual({
      origin: 'http://tools.example',
      path: '/a',
    });
    expect(at('/evil.example/x')).toBe('/base/mcp//evil.example/x?tenant=7');
    expect(at('@evil.example')).toBe('/base/mcp/@evil.example?tenant=7');
  });

  test.each([
    ...['..', 'a/../../x', '%2e%2e/x', '.%2E/x', './x', 'a/%2e/b', '..%2fx', 'a%2Fb', '..\\x', 'a%5cb', 'a#b', 'a?b'],
  ])('refuses %s', (path) => {
    expect(() => at(path)).toThrow('must lead to a place below');
  });
});
