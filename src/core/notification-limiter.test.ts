import { describe, expect, test } from 'vitest';
import type { Notification } from '../protocol/mcp/model.js';
import { resultOf } from '../protocol/mcp/translate/result.js';
import { Cancellation } from './caller.js';
import { complete } from './gateway.js';
import { Flow, type FlowLimits } from './notification-limiter.js';

const LIMITS: FlowLimits = {
  events: { burst: 10, second: 100 },
  bytes: { burst: 1_000, second: 1_000 },
  flood: { burst: 100, second: 1 },
};
const DONE = complete(resultOf({ content: [] }));
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const progress = (value: number, message?: string): Notification => ({
  method: 'notifications/progress',
  params: { progress: value, ...(message !== undefined && { message }) },
});
const line = (n: number): Notification => ({ method: 'notifications/message', params: { level: 'info', data: n } });

function start(): { flow: Flow; heard: unknown[]; call: Cancellation } {
  const heard: unknown[] = [];
  const call = new Cancellation();
  const flow = new Flow(call, ({ params }) => heard.push(params['progress'] ?? params['data']), LIMITS);
  return { flow, heard, call };
}

describe('what a server says beside its answer', () => {
  test('passes as it is while it is little', () => {
    const { flow, heard } = start();
    for (let i = 1; i <= 10; i++) flow.notify(progress(i));
    expect(heard).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(flow.settle(DONE)).toBe(DONE);
    expect(heard).toHaveLength(10);
  });

  test('is thinned out to the newest progress, which goes ahead of the answer', () => {
    const { flow, heard } = start();
    for (let i = 1; i <= 50; i++) flow.notify(progress(i));
    expect(heard.length).toBeLessThan(15);
    expect(flow.settle(DONE)).toBe(DONE);
    expect(heard.at(-1)).toBe(50);
    expect(heard).toEqual([...new Set(heard)]);
  });

  test('goes on when there is room again, without an answer', async () => {
    const { flow, heard } = start();
    for (let i = 1; i <= 50; i++) flow.notify(progress(i));
    await sleep(150);
    expect(heard.at(-1)).toBe(50);
    flow.notify(progress(51));
    expect(heard.at(-1)).toBe(51);
  });

  test('counts by its length too', () => {
    const { flow, heard } = start();
    for (let i = 1; i <= 5; i++) flow.notify(progress(i, 'x'.repeat(600)));
    expect(heard).toEqual([1, 2]);
  });

  test('loses log lines where they are too many, and nothing of another kind', () => {
    const { flow, heard } = start();
    for (let i = 1; i <= 50; i++) flow.notify(line(i));
    expect(heard.length).toBeLessThan(15);
    flow.notify({ method: 'notifications/other', params: { data: 'told' } });
    expect(heard.at(-1)).toBe('told');
    flow.settle(DONE);
    expect(heard.at(-1)).toBe('told');
  });

  test('ends the call where it is a flood, once, and with a reason', () => {
    const { flow, heard, call } = start();
    for (let i = 1; i <= 1_000; i++) flow.notify(progress(i));
    expect(flow.cancellation.cancelled).toBe(true);
    expect(call.cancelled).toBe(false);
    expect(flow.settle(DONE)).toMatchObject({
      kind: 'error',
      error: { reason: 'upstream_error', detail: { outcome: 'unknown' } },
    });
    expect(heard.length).toBeLessThan(15);
  });

  test('stops with the call', async () => {
    const { flow, heard, call } = start();
    for (let i = 1; i <= 50; i++) flow.notify(progress(i));
    const before = heard.length;
    call.cancel('enough');
    expect(flow.cancellation.reason).toBe('enough');
    await sleep(150);
    flow.settle(DONE);
    expect(heard).toHaveLength(before);
  });
});
