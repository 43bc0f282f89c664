import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { LOG_LIMITS, LoggedStream } from './event-log.js';
import { ReconnectWindow } from './reconnect-window.js';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const absent = (stream?: LoggedStream) => {
  const over = vi.fn();
  return { absence: new ReconnectWindow({ window: 1_000, stream: () => stream, over }), over };
};
const SINK = { event: () => {}, end: () => {} };

it('ends once, after the client was disconnected for the whole window', () => {
  const { over } = absent();
  vi.advanceTimersByTime(999);
  expect(over).not.toHaveBeenCalled();
  vi.advanceTimersByTime(10_000);
  expect(over).toHaveBeenCalledTimes(1);
});

it('never ends if the call was answered', () => {
  const { absence, over } = absent();
  absence.end();
  vi.advanceTimersByTime(10_000);
  expect(over).not.toHaveBeenCalled();
});

it('counts from the client’s last disconnect', () => {
  const stream = new LoggedStream('s', LOG_LIMITS);
  const { over } = absent(stream);
  vi.advanceTimersByTime(500);
  stream.connect(SINK);
  vi.advanceTimersByTime(5_000);
  stream.disconnect(SINK);
  vi.advanceTimersByTime(900);
  expect(over).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1_000);
  expect(over).toHaveBeenCalledTimes(1);
});

it('counts from the last report that another replica serves the client', () => {
  const stream = new LoggedStream('s', LOG_LIMITS);
  const { over } = absent(stream);
  for (let i = 0; i < 10; i++) {
    vi.advanceTimersByTime(500);
    stream.leftAt = performance.now();
  }
  expect(over).not.toHaveBeenCalled();
  vi.advanceTimersByTime(2_000);
  expect(over).toHaveBeenCalledTimes(1);
});
