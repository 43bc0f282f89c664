/** The exact messages for a failing stdio server: to its operator, to its callers, and in its output. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { textOf } from '../input/support/message.js';
import { initializeBody, modernCall } from '../input/support/speak.js';
import { ask } from '../input/support/wire.js';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';

const NODE = process.execPath;
const FIXTURE = fileURLToPath(new URL('../fixtures/stdio/server.mjs', import.meta.url));
const ADA = { name: 'ada', token: 'b4a5968778695a4b3c2d1e0fc1f0e2d3' };
const ROOT = { name: 'root', token: '1e0fc1f0e2d3b4a5968778695a4b3c2d', admin: true };
const SECRET = 'hunter2-hunter2-hunter2';
const TOKEN = 'sk-live-abcdefghijklmnop';

let folder: string;
/** A gateway without tokens: every caller is an operator. */
let open: RunningGateway;
/** A gateway with tokens. */
let guarded: RunningGateway;

const inFolder = (name: string): string => join(folder, name);

const SCRIPTS: Readonly<Record<string, string>> = {
  'imports.mjs': `import 'no-such-package-of-anybody';`,
  'throws.mjs': `console.error('(node:1) Warning: not this');\nthrow new Error('no database at db:5432');`,
  'needs-key.mjs': `console.error('Error: WEATHER_API_KEY environment variable is required');\nprocess.exit(1);`,
  'quiet.mjs': 'process.exit(3);',
  'done.mjs': `console.log('nothing to do');`,
  'chatty.mjs': `console.log('Listening on http://localhost:3000');\nsetInterval(() => {}, 1000);`,
  'hanging.mjs': `console.error('connecting to the database');\nsetInterval(() => {}, 1000);`,
  'killed.mjs': `process.kill(process.pid, 'SIGKILL');\nsetInterval(() => {}, 1000);`,
  'leaky.mjs': `console.error('login with ' + process.env.PASSWORD + ' and ' + process.argv[3] + ' failed');\nprocess.exit(1);`,
};

/** The output of programs that are not installed on every machine. */
const PROGRAMS: Readonly<Record<string, string>> = {
  npx: `npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/no-such-server - Not found
npm error 404
npm error 404  'no-such-server@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm error A complete log of this run can be found in: /root/.npm/_logs/2026-07-28T12_00_00_000Z-debug-0.log`,
  python3: `Traceback (most recent call last):
  File "/srv/server.py", line 12, in <module>
    main()
  File "/srv/server.py", line 8, in main
    raise ValueError("no such calendar")
ValueError: no such calendar`,
  uvx: `  × No solution found when resolving tool dependencies:
  ╰─▶ Because no-such-server was not found in the package registry and you
      require no-such-server, we can conclude that your requirements are
      unsatisfiable.`,
  wrapper: '/srv/wrapper: 3: tsx: not found',
};

const script = (name: string): object => ({ command: NODE, args: [inFolder(name)] });
const program = (name: string, ...args: string[]): object => ({
  command: name,
  args,
  env: { PATH: `${inFolder('bin')}:${process.env['PATH']}` },
});
const brisk = (server: object): object => ({ ...server, timeouts: { connect: '10s' } });

const servers = (): Record<string, object> => ({
  missing: script('missing.mjs'),
  imports: script('imports.mjs'),
  throws: script('throws.mjs'),
  'needs-key': script('needs-key.mjs'),
  quiet: script('quiet.mjs'),
  done: script('done.mjs'),
  chatty: brisk(script('chatty.mjs')),
  hanging: brisk(script('hanging.mjs')),
  killed: script('killed.mjs'),
  npx: program('npx', '-y', 'no-such-server'),
  python: program('python3', '/srv/server.py'),
  uvx: program('uvx', 'no-such-server'),
  wrapper: program('wrapper'),
  'not-there': { command: 'no-such-command-anywhere' },
  'no-file': { command: inFolder('no-such-file') },
  leaky: { ...script('leaky.mjs'), args: [inFolder('leaky.mjs'), '--token', TOKEN], env: { PASSWORD: SECRET } },
  future: { command: NODE, args: [FIXTURE, 'era=future'] },
  works: { command: NODE, args: [FIXTURE] },
});

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-failures-'));
  for (const [name, text] of Object.entries(SCRIPTS)) await writeFile(inFolder(name), text);
  await mkdir(inFolder('bin'));
  for (const [name, text] of Object.entries(PROGRAMS)) {
    const code = name === 'wrapper' ? 127 : 1;
    await writeFile(inFolder(`bin/${name}`), `#!/bin/sh\ncat >&2 <<'END'\n${text}\nEND\nexit ${code}\n`);
    await chmod(inFolder(`bin/${name}`), 0o755);
  }
  const log = { format: 'json', level: 'debug' };
  [open, guarded] = await Promise.all([
    startGateway({ servers: servers(), log }),
    startGateway({ servers: servers(), log, auth: { tokens: [ADA, ROOT] } }),
  ]);
});
afterAll(async () => {
  await Promise.all([open?.close(), guarded?.close()]);
  await rm(folder, { recursive: true, force: true });
});

