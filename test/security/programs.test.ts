/** S1: programs come from the configuration file only, and no API of the gateway starts one. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Runtime } from '../../src/app/runtime.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import type { Registry } from '../../src/state/index.js';
import { SILENT } from '../../src/telemetry/log.js';

let folder: string;
const open: { close(): Promise<unknown> }[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parley-programs-'));
});
afterEach(async () => {
  for (const part of open.splice(0).reverse()) await part.close();
  rmSync(folder, { recursive: true, force: true });
});

const configOf = (more: object = {}) =>
  configFrom({ listen: '127.0.0.1:0', data: join(folder, 'data'), timeouts: { drain: '1s' }, ...more }, { env: {} })
    .config;
const started = async (): Promise<Runtime> => {
  const runtime = await Runtime.build(configOf(), { name: 'parley', version: 'test' }, SILENT);
  open.push(runtime);
  return runtime;
};
const touched = (): string => join(folder, 'touched');
const program = (): object => ({ command: '/bin/sh', args: ['-c', `echo x > ${touched()}`] });

describe('S1: a program', () => {
  test.each([
    ['command', () => program()],
    ['command beside a url', () => ({ url: 'http://127.0.0.1:9/mcp', ...program() })],
    ['the form of other clients', () => ({ type: 'stdio', ...program() })],
    ['env of a program', () => ({ url: 'http://127.0.0.1:9/mcp', env: { LD_PRELOAD: '/tmp/x.so' } })],
    ['a file of variables', () => ({ url: 'http://127.0.0.1:9/mcp', envFile: '/etc/passwd' })],
    ['a working directory', () => ({ url: 'http://127.0.0.1:9/mcp', cwd: '/' })],
  ])('cannot be registered while the gateway runs: %s', async (_, settings) => {
    const runtime = await started();
    await expect(runtime.mcp.servers.put('added', settings())).rejects.toThrow(/configuration file|both a url/);
    expect(runtime.mcp.servers.all).toEqual({});
    expect(existsSync(touched())).toBe(false);
  });

  test('is not started from an entry that somebody wrote into the database', async () => {
    const runtime = await started();
    await (runtime.state.registry as Registry<object>).put('server', 'planted', { settings: program() });
    await (runtime.state.registry as Registry<object>).put('server', 'good', {
      settings: { url: 'http://127.0.0.1:9/' },
    });
    await expect.poll(() => Object.keys(runtime.mcp.servers.all), { timeout: 10_000 }).toEqual(['good']);
    expect(existsSync(touched())).toBe(false);
  });

  test('is read by one function for registrations, and every registration uses it', () => {
    const sources = execFileSync('git', ['ls-files', 'src/*.ts'], { encoding: 'utf8' }).trim().split('\n');
    const code = sources.filter((file) => !file.endsWith('.test.ts'));
    const users = (pattern: RegExp): string[] => code.filter((file) => pattern.test(readFileSync(file, 'utf8')));
    // `readEntry` of src/cluster and src/protocol are other functions.
    const ofConfig = /import \{[^}]*\breadEntry\b[^}]*\} from '[^']*config\/upstream-entry\.js'/;
    // `parley import` writes the configuration file of its operator, and registers nothing.
    expect(users(ofConfig)).toEqual(['src/cli/commands/import.ts']);
    // A trial and an assessment before the registration read the settings in the same way.
    expect(users(/import \{[^}]*\breadRegistration\b[^}]*\}/)).toEqual([
      'src/app/mcp-runtime.ts',
      'src/app/registration-assessment.ts',
      'src/app/registrations.ts',
    ]);
    // Only the builder of upstreams takes a command, and only the folder of processes starts one.
    expect(users(/from 'node:child_process'/).every((file) => file.startsWith('src/outbound/stdio/'))).toBe(true);
  });

  test('is not started by any route', async () => {
    const token = 'user-0123456789abcdef0123456789abcdef';
    const admin = 'admin-k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH';
    const tokens = [
      { name: 'ada', token },
      { name: 'root', token: admin, admin: true },
    ];
    const gateway = await startServe(configOf({ auth: { tokens } }), { log: SILENT });
    open.push(gateway);
    const before = children();
    const body = JSON.stringify({
      name: 'x',
      server_id: 'x',
      ...program(),
      settings: program(),
      servers: { x: program() },
    });
    for (const { method, path } of gateway.routes) {
      const url = gateway.url + path.replace(/\{\w+\}/g, 'x');
      if (method === 'GET') continue;
      for (const given of [token, admin]) {
        const headers = { authorization: `Bearer ${given}`, 'content-type': 'application/json' };
        const reply = await fetch(url, { method, headers, body: method === 'DELETE' ? null : body });
        await reply.text();
        expect(reply.status, `${method} ${path}`).not.toBe(201);
      }
    }
    expect(children()).toEqual(before);
    expect(existsSync(touched())).toBe(false);
  });
});

/** The child processes of this process. */
const children = (): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return (
          readFileSync(`/proc/${pid}/stat`, 'utf8')
            .replace(/^.*\) /s, '')
            .split(' ')[1] === String(process.pid)
        );
      } catch {
        return false;
      }
    });
