import { describe, expect, test } from 'vitest';
import type { Notification } from '../protocol/mcp/model.js';
import { resultOf } from '../protocol/mcp/translate/result.js';
import { Cancellation } from './caller.js';
import { complete } from './gateway.js';
import { NotificationLimiter, type NotificationLimits } from './notification-limiter.js';
import { sleep } from './timing.js';

const LIMITS: NotificationLimits = {
  events: { burst: 10, second: 100 },
  bytes: { burst: 1_000, second: 1_000 },
  flood: { burst: 100, second: 1 },
};
const DONE = complete(resultOf({ content: [] }));

const progress = (value: number, message?: string): Notification => ({
  method: 'notifications/progress',
  params: { progress: value, ...(message !== undefined && { message }) },
});
const line = (n: number): Notification => ({ method: 'notifications/message', params: { level: 'info', data: n } });

function start(): { limiter: NotificationLimiter; heard: unknown[]; call: Cancellation } {
  const heard: unknown[] = [];
  const call = new Cancellation();
  const limiter = new NotificationLimiter(
    call,
    ({ params }) => heard.push(params['progress'] ?? params['data']),
    LIMITS,
  );
  return { limiter, heard, call };
}

describe('notifications of a server during a call', () => {
  test('pass unchanged below the limit', () => {
    const { limiter, heard } = start();
    for (let i = 1; i <= 10; i++) limiter.notify(progress(i));
    expect(heard).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(limiter.settle(DONE)).toBe(DONE);
    expect(heard).toHaveLength(10);
  });

  test('beyond the limit only the newest progress passes, before the answer', () => {
    const { limiter, heard } = start();
    for (let i = 1; i <= 50; i++) limiter.notify(progress(i));
    expect(heard.length).toBeLessThan(15);
    expect(limiter.settle(DONE)).toBe(DONE);
    expect(heard.at(-1)).toBe(50);
    expect(heard).toEqual([...new Set(heard)]);
  });

  test('resume once the limit allows, before any answer', async () => {
    const { limiter, heard } = start();
    for (let i = 1; i <= 50; i++) limiter.notify(progress(i));
    await sleep(150);
    expect(heard.at(-1)).toBe(50);
    limiter.notify(progress(51));
    expect(heard.at(-1)).toBe(51);
  });

  test('count by their length too', () => {
    const { limiter, heard } = start();
    for (let i = 1; i <= 5; i++) limiter.notify(progress(i, 'x'.repeat(600)));
    expect(heard).toEqual([1, 2]);
  });

  test('beyond the limit log messages are dropped, and no other kind', () => {
    const { limiter, heard } = start();
    for (let i = 1; i <= 50; i++) limiter.notify(line(i));
    expect(heard.length).toBeLessThan(15);
    limiter.notify({ method: 'notifications/other', params: { data: 'told' } });
    expect(heard.at(-1)).toBe('told');
    limiter.settle(DONE);
    expect(heard.at(-1)).toBe('told');
  });

  test('a flood ends the call once, with a reason', () => {
    const { limiter, heard, call } = start();
    for (let i = 1; i <= 1_000; i++) limiter.notify(progress(i));
    expect(limiter.cancellation.cancelled).toBe(true);
    expect(call.cancelled).toBe(false);
    expect(limiter.settle(DONE)).toMatchObject({
      kind: 'error',
      error: { reason: 'upstream_error', detail: { outcome: 'unknown' } },
    });
    expect(heard.length).toBeLessThan(15);
  });

  test('stop with the call', async () => {
    const { limiter, heard, call } = start();
    for (let i = 1; i <= 50; i++) limiter.notify(progress(i));
    const before = heard.length;
    call.cancel('enough');
    expect(limiter.cancellation.reason).toBe('enough');
    await sleep(150);
    limiter.settle(DONE);
    expect(heard).toHaveLength(before);
  });
});
