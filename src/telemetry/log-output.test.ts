import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import pino from 'pino';
import { expect, test } from 'vitest';
import { callLog, createLog, textDestination } from './log-output.js';

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

test('a text line has time, level, message and fields', () => {
  const [line] = lines((log) => log.info({ server: 'weather', tools: 3, why: 'two words' }, 'ready'));
  expect(line).toMatch(/^\d\d:\d\d:\d\d\.\d{3} INFO {2}ready server=weather tools=3 why="two words"\n$/);
});

test('an error shows its message and no stack', () => {
  const [line] = lines((log) => log.error(new Error('broken')));
  expect(line).toMatch(/ERROR broken\n$/);
  const [other] = lines((log) => log.error({ err: new Error('broken') }, 'cannot start'));
  expect(other).toMatch(/ERROR cannot start: broken\n$/);
});

test('text from a peer can neither forge a line nor move the cursor', () => {
  const [line] = lines((log) => log.warn({ name: 'x\u001b[2J\ny' }, 'odd \u001b[31m\nINFO all is well'));
  expect(line?.match(/\n/g)).toHaveLength(1);
  expect(line).not.toContain('\u001b');
});

test('the log has the configured level', () => {
  expect(createLog({ level: 'warn', format: 'text' }).level).toBe('warn');
  expect(createLog({ level: 'silent', format: 'json' }).level).toBe('silent');
});

test('text lines have colors if the style asks for them', () => {
  const out: string[] = [];
  const destination = textDestination((line) => out.push(line), { width: 80, color: true });
  const log = pino({ base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination);
  log.warn({ event: 'server.down', server: 'fs', why: 'it ended' }, 'server is down');
  log.info('plain');
  expect(out[0]).toMatch(/^\S+ \u001b\[33mWARN \u001b\[0m server fs is down: it ended\n$/);
  expect(out[1]).toMatch(/^\S+ INFO {2}plain\n$/);
});

test('calls are logged at info in JSON and at debug in text', () => {
  const at = (format: 'json' | 'text', level: 'info' | 'debug') =>
    callLog(createLog({ format, level }), { format, level }, false).enabled();
  expect([at('json', 'info'), at('text', 'info'), at('text', 'debug')]).toEqual([true, false, true]);
});

test.each(['process.exit(3)', ''])('no line is lost when the process ends with "%s"', (end) => {
  const file = fileURLToPath(new URL('./log-output.ts', import.meta.url));
  const loader = fileURLToPath(new URL('../../test/support/ts.mjs', import.meta.url));
  const program = `
    import { callLog, createLog } from ${JSON.stringify(file)};
    const settings = { level: 'info', format: 'json' };
    const log = createLog(settings);
    callLog(log, settings).write({ event: 'call', caller: 'ada "\\n' });
    for (let line = 0; line < 1000; line++) log.info({ line }, 'said');
    ${end}`;
  const { stderr } = spawnSync(process.execPath, ['--import', loader, '--input-type=module', '--eval', program]);
  const lines = stderr.toString().trimEnd().split('\n');
  expect(lines).toHaveLength(1001);
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  // Lines that are still buffered at the end are written synchronously. They may come before earlier lines whose
  // asynchronous write is not complete.
  const written = lines.map((line) => JSON.parse(line)).sort((a, b) => (a.line ?? -1) - (b.line ?? -1));
  // The line of a call has the same format as other lines.
  expect(written[0]).toEqual({ level: 30, time, event: 'call', caller: 'ada "\n', msg: 'call' });
  expect(written.slice(1)).toEqual(Array.from({ length: 1000 }, (_, line) => ({ level: 30, time, line, msg: 'said' })));
});
