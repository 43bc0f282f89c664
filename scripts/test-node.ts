/**
 * Runs the tests with another version of Node: `npm run test:node -- 22` runs the tests of `npm test`, and
 * `npm run test:node -- 22 src/core` runs those files, as `vitest run src/core` does.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { nodeOfMajor } from '../test/support/other-node.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const [version = '', ...tests] = process.argv.slice(2);
const major = Number(version.replace(/^v/, '').split('.')[0]);
if (!(major >= 20)) {
  console.error('The version of Node is missing: npm run test:node -- 22 [tests]. The gateway needs Node 20 or later.');
  process.exit(2);
}

// First on the PATH, so that every program with `#!/usr/bin/env node` uses this version, including npm.
const folder = mkdtempSync(join(tmpdir(), 'parley-node-'));
symlinkSync(await nodeOfMajor(major), join(folder, 'node'));
const env = { ...process.env, PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}` };
const command = tests.length > 0 ? ['exec', '--', 'vitest', 'run', ...tests] : ['test'];
const child = spawn('npm', command, { cwd: ROOT, env, stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
child.once('close', (code, signal) => {
  rmSync(folder, { recursive: true, force: true });
  process.exitCode = signal ? 1 : (code ?? 1);
});