const as = ({ token }: { token: string }) => ({ authorization: `Bearer ${token}` });
const errorOf = async (gateway: RunningGateway, server: string, headers = {}): Promise<string> => {
  const { json } = await modernCall(`${gateway.url}/mcp/${server}`, 'say', {}, { headers });
  // After several failures the server is not restarted for a while. The message still names the cause.
  return (json.error.message as string).replace(
    /it failed \d+ times in a row and is not restarted for \d+ s; last error: /,
    '',
  );
};

/** The server, the message to its operator after its name, and the message to its callers. */
const FAILURES: readonly (readonly [string, () => string, string])[] = [
  [
    'missing',
    () =>
      `\`${NODE} ${inFolder('missing.mjs')}\` exited with code 1 while it was starting: Error: Cannot find module ` +
      `'${inFolder('missing.mjs')}'; correct the path in "args", or set "cwd" to the folder it is relative to`,
    'its process exited with code 1 while it was starting: a file named in its arguments is missing',
  ],
  [
    'imports',
    () =>
      `\`${NODE} ${inFolder('imports.mjs')}\` exited with code 1 while it was starting: Error [ERR_MODULE_NOT_FOUND]: ` +
      `Cannot find package 'no-such-package-of-anybody' imported from ${inFolder('imports.mjs')}; run "npm install ` +
      'no-such-package-of-anybody" in the folder of the server',
    'its process exited with code 1 while it was starting: a Node.js module is missing',
  ],
  [
    'throws',
    () =>
      `\`${NODE} ${inFolder('throws.mjs')}\` exited with code 1 while it was starting: Error: no database at db:5432`,
    'its process exited with code 1 while it was starting: an error in the program ended it',
  ],
  [
    'needs-key',
    () =>
      `\`${NODE} ${inFolder('needs-key.mjs')}\` exited with code 1 while it was starting: Error: WEATHER_API_KEY ` +
      'environment variable is required; set it in "env" of this server, because the environment of the gateway is ' +
      'not passed on',
    'its process exited with code 1 while it was starting: a setting it needs is missing',
  ],
  [
    'quiet',
    () =>
      `\`${NODE} ${inFolder('quiet.mjs')}\` exited with code 3 while it was starting and wrote nothing to stderr; run ` +
      'the command in a terminal to see why',
    'its process exited with code 3 while it was starting',
  ],
  [
    'done',
    () =>
      `\`${NODE} ${inFolder('done.mjs')}\` exited with code 0 while it was starting: nothing to do; check that it is an ` +
      'MCP server on stdio and keeps running',
    'its process exited with code 0 while it was starting',
  ],
  [
    'chatty',
    () =>
      `\`${NODE} ${inFolder('chatty.mjs')}\` did not answer within 10 s of its start, and wrote to stdout a line ` +
      'that is not an MCP message: "Listening on http://localhost:3000"; check that the command starts a stdio server, ' +
      'which writes its log to stderr and only messages to stdout',
    'its process did not answer within 10 s of its start, and wrote to stdout a line that is not an MCP message',
  ],
  [
    'hanging',
    () =>
      `\`${NODE} ${inFolder('hanging.mjs')}\` did not answer within 10 s of its start: connecting to the database; check ` +
      'that it is an MCP server on stdio; if its first start takes longer because npx or uvx downloads it, raise ' +
      '"timeouts.connect"',
    'its process did not answer within 10 s of its start',
  ],
  [
    'killed',
    () =>
      `\`${NODE} ${inFolder('killed.mjs')}\` was killed by SIGKILL while it was starting and wrote nothing to stderr; it ` +
      'may have run out of memory: check the limits of this machine or container',
    'its process was killed by SIGKILL while it was starting',
  ],
  [
    'npx',
    () =>
      '`npx -y no-such-server` exited with code 1 while it was starting: npm error 404 Not Found - GET ' +
      "https://registry.npmjs.org/no-such-server - Not found | npm error 404  'no-such-server@*' is not in this " +
      'registry; npm has no package "no-such-server": correct the name in "args"',
    'its process exited with code 1 while it was starting: npm does not know the package',
  ],
  [
    'python',
    () => '`python3 /srv/server.py` exited with code 1 while it was starting: ValueError: no such calendar',
    'its process exited with code 1 while it was starting: a Python exception ended it',
  ],
  [
    'uvx',
    () =>
      '`uvx no-such-server` exited with code 1 while it was starting: No solution found when resolving tool ' +
      'dependencies: Because no-such-server was not found in the package registry and you require no-such-server, we ' +
      'can conclude that your requirements are unsatisfiable; correct the package in "args": it has the name that the ' +
      'package index lists',
    'its process exited with code 1 while it was starting: a Python package was not found',
  ],
  [
    'wrapper',
    () =>
      '`wrapper` exited with code 127 while it was starting: /srv/wrapper: 3: tsx: not found; install that program, or ' +
      'set PATH in "env" of this server',
    'its process exited with code 127 while it was starting: a program it starts was not found',
  ],
  [
    'leaky',
    () =>
      `\`${NODE} ${inFolder('leaky.mjs')} --token ********\` exited with code 1 while it was starting: login with ` +
      '******** and ******** failed',
    'its process exited with code 1 while it was starting',
  ],
];

