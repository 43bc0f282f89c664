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

it('is over once, when the client was away for the whole window', () => {
  const { over } = absent();
  vi.advanceTimersByTime(999);
  expect(over).not.toHaveBeenCalled();
  vi.advanceTimersByTime(10_000);
  expect(over).toHaveBeenCalledTimes(1);
});

it('is never over where the call was answered', () => {
  const { absence, over } = absent();
  absence.end();
  vi.advanceTimersByTime(10_000);
  expect(over).not.toHaveBeenCalled();
});

it('counts from when the client left last', () => {
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

it('counts from when another replica was last heard to serve the client', () => {
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
