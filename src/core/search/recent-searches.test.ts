import { expect, test } from 'vitest';
import { RecentSearches, type Searched } from './recent-searches.js';

const read = { server: 'files', name: 'read' };
const send = { server: 'mail', name: 'send' };
const search = (text: string, ...shown: Searched['shown']): Searched => ({
  ...{ text, terms: text.split(' '), shown, plain: shown, learned: undefined },
});
const yes = (): boolean => true;

test('a successful call counts once, for the newest search of its caller that showed the tool', () => {
  const recent = new RecentSearches();
  recent.add('ann', search('first', read));
  recent.add('ann', search('second', read, send));
  recent.add('ben', search('other', read));
  expect(recent.take('ann', read, () => false)).toBeUndefined();
  expect(recent.take('ann', read, yes)?.text).toBe('second');
  expect(recent.take('ann', read, yes)).toBeUndefined();
  expect(recent.take('ann', send, yes)?.text).toBe('second');
  expect(recent.take('ann', { server: 'files', name: 'write' }, yes)).toBeUndefined();
  expect(recent.take('eve', read, yes)).toBeUndefined();
});

test('the result of a call is not read if no search showed the tool', () => {
  const recent = new RecentSearches();
  recent.add('ann', search('first', read));
  const looked = (): boolean => {
    throw new Error('looked at the result');
  };
  expect(recent.take('ann', send, looked)).toBeUndefined();
  expect(recent.take('ben', read, looked)).toBeUndefined();
});

test('a search is forgotten after ten minutes, or after eight further searches', () => {
  let now = 0;
  const recent = new RecentSearches(() => now);
  recent.add('ann', search('old', read));
  now += 10 * 60_000 + 1;
  expect(recent.take('ann', read, yes)).toBeUndefined();
  recent.add('ann', search('mine', read));
  for (let number = 0; number < 8; number += 1) recent.add('ann', search(`search ${number}`, send));
  expect(recent.take('ann', read, yes)).toBeUndefined();
});
