import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assessToken, TOKEN_MIN_ENTROPY, tokenEntropy } from './token-strength.js';

const codes = (token: string) => assessToken(token).map(({ severity, code }) => `${severity}:${code}`);
const good = 'k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH+a';

describe('length (S4-12)', () => {
  test('15 characters are an error', () => {
    expect(codes(good.slice(0, 15))).toEqual(['error:too_short']);
    expect(codes('')).toEqual(['error:too_short']);
  });
  test('16 to 31 characters are a warning', () => {
    expect(codes(good.slice(0, 16))).toContain('warning:short');
    expect(codes(good.slice(0, 31))).toEqual(['warning:short']);
  });
  test('32 characters have no finding', () => {
    expect(codes(good)).toEqual([]);
  });
});

describe('a token that is easy to guess is a warning (S4-13)', () => {
  test('one character repeated', () => {
    expect(codes('a'.repeat(40))).toEqual(['warning:repeated']);
  });
  test.each(['password', 'Secret', 'TOKEN', 'admin', 'test', '123456', 'qwerty'])('%s inside', (word) => {
    expect(codes(`${good.slice(0, 20)}${word}${good.slice(20)}`)).toEqual(['warning:guessable']);
  });
  test('few different characters', () => {
    expect(codes('abcabdacbdcabdacbdbacdbacdbacdba')).toContain('warning:diversity');
  });
  test.each([
    ['a repeated block', '0123456789abcdef0123456789abcdef'],
    ['a repeated block that ends early', 'kT9x'.repeat(9).slice(0, 33)],
    ['a long run', 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'],
    ['a run backwards', 'zyxwvutsrqponmlkjihgfedcba9876543210'],
  ])('%s', (_, token) => {
    expect(tokenEntropy(token)).toBeLessThan(TOKEN_MIN_ENTROPY);
    expect(codes(token)).toContain('warning:entropy');
  });
});

describe('characters of a token', () => {
  test('spaces, line breaks and characters outside ASCII are an error', () => {
    for (const bad of [' ', '\n', 'é', '\u0000']) expect(codes(`${good}${bad}x`)).toEqual(['error:unsendable']);
  });
  test('characters that RFC 6750 does not allow are a warning', () => {
    expect(codes(`${good}!$`)).toEqual(['warning:unusual']);
    expect(codes(`${good}==`)).toEqual([]);
  });
});

test('random tokens of the usual forms have enough entropy', () => {
  for (let i = 0; i < 2000; i++) {
    const forms = [
      randomBytes(16).toString('hex'),
      randomBytes(32).toString('hex'),
      randomBytes(32).toString('base64url'),
    ];
    for (const form of forms) expect(tokenEntropy(form)).toBeGreaterThan(TOKEN_MIN_ENTROPY);
  }
});

test('no message contains the token', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 8, maxLength: 60 }), (token) => {
      const text = assessToken(token)
        .map(({ message }) => message)
        .join('\n');
      // A token may contain words of the fixed messages.
      return token.trim().length < 8 || !text.includes(token) || /^[a-z ,;]+$/i.test(token);
    }),
  );
});
