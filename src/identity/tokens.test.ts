import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assessToken, TOKEN_MIN_ENTROPY, tokenEntropy } from './tokens.js';

const codes = (token: string) => assessToken(token).map(({ severity, code }) => `${severity}:${code}`);
const good = 'k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH+a';

describe('length (S4-12)', () => {
  test('15 characters refuse to start', () => {
    expect(codes(good.slice(0, 15))).toEqual(['error:too_short']);
    expect(codes('')).toEqual(['error:too_short']);
  });
  test('16 to 31 characters warn', () => {
    expect(codes(good.slice(0, 16))).toContain('warning:short');
    expect(codes(good.slice(0, 31))).toEqual(['warning:short']);
  });
  test('32 characters are silent', () => {
    expect(codes(good)).toEqual([]);
  });
});

describe('what is easy to guess warns (S4-13)', () => {
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

describe('what can be sent', () => {
  test('spaces, line breaks and characters outside ASCII refuse to start', () => {
    for (const bad of [' ', '\n', 'é', '\u0000']) expect(codes(`${good}${bad}x`)).toEqual(['error:unsendable']);
  });
  test('what RFC 6750 does not allow warns', () => {
    expect(codes(`${good}!$`)).toEqual(['warning:unusual']);
    expect(codes(`${good}==`)).toEqual([]);
  });
});

test('random tokens of the usual forms are never said to hold too little chance', () => {
  for (let i = 0; i < 2000; i++) {
    const forms = [
      randomBytes(16).toString('hex'),
      randomBytes(32).toString('hex'),
      randomBytes(32).toString('base64url'),
    ];
    for (const form of forms) expect(tokenEntropy(form)).toBeGreaterThan(TOKEN_MIN_ENTROPY);
  }
});

test('no message ever holds the token', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 8, maxLength: 60 }), (token) => {
      const text = assessToken(token)
        .map(({ message }) => message)
        .join('\n');
      // Words of the fixed messages may of course occur in a token.
      return token.trim().length < 8 || !text.includes(token) || /^[a-z ,;]+$/i.test(token);
    }),
  );
});
