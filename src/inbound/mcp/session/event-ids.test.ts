import { expect, test } from 'vitest';
import { eventId, requestOf, requestPart } from './event-ids.js';

test.each([0, 7, Number.MAX_SAFE_INTEGER, 'a', 'request-1', '7', 'größe', '5a3c5a0e-9d0e-4b0f-8f57-6a3f7f0f6c11'])(
  'an event id names its request %j',
  (request) => {
    const id = eventId(`d1bd8ad57cf4-1-${requestPart(request)}r0`, 302);
    expect(id).toMatch(/^[A-Za-z0-9-]{1,128}\.302$/);
    expect(requestOf(id)).toBe(request);
  },
);

test.each([-1, 0.5, 1e300, '', 'x'.repeat(41), undefined])('request %j is left out of an event id', (request) => {
  expect(requestPart(request)).toBe('');
});

test.each(['', 'r0.1', '-n1-r0', '-n-r0.1', '-tZZ-r0.1', '-t616-r0.1', `-n${'9'.repeat(17)}-r0.1`, 'x'.repeat(10_000)])(
  'the id %j names no request',
  (id) => expect(requestOf(id)).toBeUndefined(),
);
