import { describe, expect, it } from 'vitest';
import { checkCapabilities, keptClientInfo } from './client-description.js';
import { type Evictable, sessionToEvict } from './session-limits.js';

const session = (principal: string, lastUsed: number, inUse = false): Evictable => ({ principal, lastUsed, inUse });

describe('the evicted session', () => {
  const old = session('ada', 1);
  const newer = session('ada', 2);
  const others = session('bob', 0);

  it('is none below the limits', () => {
    expect(sessionToEvict([old, newer], 'ada', { perCaller: 3, inAll: 3 })).toBeUndefined();
  });

  it("is the caller's own if the caller has too many, even if others have older ones", () => {
    expect(sessionToEvict([newer, old, others], 'ada', { perCaller: 2, inAll: 10 })).toBe(old);
  });

  it('is the longest idle session of all if there are too many in total', () => {
    expect(sessionToEvict([newer, old, others], 'ada', { perCaller: 10, inAll: 3 })).toBe(others);
    expect(sessionToEvict([newer, old, others], 'ada', { perCaller: undefined, inAll: 3 })).toBe(others);
  });

  it('is never a session in use; if all are in use, the new session is refused', () => {
    const busy = session('ada', 0, true);
    expect(sessionToEvict([busy, old], 'ada', { perCaller: 2, inAll: 9 })).toBe(old);
    expect(() => sessionToEvict([busy, busy], 'ada', { perCaller: 2, inAll: 9 })).toThrow(
      'No session can be opened: this caller has 2 sessions in use; end one or try again later',
    );
    expect(() => sessionToEvict([busy, busy], 'eve', { perCaller: 2, inAll: 2 })).toThrow(
      'all 2 sessions of the gateway are in use',
    );
  });
});

describe('the description of a client', () => {
  it('keeps only names and version, with a maximum length', () => {
    const given = { name: 'x'.repeat(5_000), version: '1', icons: [{ src: 'data:'.repeat(1_000) }], more: {} };
    expect(keptClientInfo(given)).toEqual({ name: 'x'.repeat(200), version: '1' });
    expect(keptClientInfo('no object')).toBeUndefined();
  });

  it('is refused if the capabilities are too large', () => {
    expect(() => checkCapabilities(16 * 1024)).not.toThrow();
    expect(() => checkCapabilities(3_500_000)).toThrow('"capabilities" has 3500000 bytes');
  });
});
