import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { principalOf } from '../../core/caller.js';
import { type Authenticated, type AuthenticationRequest, Challenge } from '../../identity/authenticator.js';
import { type OpenExchange, OpenExchanges } from './open-exchanges.js';

const REVOKED = new Challenge('revoked');

let answers: Map<string, Authenticated>;
let examined: string[];
let ended: string[];
let exchanges: OpenExchanges;

beforeEach(() => {
  vi.useFakeTimers();
  answers = new Map();
  examined = [];
  ended = [];
  exchanges = new OpenExchanges({
    enabled: true,
    authenticate: ({ url }) => {
      examined.push(url);
      return answers.get(url)!;
    },
  });
});
afterEach(() => {
  exchanges.close();
  vi.useRealTimers();
});

function began(name: string, kind: 'key' | 'jwt' = 'key', listens = false): OpenExchange {
  const principal = principalOf({ subject: name, credential: { kind, id: name } });
  answers.set(name, principal);
  const request: AuthenticationRequest = {
    ...{ method: 'POST', url: name, peer: '127.0.0.1', certificate: undefined },
    header: () => undefined,
  };
  return exchanges.add({ request, principal, listens, end: () => ended.push(name) });
}

test('S17: ends the exchanges of a revoked key within a second, and no others', () => {
  for (const name of ['a', 'b', 'c']) began(name);
  answers.set('b', REVOKED);
  vi.advanceTimersByTime(1_000);
  expect(ended).toEqual(['b']);
  answers.set('a', REVOKED);
  answers.set('c', REVOKED);
  vi.advanceTimersByTime(500);
  expect(ended).toEqual(['b', 'a', 'c']);
  examined = [];
  vi.advanceTimersByTime(2_000);
  expect(examined).toEqual([]);
});

test('does not examine exchanges that ended, wherever they are in the list', () => {
  const [a, , c, , e] = ['a', 'b', 'c', 'd', 'e'].map((name) => began(name));
  for (const each of [c, a, e]) expect(exchanges.remove(each!)).toBe(true);
  expect(exchanges.remove(c!)).toBe(false);
  vi.advanceTimersByTime(1_000);
  expect(examined).toEqual(['b', 'd']);
});

test('a short exchange is never examined', () => {
  const exchange = began('a');
  vi.advanceTimersByTime(500);
  exchanges.remove(exchange);
  vi.advanceTimersByTime(1_000);
  expect(examined).toEqual([]);
});

test('an expired access token ends streams that only listen, and lets calls finish', () => {
  began('call', 'jwt');
  began('stream', 'jwt', true);
  for (const name of ['call', 'stream']) answers.set(name, REVOKED);
  vi.advanceTimersByTime(1_000);
  expect(ended).toEqual(['stream']);
});
