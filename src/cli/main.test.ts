import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { withCommandStorage } from '../app/commands/command-storage.js';
import type { Summary } from '../app/running-gateway.js';
import type { Environment } from '../config/expand-variables.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { PLAIN } from '../telemetry/terminal-style.js';
import { main } from './main.js';
import type { Starters } from './starters.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-cli-'));
  writeFileSync(
    path.join(folder, 'quickstart.yaml'),
    'servers: { hello: { command: node } }\nlog: { level: silent }\n',
  );
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (name: string, text: string): void => writeFileSync(path.join(folder, name), text);

interface Call {
  readonly config: Config;
  readonly options: { quickstart?: boolean; server?: string };
}

const SUMMARY: Summary = {
  upstreams: [{ kind: 'server', name: 'weather', state: 'up', count: 3, took: 120 }],
  endpoints: [{ label: 'MCP', address: 'http://127.0.0.1:4600/mcp' }],
  paste: [{ title: 'Claude Code', text: 'claude mcp add' }],
  page: 'http://127.0.0.1:4600/',
};

/** Runs one command line in `folder`, with starters that record their arguments. */
async function run(line: string, env: Environment = {}, starters: Partial<Starters> = {}, terminal = false) {
  let stdout = '';
  let stderr = '';
  const calls: Call[] = [];
  let closed = 0;
  let reported = 0;
  const code = await main(
    line.split(' ').filter((word) => word !== ''),
    {
      cwd: folder,
      env,
      quickstart: path.join(folder, 'quickstart.yaml'),
      style: PLAIN,
      terminal,
      stdout: (text) => {
        stdout += text;
      },
      stderr: (text) => {
        stderr += text;
      },
      starters: async () => ({
        lintTools: async () => ({
          findings: [
            {
              server: 'a',
              tool: 'send\u001b',
              rule: 'description_missing',
              severity: 'error',
              message: 'the tool has no description',
              withheld: true,
            },
          ],
          missing: ['b'],
        }),
        searchTools: async (_, __, { query, limit }) => ({
          tools:
            query === 'nothing'
              ? []
              : [{ name: 'a__send', server: 'a', score: limit, description: 'Sends\n\u001b[31mit' }],
          missing: [{ server: 'b', reason: 'connection refused' }],
        }),
        async startServe(config, options) {
          calls.push({ config, options });
          setImmediate(() => process.emit('SIGTERM', 'SIGTERM'));
          return {
            url: 'http://127.0.0.1:4600',
            routes: [],
            reload: async () => [],
            settled: async () => {},
            summary: () => SUMMARY,
            offer: async () => ({ servers: [], missing: [] }),
            reportChanges: () => {
              reported += 1;
            },
            async close() {
              closed += 1;
            },
          };
        },
        async startStdio(config, options) {
          calls.push({ config, options });
        },
        ...starters,
      }),
    },
  );
  return { code, stdout, stderr, calls, closed, reported };
}

const SERVERS =
  'servers: { weather: { url: "http://127.0.0.1:1/mcp" }, off: { command: x, enabled: false } }\nlog: { level: silent }\n';

describe('help and version', () => {
  test('go to stdout and end with 0', async () => {
    expect(await run('--help')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Usage: parley'),
      stderr: '',
    });
    for (const line of ['--help', 'serve --help']) {
      const { stdout } = await run(line);
      expect(stdout).toMatch(/\bMCP\b/);
      expect(stdout).toMatch(/\bA2A\b/);
      expect(stdout).toMatch(/^([\x20-\x7e]{0,120}\n)*$/);
    }
    expect(await run('stdio --help')).toMatchObject({ code: 0, stdout: expect.stringContaining('--server NAME') });
    const { version: expected } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    expect(await run('--version')).toMatchObject({ code: 0, stdout: `${expected}\n` });
  });

  test('without a command the first steps go to stderr, and the exit code is 2', async () => {
    const { code, stdout, stderr } = await run('');
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^([\x20-\x7e]{0,120}\n)*$/);
    expect(stderr.split('\n').length).toBeLessThan(20);
    for (const text of [
      'Usage: parley <command>',
      '  serve ',
      '  import [FILE] ',
      '  connect CLIENT ',
      'parley --help',
    ])
      expect(stderr).toContain(text);
  });

  test('a usage error exits with 2 and points to the help on stderr', async () => {
    expect(await run('srve')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: 'parley: unknown command "srve"; did you mean serve?\nSee parley --help\n',
    });
    expect((await run('serve --confg')).stderr).toContain('See parley serve --help');
    expect(await run('xyzzy')).toMatchObject({
      code: 2,
      stderr: 'parley: unknown command "xyzzy"\nSee parley --help\n',
    });
  });
});

