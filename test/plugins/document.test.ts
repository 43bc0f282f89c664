/** Compiles and runs the examples of `docs/plugins.md`, and the files that `parley plugin new` writes. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, symlinkSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { configFrom } from '../../src/config/load.js';
import { HOOKS } from '../../src/plugins/api.js';
import { type EchoServer, startEcho } from '../input/support/echo.js';
import { modern, modernCall } from '../input/support/speak.js';
import { listening } from '../support/fixture-address.js';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DOCUMENT = readFileSync(path.join(ROOT, 'docs/plugins.md'), 'utf8');
const SECRET = 'review-0123456789abcdef0123456789abcdef';
/** The examples by file name. */
const EXAMPLES = new Map(
  [...DOCUMENT.matchAll(/^```(?:ts|python) (\S+)\n([\s\S]*?)^```$/gm)].map(([, name, text]) => [name!, text!]),
);

const folder = mkdtempSync(path.join(tmpdir(), 'parley-plugins-'));
let echo: EchoServer;
let receiver: ChildProcess;
let gateway: RunningGateway;

const compile = (...files: string[]) =>
  run(
    path.join(ROOT, 'node_modules/.bin/tsc'),
    [
      ...['--strict', '--noUncheckedIndexedAccess', '--target', 'es2023', '--module', 'nodenext', '--types', 'node'],
      ...['--typeRoots', path.join(ROOT, 'node_modules/@types'), '--allowJs', '--outDir', path.join(folder, 'out')],
      ...files,
    ],
    { cwd: folder },
  ).catch((error: { stdout: string }) => {
    throw new Error(error.stdout);
  });

beforeAll(async () => {
  await mkdir(path.join(folder, 'node_modules'));
  symlinkSync(ROOT, path.join(folder, 'node_modules/parley'));
  await writeFile(path.join(folder, 'package.json'), '{ "type": "module" }');
  for (const [name, text] of EXAMPLES) await writeFile(path.join(folder, name), text);
  await compile('office-hours.ts', 'signed-results.ts');
  echo = await startEcho();
  const env = { ...process.env, REVIEW_SECRET: SECRET };
  receiver = spawn('python3', ['receiver.py'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] });
  gateway = await startGateway({
    servers: { work: { url: echo.url }, signed: { url: echo.url }, reviewed: { url: echo.url } },
    plugins: [
      // No hour is between 24 and 25 o'clock.
      { use: path.join(folder, 'out/office-hours.js'), servers: ['work'], options: { from: 24, to: 25 } },
      { use: path.join(folder, 'out/signed-results.js'), servers: ['signed'] },
      {
        ...{ name: 'review', url: await listening(receiver), secret: SECRET, hooks: ['onRequest'] },
        ...{ servers: ['reviewed'], timeout: '30s' },
      },
    ],
  });
});
afterAll(async () => {
  await gateway?.close();
  await echo?.close();
  receiver?.kill();
  await rm(folder, { recursive: true, force: true });
});

const say = async (server: string, text: string) =>
  (await modernCall(`${gateway.url}/mcp`, `${server}__echo`, { text })).json.result;

describe('the examples', () => {
  it('refuse a tool outside of office hours', async () => {
    expect((await say('work', 'hi')).content[0]?.text).toBe("This tool works from 24 to 25 o'clock UTC");
  });

  it('add a digest to results, and mark tools in lists', async () => {
    expect((await say('signed', 'hi'))._meta).toHaveProperty(['example.com/sha256']);
    const { tools } = (await modern(`${gateway.url}/mcp`, 'tools/list')).json.result;
    expect(tools.find(({ name }) => name === 'signed__echo')).toMatchObject({
      description: '[signed] Returns the text',
    });
  });

  it('decide in another language, with a signature that the example checks', async () => {
    expect((await say('reviewed', 'hi')).content[0]?.text).toBe('hi');
    expect((await say('reviewed', 'DROP TABLE users')).content[0]?.text).toBe('The review refused this call');
  });
});

it('the document names every hook, and its configurations are valid', () => {
  for (const hook of HOOKS) expect(DOCUMENT).toContain(`\`${hook}(`);
  for (const [, yaml] of DOCUMENT.matchAll(/^ *```yaml\n([\s\S]*?)^ *```$/gm)) {
    const { config, warnings } = configFrom(
      { ...parse(yaml!), servers: { s: { url: 'https://s.example/mcp' } } },
      { env: { REVIEW_SECRET: SECRET } },
    );
    expect(warnings).toEqual([]);
    expect(config.plugins.length).toBeGreaterThan(0);
  }
});

const TICKING = 'setInterval(() => {}, 1_000);';

it('parley plugin new writes a plugin that compiles with its types, passes its test and is valid', async () => {
  const cli = (...args: string[]) => run(process.execPath, [BIN, ...args], { cwd: folder });
  await cli('plugin', 'new', 'guard');
  await compile('--checkJs', 'guard.mjs', 'guard.test.mjs');
  const { stdout } = await run(process.execPath, ['--test', 'guard.test.mjs'], { cwd: folder });
  expect(stdout).toContain('pass 3');
  const { stdout: facts } = await cli('plugin', 'check', 'guard.mjs', '--json');
  expect(JSON.parse(facts)).toMatchObject({ ok: true, apiVersion: 1, hooks: ['onRequest', 'onResponse'], setup: true });
  await expect(cli('plugin', 'new', 'guard')).rejects.toMatchObject({ code: 2 });
  await expect(cli('plugin', 'new', '../guard')).rejects.toMatchObject({ code: 2 });
  // Code of the module that never ends does not keep the command from ending.
  await writeFile(path.join(folder, 'ticking.mjs'), `${TICKING}export default { apiVersion: 1, onAudit() {} };`);
  expect((await cli('plugin', 'check', 'ticking.mjs')).stdout).toContain('hooks: onAudit');
  await writeFile(path.join(folder, 'wrong.mjs'), 'export default { apiVersion: 1, onReqest() {} };');
  await expect(cli('plugin', 'check', 'wrong.mjs')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('unknown hook onReqest') as string,
  });
});
