import { expect, it } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import { refusal } from './http-status-errors.js';

const NONE = Buffer.alloc(0);

function limited(retryAfter: string): { data: unknown; headers: unknown } {
  const error = refusal({ name: 'it' }, 429, ['retry-after', retryAfter], NONE);
  if (!(error instanceof ProtocolError)) throw new Error('not a ProtocolError');
  expect(error.reason).toBe('upstream_rate_limited');
  return { data: error.detail.data, headers: error.detail.headers };
}

it.each(['0', '120', 'Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994'])(
  'passes on a valid Retry-After: %s',
  (retryAfter) => {
    expect(limited(retryAfter)).toEqual({
      data: { server: 'it', status: 429, retryAfter },
      headers: { 'Retry-After': retryAfter },
    });
  },
);

it.each(['', 'soon\xe9', 'soon', '-1', '1.5', '1, 2', '9'.repeat(40), 'Sun, 06 Nov 1994 08:49:37 GMT\xe9'])(
  'does not pass on an invalid Retry-After: %s',
  (retryAfter) => {
    expect(limited(retryAfter)).toEqual({ data: { server: 'it', status: 429 }, headers: undefined });
  },
);
