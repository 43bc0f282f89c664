import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { plainLine, plainText, webLink } from './card-text.js';

describe('texts of a card (§7, card spoofing)', () => {
  test('invisible characters are removed', () => {
    const hidden = [...'ignore'].map((char) => String.fromCodePoint(0xe0000 + char.charCodeAt(0))).join('');
    expect(plainText(`Plans\u0000 \u202etrips\u200b${hidden}\ufeff`, 100)).toBe('Plans trips');
  });
  test('line breaks, tabs, other scripts and emoji stay', () => {
    expect(plainText('a\r\n\tb', 100)).toBe('a\n\tb');
    expect(plainText('می‌خواهم 👩‍🚀 ❤️', 100)).toBe('می‌خواهم 👩‍🚀 ❤️');
  });
  test('stray joiners are removed', () => {
    expect(plainText('a\u200d\u200c\u200db\u200d', 100)).toBe('ab');
  });
  test('a long text is cut without splitting a character', () => {
    expect(plainText('abcdef', 4)).toBe('abc…');
    expect(plainText('ab😀cd', 4)).toBe('ab…');
  });
  test('the result is within the limit, and a second cleaning changes nothing', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)) }),
        fc.integer({ min: 1, max: 20 }),
        (text, most) => {
          const once = plainText(text, most);
          expect(once.length).toBeLessThanOrEqual(most);
          expect(plainText(once, most)).toBe(once);
        },
      ),
    );
  });
  test('plainLine returns one line', () => expect(plainLine('a\n\n b', 10)).toBe('a b'));
});

describe('links of a card', () => {
  test('only http and https URLs without credentials are allowed', () => {
    expect(webLink('https://example.com/docs')).toBe('https://example.com/docs');
    for (const link of ['javascript:alert(1)', 'file:///etc/passwd', 'http://u:p@example.com', 'docs', 7, undefined])
      expect(webLink(link)).toBeUndefined();
  });
});
