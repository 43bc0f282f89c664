import { describe, expect, it } from 'vitest';
import { matchesTemplate, uriRoot } from './uri-templates.js';

describe('matchesTemplate', () => {
  it.each([
    ['file:///{path}', 'file:///a/b', true],
    ['test://template/{id}/data', 'test://template/7/data', true],
    ['test://template/{id}/data', 'test://template/7/other', false],
    ['db://{table}/{row}', 'db://users/1', true],
    ['db://{table}/{row}', 'db:users', false],
    ['fixed://x', 'fixed://x', true],
    ['fixed://x', 'fixed://xy', false],
    ['a{b}a', 'a', false],
  ])('%s and %s: %s', (template, uri, expected) => {
    expect(matchesTemplate(template, uri)).toBe(expected);
  });
});

describe('uriRoot', () => {
  it('is scheme and authority', () => {
    expect(uriRoot('UI://Board/view.html')).toBe('ui://board');
    expect(uriRoot('mailto:x@y')).toBe('mailto:');
    expect(uriRoot('no uri')).toBeUndefined();
  });
});