describe('serve', () => {
  test('starts with the configuration, prints the URL, stops on SIGTERM', async () => {
    write('parley.yaml', SERVERS);
    const before = process.listenerCount('SIGTERM');
    const { code, stdout, calls, closed, reported } = await run('serve', { PARLEY_LISTEN: '127.0.0.1:9' });
    expect({ code, closed, reported }).toEqual({ code: 0, closed: 1, reported: 1 });
    expect(stdout).toBe('Parley is listening on http://127.0.0.1:4600\n');
    expect(calls).toMatchObject([{ config: { listen: { port: 9 } }, options: { quickstart: false } }]);
    expect(process.listenerCount('SIGTERM')).toBe(before);
  });

  test('prints a summary if the log is text', async () => {
    write('parley.yaml', SERVERS);
    const { code, stdout } = await run('serve', {}, {}, true);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Parley is listening on .*\n\nServers\n {2}weather {2}up {2}3 tools {2}120 ms\n/);
    expect(stdout).toMatch(/\nStop with Ctrl-C\.\n$/);
    expect((await run('serve', { PARLEY_LOG_FORMAT: 'json' }, {}, true)).stdout).toBe(
      'Parley is listening on http://127.0.0.1:4600\n',
    );
    expect((await run('serve', { PARLEY_LOG_FORMAT: 'text' })).stdout).toContain('\nServers\n');
  });

  test('--config names the file', async () => {
    write('other.json', '{ "mcpServers": { "other": { "command": "x" } }, "log": { "level": "silent" } }');
    const { code, calls } = await run('serve --config other.json');
    expect(code).toBe(0);
    expect(Object.keys(calls[0]?.config.servers ?? {})).toEqual(['other']);
  });

  test('starts the quickstart without a configuration', async () => {
    const { calls } = await run('serve', { PARLEY_LISTEN: '127.0.0.1:9' });
    expect(calls).toMatchObject([
      { config: { listen: { port: 9 }, servers: { hello: { command: 'node' } } }, options: { quickstart: true } },
    ]);
    // State is stored in the working directory, not in the folder of the quickstart.
    expect(calls[0]?.config.data).toBe(path.join(folder, '.parley'));
  });

  test('servers in environment variables count as a configuration', async () => {
    const env = { PARLEY_SERVERS_WEB_URL: 'http://127.0.0.1:1', PARLEY_LOG_LEVEL: 'silent' };
    const { calls } = await run('serve', env);
    expect(calls[0]?.options.quickstart).toBe(false);
    expect(Object.keys(calls[0]?.config.servers ?? {})).toEqual(['web']);
  });

  test('an invalid configuration exits with 1, lists all problems on stderr and starts nothing', async () => {
    write('parley.yaml', 'listen: 0.0.0.0:4600\ntimeouts: { call: 5x }\nservers: { a: {} }\n');
    const { code, stdout, stderr, calls } = await run('serve');
    expect({ code, stdout, calls }).toEqual({ code: 1, stdout: '', calls: [] });
    expect(stderr.match(/^error: parley\.yaml:\d+: /gm)).toHaveLength(3);
    expect(stderr).not.toMatch(/\n\s+at /);
    expect((await run('serve --config nope.yaml')).stderr).toBe(
      'error: "nope.yaml" does not exist\n  fix: correct the path given with --config\n',
    );
  });

  test.each([
    [
      'EADDRINUSE',
      'listen: 127.0.0.1:4600 is in use; stop the other process, or set listen or PARLEY_LISTEN to another address',
    ],
    ['EACCES', 'listen: this user may not listen on 127.0.0.1:4600; use a port above 1023'],
    ['EADDRNOTAVAIL', 'listen: 127.0.0.1:4600 is not an address of this machine'],
    ['OTHER', 'plain message'],
  ])('%s at the start is explained in one sentence', async (errno, message) => {
    const startServe = () => Promise.reject(Object.assign(new Error('plain message'), { code: errno }));
    expect(await run('serve', {}, { startServe })).toMatchObject({ code: 1, stderr: `parley: ${message}\n` });
  });
});

