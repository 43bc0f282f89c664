import { expect, test } from 'vitest';
import type { CallRecord } from '../core/audit-trail.js';
import { textOf } from './audit-record-json.js';

const full: Required<CallRecord> = {
  kind: 'call',
  phase: 'intent',
  protocol: 'mcp',
  method: 'tools/call',
  caller: 'ada',
  issuer: 'https://login.example',
  tenant: 'north',
  roles: ['user', 'ad"min'],
  address: '127.0.0.1',
  account: 'root',
  server: 'files',
  target: 'tool',
  name: 'files__read',
  arguments: 'k1:0123456789abcdef',
  decision: 'allowed',
  rule: 'readers',
  by: 'bob',
  outcome: 'error',
  reason: -32602,
  ms: 1.5,
  trace: '0af7651916cd43dd8448eb211c80319c',
  requestId: 'r-1',
};

test('the text of a call has every member', () => {
  expect(textOf(full)).toBe(JSON.stringify(full));
  expect(textOf({ ...full, reason: 'timeout', ms: 0 })).toBe(JSON.stringify({ ...full, reason: 'timeout', ms: 0 }));
});

test('members that are absent or undefined are left out', () => {
  const { kind, protocol, method, caller, requestId } = full;
  const least: CallRecord = { kind, protocol, method, caller, requestId };
  expect(textOf(least)).toBe(JSON.stringify(least));
  const empty = Object.fromEntries(Object.keys(full).map((key) => [key, undefined]));
  expect(textOf({ ...empty, ...least } as CallRecord)).toBe(JSON.stringify(least));
});

test('any text is quoted as JSON', () => {
  for (const text of ['', 'a"b', 'a\\', '\n', '\0', '\u2028', 'é😀', '\ud800', 'x'.repeat(500), '__proto__']) {
    const record: CallRecord = {
      ...full,
      ...{ method: text, caller: text, name: text, rule: text, reason: text, trace: text, requestId: text },
    };
    for (let again = 0; again < 2; again++) expect(textOf(record)).toBe(JSON.stringify(record));
  }
});

test('other records are JSON', () => {
  const record = { kind: 'event', event: 'pin.changed', subject: 'x' } as const;
  expect(textOf(record)).toBe(JSON.stringify(record));
});