describe('a server that fails', () => {
  it.concurrent.each(FAILURES)('%s: message to an operator', async (server, problem) => {
    expect(await errorOf(open, server)).toBe(
      `Server "${server}" cannot be reached: ${problem()}; "parley logs ${server}" shows its output`,
    );
  });

  it.concurrent.each(FAILURES)('%s: message to callers with a token', async (server, _, summary) => {
    expect(await errorOf(guarded, server, as(ADA))).toBe(
      `Server "${server}" cannot be reached: ${summary}; for an operator, "parley logs ${server}" shows its output`,
    );
  });

  it('is explained at the handshake of a legacy client too', async () => {
    const { json } = await ask(`${open.url}/mcp/throws`, {
      headers: { accept: 'application/json, text/event-stream' },
      body: initializeBody('2025-06-18', 7),
    });
    expect(json.error.message).toContain('Error: no database at db:5432');
  });

  it('the error for a command that does not exist names the command', async () => {
    expect(await errorOf(open, 'not-there')).toBe(
      'Server "not-there" cannot be reached: cannot start "no-such-command-anywhere": it is not on the PATH; install it, ' +
        'give its full path in `command`, or set PATH in `env`',
    );
    expect(await errorOf(open, 'no-file')).toBe(
      `Server "no-file" cannot be reached: cannot start "${inFolder('no-such-file')}": there is no such file; correct the ` +
        'path in `command`',
    );
    expect(await errorOf(guarded, 'no-file', as(ADA))).toBe(
      'Server "no-file" cannot be reached: its command was not found',
    );
  });

  it('is explained to the client of parley stdio', async () => {
    const parley = spawn(NODE, [BIN, 'stdio', '--config', guarded.file], {
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { ...process.env, PARLEY_DATA: inFolder('stdio-data') },
    });
    const reply = new Promise<{ error: { message: string } }>((resolve) => {
      createInterface({ input: parley.stdout }).on('line', (line) => {
        const message = JSON.parse(line) as { id?: unknown; error: { message: string } };
        if (message.id === 2) resolve(message);
      });
    });
    const call = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'throws__say', arguments: {} } };
    for (const message of [
      initializeBody('2025-06-18', 1),
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      call,
    ])
      parley.stdin.write(`${JSON.stringify(message)}\n`);
    expect((await reply).error.message).toBe(
      `Server "throws" cannot be reached: \`${NODE} ${inFolder('throws.mjs')}\` exited with code 1 while it was starting: ` +
        'Error: no database at db:5432; "log.level: debug" shows its output',
    );
    const exit = once(parley, 'exit');
    parley.stdin.end();
    await exit;
  });

  it('the error for a server that supports only future versions names these versions', async () => {
    const expected = 'speaks only protocol versions this gateway does not know: 2099-01-01';
    for (const message of [await errorOf(open, 'future'), await errorOf(guarded, 'future', as(ADA))])
      expect(message.replace(/cannot be reached: it |; .*$/g, '')).toBe(`Server "future" ${expected}`);
  });

  it('a server that crashes during a call is explained, and restarts', async () => {
    const crash = async (gateway: RunningGateway, headers = {}) =>
      (await modernCall(`${gateway.url}/mcp/works`, 'crash', {}, { headers })).json.error.message as string;
    expect(await crash(open)).toBe(
      `Server "works" is gone: \`${NODE} ${FIXTURE}\` exited with code 1 while it was serving: Error: out of cheese; ` +
        '"parley logs works" shows its output',
    );
    expect(await crash(guarded, as(ADA))).toBe(
      'Server "works" is gone: its process exited with code 1 while it was serving: an error in the program ended it; ' +
        'for an operator, "parley logs works" shows its output',
    );
    expect(textOf((await modernCall(`${open.url}/mcp/works`, 'say')).json)).toBe('hello');
  });
});