describe('stdio', () => {
  test('serves all servers, or the named one', async () => {
    write('parley.yaml', SERVERS);
    expect(await run('stdio')).toMatchObject({ code: 0, stdout: '', calls: [{ options: {} }] });
    expect(await run('stdio --server Weather')).toMatchObject({ code: 0, calls: [{ options: { server: 'weather' } }] });
  });

  test('refuses an unknown or disabled server', async () => {
    write('parley.yaml', SERVERS);
    expect(await run('stdio --server wether')).toMatchObject({
      code: 1,
      stderr: 'parley: there is no server "wether"; did you mean weather?\n',
    });
    expect(await run('stdio --server constructor')).toMatchObject({
      code: 1,
      stderr: 'parley: there is no server "constructor"; the servers are weather\n',
    });
    expect(await run('stdio --server off')).toMatchObject({
      code: 1,
      stderr: 'parley: the server "off" is disabled (enabled: false)\n',
    });
  });

  test('ignores listen, keeps stdout clean, and requires a configuration', async () => {
    write('parley.yaml', `listen: 0.0.0.0:1\n${SERVERS}`);
    expect(await run('stdio', { PARLEY_NONSENSE: 'x' })).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('warning: PARLEY_NONSENSE'),
    });
    rmSync(path.join(folder, 'parley.yaml'));
    expect(await run('stdio')).toMatchObject({ code: 2, stderr: expect.stringContaining('--config FILE'), calls: [] });
  });
});

describe('config check', () => {
  test('prints the configuration in effect with secrets masked, and warnings on stderr', async () => {
    write('parley.yaml', `${SERVERS}auth: { tokens: [{ name: ada, token: "Zx9-kT4.Lm2_Qw7~Rb" }] }\n`);
    const { code, stdout, stderr } = await run('config check', { PARLEY_TIMEOUTS_CALL: '7s' });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^# .*parley\.yaml: valid, 1 warning\n/);
    expect(parse(stdout)).toMatchObject({
      listen: '127.0.0.1:4600',
      timeouts: { call: '7s' },
      servers: { weather: { url: 'http://127.0.0.1:1/mcp' } },
      auth: { tokens: [{ name: 'ada', token: '********', admin: false }] },
    });
    expect(stderr).toContain('warning: parley.yaml:3: auth.tokens[0].token: the token of "ada" has 18 characters');
    expect(stdout + stderr).not.toContain('Zx9');
  });

  test('the printed configuration has the same effect when it is loaded', async () => {
    write(
      'parley.yaml',
      'servers: { a: { command: x, args: [-y], timeouts: { call: 90s } } }\nlimits: { body: 1536B }\ndata: d\n',
    );
    const first = await run('config check');
    write('again.yaml', first.stdout);
    const second = await run('config check --config again.yaml');
    expect(second).toMatchObject({ code: 0, stderr: '' });
    expect(parse(second.stdout)).toEqual(parse(first.stdout));
  });

  test('exits with 1 if there are problems', async () => {
    write('parley.yaml', 'servers: { a: {} }\nnaming: { prefix: sometimes }\n');
    const { code, stdout, stderr } = await run('config check');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(
      'naming.prefix: "sometimes" is not one of the choices\n  fix: write one of always, conflict, never',
    );
    expect(stderr).toContain('servers.a: has neither url nor command');
  });

  test('--json prints one object on stdout, valid or not', async () => {
    write('parley.yaml', SERVERS);
    const good = await run('config check --json', { PARLEY_NONSENSE: 'x' });
    expect(good).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(good.stdout)).toMatchObject({
      ok: true,
      file: path.join(folder, 'parley.yaml'),
      errors: [],
      warnings: [{ code: 'unknown_variable', at: 'PARLEY_NONSENSE' }],
      config: { listen: '127.0.0.1:4600' },
    });
    write('parley.yaml', 'servers: { a: {} }\n');
    const bad = await run('config check --json');
    expect(bad).toMatchObject({ code: 1, stderr: '' });
    expect(JSON.parse(bad.stdout)).toMatchObject({
      ok: false,
      errors: [{ code: 'required', key: 'servers.a', at: 'parley.yaml:1', fix: 'give one of them' }],
      config: null,
    });
  });

  test('checks the quickstart without a file', async () => {
    const { code, stdout } = await run('config check');
    expect(code).toBe(0);
    expect(parse(stdout)).toMatchObject({ servers: { hello: { command: 'node' } } });
  });
});

