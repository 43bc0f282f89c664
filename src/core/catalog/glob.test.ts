import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { globOf } from './glob.js';

describe('globOf', () => {
  it.each([
    ['read', 'read', true],
    ['Read', 'rEAD', true],
    ['read', 'read_file', false],
    ['read*', 'read', true],
    ['read*', 'read_file', true],
    ['*file', 'read_file', true],
    ['r*_*e', 'read_file', true],
    ['r*_*_*e', 'read_file', false],
    ['*', '', true],
    ['a*a', 'a', false],
    ['a.c', 'abc', false],
    ['a[b]*', 'a[b]c', true],
  ])('%s and %s: %s', (pattern, name, expected) => {
    expect(globOf(pattern).test(name)).toBe(expected);
  });

  it('matches the same names as the equivalent regular expression', () => {
    const word = fc.stringMatching(/^[ab*]{0,8}$/);
    fc.assert(
      fc.property(word, fc.stringMatching(/^[ab]{0,12}$/), (pattern, name) => {
        expect(globOf(pattern).test(name)).toBe(new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(name));
      }),
    );
  });

  it('takes linear time for a long name', () => {
    const began = performance.now();
    expect(globOf(`${'*a'.repeat(50)}*b`).test('a'.repeat(100_000))).toBe(false);
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});