describe('the output of a server', () => {
  const logs = (gateway: RunningGateway, server: string, headers: Record<string, string> = {}, method = 'GET') =>
    ask(`${gateway.url}/servers/${server}/logs`, { method, headers });

  it('is read over HTTP, with secrets hidden', async () => {
    await errorOf(open, 'leaky');
    const reply = await logs(open, 'leaky');
    expect(reply.status).toBe(200);
    expect(reply.headers['cache-control']).toBe('no-store');
    const output = JSON.parse(reply.body) as { server: string; lines: { pid: number; stream: string; text: string }[] };
    expect(output).toMatchObject({ server: 'leaky', problem: expect.stringContaining('login with ********') });
    const [{ pid } = { pid: 0 }] = output.lines;
    expect(output.lines.filter((line) => line.pid === pid).map(({ stream, text }) => [stream, text])).toEqual([
      ['process', `started: \`${NODE} ${inFolder('leaky.mjs')} --token ********\``],
      ['stderr', 'login with ******** and ******** failed'],
      ['process', 'ended with code 1'],
    ]);
    expect(reply.body).not.toContain(SECRET);
    expect(reply.body).not.toContain(TOKEN);
  });

  it('is for administrators only; without tokens only for callers on this machine', async () => {
    expect((await logs(guarded, 'throws')).status).toBe(401);
    const refused = await logs(guarded, 'throws', as(ADA));
    expect(refused.status).toBe(403);
    expect(refused.body).not.toContain('no database');
    expect((await logs(guarded, 'nowhere', as(ADA))).body).toBe(refused.body);
    await errorOf(guarded, 'throws', as(ADA));
    expect((await logs(guarded, 'throws', as(ROOT))).body).toContain('no database at db:5432');
    expect((await logs(open, 'throws', { host: 'evil.example.com' })).status).toBe(403);
    expect((await logs(open, 'throws', { origin: 'https://evil.example.com' })).status).toBe(403);
    expect((await logs(open, 'throws', {}, 'POST')).status).toBe(405);
  });

  it('is refused for a server that does not exist', async () => {
    const reply = await logs(open, 'nowhere');
    expect(reply.status).toBe(404);
    expect(reply.json.error.message).toMatch(/^There is no server "nowhere"; the servers are missing, imports, /);
  });

  const parley = (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
    new Promise((resolve) => {
      execFile(NODE, [BIN, ...args], (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      );
    });

  it('is shown by parley logs', async () => {
    await errorOf(open, 'python');
    const { code, stdout, stderr } = await parley('logs', 'python', '--config', open.file, '--url', open.url);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const [head, ...rest] = stdout.split('\n');
    expect(head).toMatch(
      /^# python is (backoff|failed|starting|stopped): `python3 \/srv\/server\.py` exited with code 1 while it was starting: ValueError: no such calendar$/,
    );
    expect(rest.map((line) => line.replace(/^\S+ \d+ /, '')).slice(0, 8)).toEqual(
      [
        '(process) started: `python3 /srv/server.py`',
        ...PROGRAMS['python3']!.split('\n'),
        '(process) ended with code 1',
      ].slice(0, 8),
    );
    const json = await parley('logs', 'python', '--config', open.file, '--url', open.url, '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({ server: 'python', lines: expect.any(Array) });
  });

  it('is shown by parley logs with the token of the configuration', async () => {
    const { code, stdout } = await parley('logs', 'works', '--config', guarded.file, '--url', guarded.url);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^# works is /);
    const wrong = await parley('logs', 'nowhere', '--config', guarded.file, '--url', guarded.url);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toMatch(/^parley: There is no server "nowhere"; the servers are /);
    const away = await parley('logs', 'works', '--config', guarded.file, '--url', 'http://127.0.0.1:1');
    expect(away).toMatchObject({
      code: 1,
      stderr:
        'parley: no gateway answers at http://127.0.0.1:1; start one with parley serve, or give another URL with --url\n',
    });
  });

  it('is in the log at level debug, with the name of the server', async () => {
    const lines = open
      .log()
      .split('\n')
      .flatMap((line) =>
        line.startsWith('{') && line.endsWith('}') ? [JSON.parse(line) as Record<string, unknown>] : [],
      );
    expect(lines).toContainEqual(
      expect.objectContaining({
        level: 20,
        server: 'python',
        stderr: 'ValueError: no such calendar',
        pid: expect.any(Number),
      }),
    );
    expect(open.log()).not.toContain(SECRET);
    expect(open.log()).not.toContain(TOKEN);
  });
});
