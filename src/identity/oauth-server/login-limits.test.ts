import { expect, test } from 'vitest';
import { Counters } from '../../state/counters.js';
import { LoginLimits } from './login-limits.js';

const limits = (): LoginLimits => {
  const counters = new Counters();
  return new LoginLimits({ incr: async (key, n, ttlMs) => counters.incr(key, n, ttlMs) });
};
const ada = { address: '192.0.2.1', account: 'ada', device: undefined };

test('sign-ins that succeed are not counted, whatever the browser', async () => {
  const own = limits();
  for (const device of [undefined, 'browser']) {
    for (let i = 0; i < 300; i++) {
      expect(await own.attempt({ ...ada, device })).toBeUndefined();
      await own.succeeded({ ...ada, device });
    }
  }
});

test('failures are counted, also between sign-ins of the same address that succeed', async () => {
  const own = limits();
  const other = { ...ada, account: 'bob' };
  for (let i = 0; i < 10; i++) {
    expect(await own.attempt(ada)).toBeUndefined();
    await own.attempt(other);
    await own.succeeded(other);
  }
  expect(await own.attempt(ada)).toBe(900);
});

test('guesses for many users from one address are limited, and those of many addresses for one user', async () => {
  const own = limits();
  for (let i = 0; i < 100; i++) expect(await own.attempt({ ...ada, account: `user-${i}` })).toBeUndefined();
  expect(await own.attempt({ ...ada, account: 'another' })).toBe(900);
  const attacked = limits();
  for (let i = 0; i < 50; i++) await attacked.attempt({ ...ada, address: `198.51.100.${i}` });
  for (let i = 0; i < 3; i++) expect(await attacked.attempt(ada)).toBeUndefined();
  expect(await attacked.attempt(ada)).toBe(900);
});

test('an address that tries any number of user names adds a bounded number of counters', async () => {
  const keys = new Set<string>();
  const counters = new Counters();
  const incr = async (key: string, n: number, ttlMs: number): Promise<number> => {
    keys.add(key);
    return counters.incr(key, n, ttlMs);
  };
  const own = new LoginLimits({ incr });
  for (let i = 0; i < 1_000; i++) await own.attempt({ ...ada, account: `user-${i}` });
  expect(keys.size).toBe(201);
});
