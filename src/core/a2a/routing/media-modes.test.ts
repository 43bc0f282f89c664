import { describe, expect, test } from 'vitest';
import { accepts, modeOf } from './media-modes.js';

describe('modes (S-22)', () => {
  test('the mode of a part is its declared media type, otherwise the type of its content', () => {
    expect(modeOf({ text: 'a' })).toBe('text/plain');
    expect(modeOf({ data: null })).toBe('application/json');
    expect(modeOf({ raw: '', mediaType: 'image/png' })).toBe('image/png');
    expect(modeOf({ url: 'https://example.com/x' })).toBeUndefined();
  });
  test('cards may name media types, ranges and informal words', () => {
    expect(accepts(['text/plain'], 'text/plain; charset=utf-8')).toBe(true);
    expect(accepts(['text'], 'text/plain')).toBe(true);
    expect(accepts(['text/plain'], 'text')).toBe(true);
    expect(accepts(['image/*'], 'image/png')).toBe(true);
    expect(accepts(['data'], 'application/json')).toBe(true);
    expect(accepts(['file'], 'application/pdf')).toBe(true);
    expect(accepts([], 'anything/else')).toBe(true);
    expect(accepts(['text/plain'], 'image/png')).toBe(false);
    expect(accepts(['image/*'], 'text/plain')).toBe(false);
  });
});