describe('search', () => {
  const file = 'servers: { a: { command: x } }\n';

  test('shows the tools that fit, in one line each', async () => {
    write('parley.yaml', file);
    const { code, stdout, stderr } = await run('search mail');
    expect(code).toBe(0);
    expect(stdout).toContain('5.00  a__send');
    expect(stdout).toContain('Sends [31mit');
    expect(stdout).not.toContain('\u001b');
    expect(stderr).toContain('server b is missing: connection refused');
  });

  test('prints JSON, and ends with 1 if no tool fits', async () => {
    write('parley.yaml', file);
    const { stdout } = await run('search mail --limit 3 --json');
    expect(JSON.parse(stdout)).toMatchObject({ tools: [{ name: 'a__send', score: 3 }], missing: [{ server: 'b' }] });
    expect((await run('search nothing')).code).toBe(1);
  });

  test('refuses a limit that is not a number, and a folder without a configuration', async () => {
    write('parley.yaml', file);
    expect(await run('search mail --limit many')).toMatchObject({ code: 2 });
    rmSync(path.join(folder, 'parley.yaml'));
    expect(await run('search mail')).toMatchObject({ code: 2 });
  });
});

test('S4-16: lint shows every finding, and ends with 1 if there is an error', async () => {
  write('parley.yaml', 'servers: { a: { command: x } }\n');
  const { code, stdout, stderr } = await run('lint');
  expect([code, stdout]).toEqual([
    1,
    'error: a__send : the tool has no description (not offered)\n1 errors, 0 warnings\n',
  ]);
  expect(stderr).toContain('the tools of server b could not be read');
  expect(JSON.parse((await run('lint --json')).stdout)).toMatchObject({ findings: [{ server: 'a' }], missing: ['b'] });
});

describe('names that strangers choose', () => {
  test('cannot control the terminal, in lists and in JSON', async () => {
    write('parley.yaml', 'data: data\nlog: { level: silent }\n');
    const name = 'eve\u001b[2K\r\u001b[1A\u009b31m\u202e\nada  admin';
    const { config } = loadConfig({ cwd: folder, env: {}, file: path.join(folder, 'parley.yaml') });
    await withCommandStorage(config, ({ state }) =>
      state.oauthUsers.signedInElsewhere({
        ...{ id: 'https://idp.example#1', issuer: 'https://idp.example', name },
        ...{ password: undefined, roles: [], tenant: undefined },
      }),
    );
    const { stdout } = await run('users list');
    expect(stdout).toMatch(/^ {2}https:\/\/idp\.example#1 {2}eve\\u001b\[2K\\r\\u001b[^\n]*\\nada {2}admin[^\n]*\n$/);
    expect(stdout).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
    const { stdout: json } = await run('users list --json');
    expect(json).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
    expect(JSON.parse(json).users[0].name).toBe(name);
  });
});
