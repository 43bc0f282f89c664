import { expect, test } from 'vitest';
import { principalOf } from '../core/caller.js';
import { type AuthenticationRequest, type Authenticator, Challenge } from './authenticator.js';
import { FailedAttempts, LimitedAuthenticator } from './failed-attempts.js';

const jwtOf = (sub: string, signature: string): string =>
  `x.${Buffer.from(JSON.stringify({ iss: 'i', sub })).toString('base64url')}.${signature}`;

const request = (token: string, peer: string): AuthenticationRequest => ({
  method: 'POST',
  url: '/mcp',
  peer,
  certificate: undefined,
  header: (name) => (name === 'authorization' ? `Bearer ${token}` : undefined),
});

const GOOD = jwtOf('ada', 'good');
const inner: Authenticator = {
  enabled: true,
  authenticate: ({ header }) =>
    header('authorization') === `Bearer ${GOOD}` ? principalOf({ subject: 'ada' }) : new Challenge('no'),
};

const outcome = (limited: LimitedAuthenticator, token: string, peer: string): 'ok' | 'refused' | 'limited' => {
  try {
    return limited.authenticate(request(token, peer)) instanceof Challenge ? 'refused' : 'ok';
  } catch {
    return 'limited';
  }
};

test('an account that is attacked from many addresses stays open to its owner at another address', () => {
  const limited = new LimitedAuthenticator(
    inner,
    new FailedAttempts({ perAddress: 100, perAccount: 3, window: 1_000 }),
  );
  for (const peer of ['192.0.2.1', '192.0.2.2', '192.0.2.3'])
    expect(outcome(limited, jwtOf('ada', 'bad'), peer)).toBe('refused');
  expect(outcome(limited, jwtOf('ada', 'bad'), '192.0.2.1')).toBe('limited');
  expect(outcome(limited, jwtOf('bob', 'bad'), '192.0.2.1')).toBe('refused');
  expect(outcome(limited, GOOD, '192.0.2.9')).toBe('ok');
});

test('the limit ends with its window, and one IPv6 network counts as one address', () => {
  let now = 0;
  const limits = { perAddress: 2, perAccount: 100, window: 1_000 };
  const limited = new LimitedAuthenticator(inner, new FailedAttempts(limits, () => now));
  expect(outcome(limited, 'a', '2001:db8::1')).toBe('refused');
  expect(outcome(limited, 'b', '2001:db8::2')).toBe('refused');
  expect(outcome(limited, 'c', '2001:db8:0:0:1::')).toBe('limited');
  expect(outcome(limited, 'c', '2001:db8:1::1')).toBe('refused');
  now = 1_001;
  expect(outcome(limited, 'c', '2001:db8::1')).toBe('refused');
});

test('a flood from many addresses keeps a bounded memory', () => {
  const attempts = new FailedAttempts({ perAddress: 2, perAccount: 2, window: 60_000 });
  for (let i = 0; i < 100_000; i++)
    attempts.failed(`10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`, `account-${i}`);
  const { counts } = attempts as unknown as { counts: { young: Map<string, unknown>; old: Map<string, unknown> } };
  expect(counts.young.size + counts.old.size).toBeLessThanOrEqual(40_000);
});
