import { expect, test } from 'vitest';
import { type AuditRecord, NO_AUDIT } from '../core/audit-trail.js';
import { principalOf } from '../core/caller.js';
import { ProtocolError } from '../protocol/errors.js';
import { AuditedRefusals } from './audited-refusals.js';

const SECRET = 'canary-3f2a';
const UNAUTHORIZED = new ProtocolError('unauthorized', `no ${SECRET}`);

function trailOf() {
  const records: AuditRecord[] = [];
  const refusals = new AuditedRefusals({ ...NO_AUDIT, record: (record) => void records.push(record) });
  const request = (authorization: string | undefined, peer = '192.0.2.1') => ({
    url: `/mcp?token=${SECRET}`,
    peer,
    id: 'r1',
    headers: { authorization } as Record<string, string | undefined>,
    header(name: string): string | undefined {
      return this.headers[name];
    },
  });
  return { records, refusals, request };
}

test('S24: a refusal names address, path and scheme, and no secret', () => {
  const { records, refusals, request } = trailOf();
  refusals.refused(request(`Bearer ${SECRET}`), UNAUTHORIZED);
  refusals.refused(request(SECRET), UNAUTHORIZED);
  refusals.refused(request(undefined), UNAUTHORIZED);
  refusals.refused(request('Bearer x'), new ProtocolError('forbidden', ''), principalOf({ subject: 'ada' }));
  const base = { kind: 'authentication', outcome: 'refused', address: '192.0.2.1', path: '/mcp', requestId: 'r1' };
  expect(records).toEqual([
    { ...base, reason: 'unauthorized', method: 'bearer' },
    { ...base, reason: 'unauthorized', method: 'other' },
    { ...base, reason: 'unauthorized' },
    { ...base, reason: 'forbidden', method: 'bearer', caller: 'ada' },
  ]);
  expect(JSON.stringify(records)).not.toContain(SECRET);
});

test('a flood from one address is counted, and other addresses are still recorded', () => {
  const { records, refusals, request } = trailOf();
  for (let i = 0; i < 5_000; i++) refusals.refused(request('Bearer x'), UNAUTHORIZED);
  expect(records.length).toBeLessThan(30);
  refusals.refused(request('Bearer x', '192.0.2.2'), UNAUTHORIZED);
  expect(records.at(-1)).toMatchObject({ address: '192.0.2.2' });
});

test('a flood from many addresses is bounded', () => {
  const { records, refusals, request } = trailOf();
  for (let i = 0; i < 20_000; i++) refusals.refused(request('Bearer x', `2001:db8::${i.toString(16)}`), UNAUTHORIZED);
  expect(records.length).toBeLessThan(1_500);
});
