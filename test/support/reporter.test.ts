import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const REPORTER = fileURLToPath(new URL('./reporter.ts', import.meta.url));
const VITEST = path.join(path.dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-reporter-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs vitest on one file with this text. Returns the exit code and the lines of the output. */
function run(text: string, ...flags: string[]): Promise<{ code: number; lines: string[] }> {
  writeFileSync(path.join(folder, 'some.test.js'), text);
  const args = [VITEST, 'run', '--root', folder, '--globals', '--reporter=default', `--reporter=${REPORTER}`, ...flags];
  const env = { PATH: process.env['PATH'] ?? '', NO_COLOR: '1' };
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: folder, env }, (error, stdout) => {
      const code = error === null ? 0 : Number(error.code);
      resolve({ code, lines: stdout.trimEnd().split('\n') });
    });
  });
}

const GOOD = `test('a', () => {}); test('b', () => {});`;

test.each([
  ['all well', GOOD, 0, '2 passed, 0 failed'],
  ['one fails', `${GOOD} test('c', () => { throw new Error('no'); });`, 1, '2 passed, 1 failed'],
  ['one is skipped', `${GOOD} test.skip('c', () => {});`, 1, '2 passed, 1 failed'],
  ['one skips itself', `${GOOD} test('c', ({ skip }) => skip());`, 1, '2 passed, 1 failed'],
  ['one is still to be written', `${GOOD} test.todo('c');`, 1, '2 passed, 1 failed'],
  [
    'a block is skipped',
    `${GOOD} describe.skip('c', () => { test('d', () => {}); test('e', () => {}); });`,
    1,
    '2 passed, 2 failed',
  ],
  ['a file cannot be read', 'this is not a test', 1, '0 passed, 1 failed'],
  [
    'an error outside of any test',
    `${GOOD} setTimeout(() => { throw new Error('late'); }); test('c', () => new Promise((done) => setTimeout(done, 50)));`,
    1,
    '3 passed, 1 failed',
  ],
])('%s: the last line and the exit code agree', async (_, text, code, line) => {
  const result = await run(text);
  expect({ code: result.code, line: result.lines.at(-1) }).toEqual({ code, line });
});

test('names a test that was not run', async () => {
  expect((await run(`${GOOD} test.skip('c', () => {});`)).lines).toContain(
    'not run, so it counts as failed: some.test.js > c',
  );
});

test('does not count tests that a name pattern excludes', async () => {
  const result = await run(GOOD, '-t', '^a$');
  expect({ code: result.code, line: result.lines.at(-1) }).toEqual({ code: 0, line: '1 passed, 0 failed' });
});
