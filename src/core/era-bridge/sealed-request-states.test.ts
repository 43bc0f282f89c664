import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { callerOf, principalOf } from '../caller.js';
import { Seal } from '../seal.js';
import { RequestStates } from './sealed-request-states.js';

const key = randomBytes(32);
const states = new RequestStates(new Seal({ active: { id: 'k', key }, find: () => key }), 60_000);
const ADA = callerOf(principalOf({ subject: 'ada' }));
const STATE = { kind: 'approval', nonce: 'n', server: 'files', tool: 'remove' } as const;
const params = (args: string): RawObject => RawObject.whole(Buffer.from(`{"name":"remove","arguments":${args}}`));

const reopened = (first: string, then: string): unknown =>
  states.open(ADA, 'tools/call', params(then), states.close(ADA, 'tools/call', params(first), STATE));

test.each([
  ['{"a":1,"b":[1,{"c":2}]}', '{ "b": [1, {"c": 2}], "a": 1 }'],
  ['{"a":"x"}', '{"\\u0061":"\\u0078"}'],
  ['{"a":1,"b":3,"a":2}', '{"b":3,"a":1,"a":2}'],
])('MRTR-05: %s and %s are the same request', (first, then) => {
  expect(reopened(first, then)).toEqual(STATE);
});

test.each([
  ['{"path":"/tmp"}', '{"path":"/etc"}'],
  ['{"path":"/etc","path":"/tmp"}', '{"path":"/tmp","path":"/etc"}'],
  ['{"n":9007199254740993}', '{"n":9007199254740992}'],
  ['[1,2]', '[2,1]'],
  ['["a",":b"]', '["a:","b"]'],
])('MRTR-05: a state that was issued for %s is refused in %s', (first, then) => {
  expect(() => reopened(first, then)).toThrow('another request');
});
