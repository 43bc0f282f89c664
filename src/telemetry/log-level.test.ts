import pino from 'pino';
import { expect, test } from 'vitest';
import { followLevelSignal, LogLevelSwitch } from './log-level.js';

const logAt = (level: string) => {
  const lines: string[] = [];
  return { lines, log: pino({ level, base: null }, { write: (line: string) => void lines.push(line) }) };
};

test('the level switches to debug and back, and a log line reports each change', () => {
  const { log, lines } = logAt('warn');
  const levels = new LogLevelSwitch(log);
  levels.toggle();
  expect(log.level).toBe('debug');
  expect(lines[0]).toContain('"to":"debug"');
  levels.toggle();
  expect(log.level).toBe('warn');
  expect(lines).toHaveLength(2);
  levels.set('error');
  levels.toggle();
  levels.toggle();
  expect(log.level).toBe('error');
});

test('a log whose level is debug already keeps this level', () => {
  const { log } = logAt('trace');
  new LogLevelSwitch(log).toggle();
  expect(log.level).toBe('trace');
});

test('SIGUSR2 switches the level, until the signal is no longer followed', async () => {
  const { log, lines } = logAt('info');
  const stop = followLevelSignal(new LogLevelSwitch(log));
  process.emit('SIGUSR2');
  expect(log.level).toBe('debug');
  // The line has one key "level": that of the log itself.
  expect(lines[0]?.match(/"level"/g)).toHaveLength(1);
  stop();
  expect(process.listenerCount('SIGUSR2')).toBe(0);
});
