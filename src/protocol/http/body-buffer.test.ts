import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bytesHeld } from '../../../test/support/heap.js';
import { BodyBuffer } from './body-buffer.js';

describe('BodyBuffer', () => {
  it('returns the bytes added since the last take', () => {
    const sizes = fc.array(fc.oneof(fc.nat(20), fc.nat(5_000), fc.constantFrom(4_095, 4_096, 4_097)), {
      maxLength: 20,
    });
    fc.assert(
      fc.property(fc.array(sizes, { maxLength: 3 }), (texts) => {
        const parts = new BodyBuffer();
        let n = 0;
        for (const text of texts) {
          const all = text.map((size) => Buffer.alloc(size, `${n++},`));
          for (const part of all) parts.add(part);
          const whole = Buffer.concat(all);
          expect(parts.size).toBe(whole.length);
          expect(parts.take().equals(whole)).toBe(true);
        }
        expect(parts.size).toBe(0);
      }),
    );
  });

  it('does not copy a body that arrives in one part', () => {
    const parts = new BodyBuffer();
    const only = Buffer.from('only');
    parts.add(only);
    expect(parts.take()).toBe(only);
  });

  it.each([
    ['one byte each', [1]],
    ['one byte and a large part in turn', [1, 4_096]],
    ['slightly more than half a block', [2_049]],
    ['a small slice of a large buffer', [5_000]],
  ])('uses little more memory than its bytes: %s', (_, sizes) => {
    const parts = new BodyBuffer();
    const before = bytesHeld();
    for (let i = 0; parts.size < 1_000_000; i++) {
      const size = sizes[i % sizes.length]!;
      parts.add(size === 5_000 ? Buffer.allocUnsafeSlow(64 * 1024).subarray(0, size) : Buffer.alloc(size));
    }
    expect(bytesHeld() - before).toBeLessThan(4_000_000);
    expect(parts.take().length).toBeGreaterThanOrEqual(1_000_000);
  });
});
