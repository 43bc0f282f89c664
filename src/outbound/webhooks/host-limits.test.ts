import { describe, expect, test } from 'vitest';
import { type HostLimits, Hosts } from './host-limits.js';

const LIMITS: HostLimits = { perHost: 2, failures: 3, restMs: 100, longestRestMs: 250 };
const A = 'https://a.example';

function setUp() {
  const clock = { now: 0 };
  const hosts = new Hosts(LIMITS, () => clock.now);
  const fail = (times: number): void => {
    for (let i = 0; i < times; i++) {
      expect(hosts.enter(A)).toBe(true);
      hosts.leave(A, false);
    }
  };
  return { clock, hosts, fail };
}

describe('hosts', () => {
  test('take a limited number of deliveries at once; waiting deliveries do not delay other hosts', async () => {
    const { hosts } = setUp();
    expect([hosts.enter(A), hosts.enter(A)]).toEqual([true, true]);
    expect(hosts.busy()).toEqual([A]);
    const third = hosts.enter(A);
    expect(hosts.enter('https://b.example')).toBe(true);
    hosts.leave(A, true);
    expect(await third).toBe(true);
    expect(hosts.busy()).toEqual([A]);
    hosts.leave(A, true);
    expect(hosts.busy()).toEqual([]);
  });

  test('are paused after failures in a row, and waiting deliveries are refused', async () => {
    const { clock, hosts, fail } = setUp();
    fail(2);
    expect([hosts.enter(A), hosts.enter(A)]).toEqual([true, true]);
    const waiting = hosts.enter(A);
    hosts.leave(A, false);
    expect(await waiting).toBe(false);
    expect(hosts.enter(A)).toBe(false);
    expect(hosts.busy()).toEqual([A]);
    hosts.leave(A, undefined);
    clock.now = 100;
    expect(hosts.busy()).toEqual([]);
  });

  test('get one delivery after a pause, and pauses grow', () => {
    const { clock, hosts, fail } = setUp();
    fail(3);
    for (const rest of [100, 200, 250, 250]) {
      clock.now += rest - 1;
      expect(hosts.enter(A)).toBe(false);
      clock.now += 1;
      expect(hosts.enter(A)).toBe(true);
      expect(hosts.busy()).toEqual([A]);
      hosts.leave(A, false);
    }
    clock.now += 250;
    expect(hosts.enter(A)).toBe(true);
    hosts.leave(A, true);
    expect([hosts.enter(A), hosts.enter(A)]).toEqual([true, true]);
  });

  test('start the count again after a success', () => {
    const { hosts, fail } = setUp();
    fail(2);
    expect(hosts.enter(A)).toBe(true);
    hosts.leave(A, true);
    fail(2);
    expect(hosts.busy()).toEqual([]);
  });

  test('refuse all waiting deliveries when the sender closes', async () => {
    const { hosts } = setUp();
    await hosts.enter(A);
    await hosts.enter(A);
    const waiting = hosts.enter(A);
    hosts.close();
    expect(await waiting).toBe(false);
  });
});
