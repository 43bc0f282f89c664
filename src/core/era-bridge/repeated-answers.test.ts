import { expect, test } from 'vitest';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { complete, failed, type Outcome } from '../gateway.js';
import { RepeatedAnswers } from './repeated-answers.js';

const said = (text: string): Outcome => complete(RawObject.from({ content: [{ type: 'text', text }] }));
const textOf = (outcome: Outcome | 'different' | undefined): string | undefined =>
  typeof outcome === 'object' && outcome.kind === 'complete' ? outcome.result.bytes().toString() : undefined;

test('returns the outcome only for the same caller, round and answer', () => {
  const answered = new RepeatedAnswers();
  answered.keep('call', 'ada', 2, 'yes', said('done'));
  expect(textOf(answered.find('call', 'ada', 2, 'yes'))).toBe('{"content":[{"type":"text","text":"done"}]}');
  expect(answered.find('call', 'ada', 2, 'no')).toBe('different');
  expect(answered.find('call', 'ada', 1, 'yes')).toBeUndefined();
  expect(answered.find('call', 'bob', 2, 'yes')).toBeUndefined();
  expect(answered.find('other', 'ada', 2, 'yes')).toBeUndefined();
});

test('returns an error of the server again, and does not keep a cancelled call', () => {
  const answered = new RepeatedAnswers();
  answered.keep('failed', 'ada', 1, 'yes', failed(new UpstreamRpcError(-32000, 'no', { why: 1 })));
  const found = answered.find('failed', 'ada', 1, 'yes');
  expect(typeof found === 'object' && found.kind === 'error' && found.error).toMatchObject({ code: -32000 });
  answered.keep('given up', 'ada', 1, 'yes', failed(new ProtocolError('cancelled', 'over')));
  expect(answered.find('given up', 'ada', 1, 'yes')).toBeUndefined();
});

test('keeps outcomes for a limited time', () => {
  let now = 0;
  const answered = new RepeatedAnswers(() => now);
  answered.keep('call', 'ada', 1, 'yes', said('done'));
  now = 59_000;
  expect(answered.find('call', 'ada', 1, 'yes')).toBeDefined();
  now = 61_000;
  expect(answered.find('call', 'ada', 1, 'yes')).toBeUndefined();
  expect(answered.size).toBe(0);
});

test('keeps a limited number and drops the oldest first', () => {
  let now = 0;
  const answered = new RepeatedAnswers(() => now);
  for (let n = 0; n < 1_000; n++) answered.keep(`call-${n}`, 'ada', 1, 'yes', said('done'));
  expect(answered.size).toBe(256);
  expect(answered.find('call-743', 'ada', 1, 'yes')).toBeUndefined();
  expect(answered.find('call-744', 'ada', 1, 'yes')).toBeDefined();
  const large = 'x'.repeat(1_000_000);
  for (let n = 0; n < 20; n++) answered.keep(`large-${n}`, 'ada', 1, 'yes', said(large));
  expect(answered.size).toBe(8);
  answered.keep('too large', 'ada', 1, 'yes', said(large.repeat(2)));
  expect(answered.find('too large', 'ada', 1, 'yes')).toBeUndefined();
  now = 60_000;
  answered.keep('last', 'ada', 1, 'yes', said('done'));
  expect(answered.size).toBe(1);
});
