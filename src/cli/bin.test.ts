import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/parley.js', import.meta.url));
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-bin-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the built program in its own process. */
function parley(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const env = { PATH: process.env['PATH'] ?? '' };
    execFile(process.execPath, [BIN, ...args], { cwd: folder, env }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
    });
  });
}

test('the program prints help, its version and errors with the right exit code, and never a stack trace', async () => {
  expect(await parley('--help')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('config check'),
    stderr: '',
  });
  expect(await parley('--version')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
  expect(await parley('sevre')).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining('did you mean serve?'),
  });
  writeFileSync(path.join(folder, 'parley.yaml'), 'listen: 0.0.0.0:4600\n');
  for (const command of [['serve'], ['config', 'check']]) {
    const { code, stdout, stderr } = await parley(...command);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/error: parley\.yaml:1: listen: "0\.0\.0\.0:4600" can be reached from other machines/);
    expect(stderr).not.toMatch(/\n\s+at /);
  }
});
