import { describe, expect, it } from 'vitest';
import { bytesHeld } from '../../../test/support/heap.js';
import { needsOf } from './split-needs.js';
import { bigramsOf, hashOf, termsOf } from './tokenize.js';

describe('termsOf', () => {
  it('splits identifiers in every spelling', () => {
    for (const name of ['getUserName', 'get_user_name', 'get-user-name', 'GET.user/name', 'GetUSERName']) {
      expect(termsOf(name)).toEqual(['get', 'user', 'name']);
    }
  });

  it('removes stop words and plain numbers and stems the rest', () => {
    expect(termsOf('Could you please tell me the areas of 2 triangles?')).toEqual(['tell', 'area', 'triangl']);
  });

  it('keeps only the terms of a long text in memory', () => {
    const terms: string[][] = [];
    const before = bytesHeld();
    for (let number = 0; number < 40; number += 1) {
      const word = `extraordinar${[...String(number)].map((digit) => 'abcdefghij'[Number(digit)]).join('')}`;
      // A flat string, as V8 creates it when the gateway reads a request.
      const query = Buffer.from(`${word} ${'x'.repeat(1_000_000)}`).toString();
      terms.push(termsOf(query.slice(0, 4_000)));
    }
    expect(terms).toHaveLength(40);
    expect(bytesHeld() - before).toBeLessThan(5_000_000);
  });

  it('reads Chinese by character and adds English terms for known words', () => {
    expect(termsOf('搜索 S3')).toEqual(['搜', '索', 's3', 'search']);
  });

  it('keeps words of other alphabets', () => {
    expect(termsOf('Écoute ΣΟΦΙΑ')).toEqual(['écoute', 'σοφια']);
  });

  it('ignores a very long word', () => {
    expect(termsOf('x'.repeat(100_000))).toEqual([]);
  });
});

it('pairs neighbouring terms', () => {
  expect(bigramsOf(['a', 'b', 'c'])).toEqual(['a b', 'b c']);
  expect(bigramsOf(['a'])).toEqual([]);
});

it('hashes to 32 bits', () => {
  expect(hashOf('weather')).toBe(hashOf('weather'));
  expect(hashOf('weather')).not.toBe(hashOf('whether'));
  expect(hashOf('weather')).toBeLessThan(2 ** 32);
});

describe('needsOf', () => {
  it('splits sentences and joined requests', () => {
    expect(needsOf('Book a flight to Rome and tell me the weather forecast there. Convert dollars into euro.')).toEqual(
      ['Book a flight to Rome', 'tell me the weather forecast there.', 'Convert dollars into euro.'],
    );
  });

  it('keeps a single need, and short parts with the need before them', () => {
    expect(needsOf('Find cats and dogs')).toEqual(['Find cats and dogs']);
    expect(needsOf('Find the cheapest hotel. Thanks!')).toHaveLength(1);
    expect(needsOf('')).toEqual(['']);
  });

  it('limits the number of needs', () => {
    expect(needsOf('Find the cheapest hotel rooms. '.repeat(100)).length).toBeLessThanOrEqual(12);
  });
});
