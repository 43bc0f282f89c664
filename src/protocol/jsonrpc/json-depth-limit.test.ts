import { describe, expect, it } from 'vitest';
import { depthWithin, structureFault } from './json-depth-limit.js';

describe('structureFault', () => {
  const limits = { depth: 3, members: 5 };

  it('counts objects, arrays and members outside of strings', () => {
    expect(structureFault(Buffer.from('{"a":[{"b":1}]}'), limits)).toBeUndefined();
    expect(structureFault(Buffer.from('{"a":[{"b":1},{}]}'), limits)).toBe(
      'has more than 5 objects, arrays and members',
    );
    expect(structureFault(Buffer.from('["{:{:{:{:", 1, 2, 3, 4, 5, 6, 7]'), limits)).toBeUndefined();
    expect(structureFault(Buffer.from('[[[[]]]]'), limits)).toBe('nests deeper than 3 levels');
  });

  it('P6: refuses many small objects for a fraction of the cost of parsing them', () => {
    const items = Array.from({ length: 180_000 }, (_, i) => `{"k${i}":1}`);
    const body = Buffer.from(`{"list":[${items.join(',')}]}`);
    const cpu = (work: () => unknown): number => {
      const before = process.cpuUsage();
      work();
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    const parsing = cpu(() => JSON.parse(body.toString()));
    // The first run may include the compilation of the code. A second parse would be cheaper, because V8 remembers the keys.
    const runs = Array.from({ length: 5 }, () => cpu(() => structureFault(body, { depth: 64, members: 100_000 })));
    const refusing = Math.min(...runs);
    expect(structureFault(body, { depth: 64, members: 100_000 })).toBeDefined();
    expect(refusing).toBeLessThan(parsing / 3);
  });
});

describe('depthWithin', () => {
  it('counts brackets outside strings only', () => {
    expect(depthWithin(Buffer.from('["[[[[", {"a": "{{"}]'), 2)).toBe(true);
    expect(depthWithin(Buffer.from('[[[]]]'), 2)).toBe(false);
    expect(depthWithin(Buffer.from('['.repeat(1_000_000)), 64)).toBe(false);
    expect(depthWithin(Buffer.from('["\\"[[["]'), 1)).toBe(true);
  });
});
