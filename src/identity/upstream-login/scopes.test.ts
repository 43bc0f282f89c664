import { expect, test } from 'vitest';
import type { LoginPlan } from './discovery.js';
import type { LoginSettings } from './login-settings.js';
import { covers, scopeOf, union } from './scopes.js';

const planOf = (scope?: string, supported?: string[]): LoginPlan => ({
  issuer: 'https://as.example',
  server: 'https://as.example',
  metadata: supported && ({ scopes_supported: supported } as unknown as LoginPlan['metadata']),
  resource: undefined,
  scope,
  namesIssuer: false,
});
const settings = (more: Partial<LoginSettings> = {}): LoginSettings => ({ scopes: [], quirks: [], ...more });

test('a union has every scope once, in order; the union of nothing is undefined, not an empty text', () => {
  expect(union('a b', undefined, ' b  c ')).toBe('a b c');
  expect(union(undefined, ' ')).toBeUndefined();
});

test('a list of scopes covers another list whatever the order', () => {
  expect(covers('a b c', 'c a')).toBe(true);
  expect(covers('a', 'a b')).toBe(false);
  expect(covers(undefined, undefined)).toBe(true);
});

test('AUC-10: configured scopes come first, then those of the upstream; a step-up adds to both', () => {
  expect(scopeOf(planOf('read'), settings(), undefined)).toBe('read');
  expect(scopeOf(planOf('read'), settings({ scopes: ['own'] }), undefined)).toBe('own');
  expect(scopeOf(planOf('read'), settings(), 'write read')).toBe('read write');
  expect(scopeOf(planOf(), settings(), undefined)).toBeUndefined();
});

test('AUC-11: offline_access is asked for only where it is supported, wanted, and not switched off', () => {
  const supported = ['openid', 'offline_access'];
  expect(scopeOf(planOf('read', supported), settings(), undefined)).toBe('read offline_access');
  expect(scopeOf(planOf(undefined, supported), settings(), undefined)).toBeUndefined();
  expect(scopeOf(planOf('read', ['openid']), settings(), undefined)).toBe('read');
  expect(scopeOf(planOf('read', supported), settings({ quirks: ['no-offline-access'] }), undefined)).toBe('read');
});
