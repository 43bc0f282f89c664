import { expect, test, vi } from 'vitest';
import { newId } from './ids.js';

test('ids are UUIDv7, unique, and sorted by creation', () => {
  const ids = Array.from({ length: 50_000 }, newId);
  for (const id of ids.slice(0, 1_000)) {
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
  expect(new Set(ids).size).toBe(ids.length);
  expect([...ids].sort()).toEqual(ids);
});

test('ids keep increasing when the clock is set back', () => {
  const before = newId();
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 });
  try {
    expect(newId() > before).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});
