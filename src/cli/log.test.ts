import pino from 'pino';
import { expect, test } from 'vitest';
import { createLog, textDestination } from './log.js';

function lines(write: (log: pino.Logger) => void): string[] {
  const out: string[] = [];
  const options = { base: null, timestamp: pino.stdTimeFunctions.isoTime };
  write(
    pino(
      options,
      textDestination((line) => out.push(line)),
    ),
  );
  return out;
}

test('a line for people: time, level, message, fields', () => {
  const [line] = lines((log) => log.info({ server: 'weather', tools: 3, why: 'two words' }, 'ready'));
  expect(line).toMatch(/^\d\d:\d\d:\d\d\.\d{3} INFO {2}ready server=weather tools=3 why="two words"\n$/);
});

test('an error shows its message and no stack', () => {
  const [line] = lines((log) => log.error(new Error('broken')));
  expect(line).toMatch(/ERROR broken\n$/);
  const [other] = lines((log) => log.error({ err: new Error('broken') }, 'cannot start'));
  expect(other).toMatch(/ERROR cannot start: broken\n$/);
});

test('what a stranger sent can neither forge a line nor move the cursor', () => {
  const [line] = lines((log) => log.warn({ name: 'x\u001b[2J\ny' }, 'odd \u001b[31m\nINFO all is well'));
  expect(line?.match(/\n/g)).toHaveLength(1);
  expect(line).not.toContain('\u001b');
});

test('the level is the one configured', () => {
  expect(createLog({ level: 'warn', format: 'text' }).level).toBe('warn');
  expect(createLog({ level: 'silent', format: 'json' }).level).toBe('silent');
});
