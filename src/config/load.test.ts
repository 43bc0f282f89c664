// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is the syntax under test
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Environment } from './expand-variables.js';
import { configFrom, hasConfiguration, loadConfig } from './load.js';
import { ConfigError, formatProblem, type Problem } from './problem.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-load-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (name: string, text: string): void => writeFileSync(path.join(folder, name), text);
const good = 'k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH+a';

function problemsOf(load: () => { warnings: readonly Problem[] }): readonly Problem[] {
  try {
    return load().warnings;
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

/** The problems of one file. */
function check(text: string, env: Environment = {}): readonly Problem[] {
  write('parley.yaml', text);
  return problemsOf(() => loadConfig({ cwd: folder, env }));
}

/** The problems of a configuration with a valid server. */
const checkValue = (value: object, env: Environment = {}) =>
  problemsOf(() => configFrom({ servers: { a: { command: 'x' } }, ...value }, { env }));

describe('finding the file', () => {
  test.each(['parley.yaml', 'parley.yml', 'parley.json'])('%s in the working directory', (name) => {
    write(name, '{ "servers": { "a": { "command": "x" } } }');
    const { config, file } = loadConfig({ cwd: folder, env: {} });
    expect(file).toBe(path.join(folder, name));
    expect(config.servers['a']?.command).toBe('x');
  });

  test('yaml comes before yml before json', () => {
    for (const name of ['parley.json', 'parley.yml', 'parley.yaml']) {
      write(name, `{ "servers": { "${name.split('.')[1]}": { "command": "x" } } }`);
      expect(Object.keys(loadConfig({ cwd: folder, env: {} }).config.servers)).toEqual([name.split('.')[1]]);
    }
  });

  test('a named file wins, then PARLEY_CONFIG', () => {
    write('parley.yaml', 'log: { level: error }');
    write('one.yaml', 'log: { level: warn }');
    write('two.yaml', 'log: { level: debug }');
    const env = { PARLEY_CONFIG: 'two.yaml' };
    expect(loadConfig({ cwd: folder, env, file: 'one.yaml' }).config.log.level).toBe('warn');
    expect(loadConfig({ cwd: folder, env }).config.log.level).toBe('debug');
    expect(loadConfig({ cwd: folder, env: {} }).config.log.level).toBe('error');
  });

  test('a file that cannot be read', () => {
    mkdirSync(path.join(folder, 'dir.yaml'));
    for (const [file, what] of [
      ['nope.yaml', 'does not exist'],
      ['dir.yaml', 'is a folder'],
    ]) {
      const found = problemsOf(() => loadConfig({ cwd: folder, env: {}, file: file ?? '' }));
      expect(found).toMatchObject([
        { code: 'file', message: `"${file}" ${what}`, fix: expect.stringContaining('--config') },
      ]);
    }
  });

  test('without a file the defaults and the environment apply', () => {
    const { config, file, warnings } = loadConfig({ cwd: folder, env: { PARLEY_LISTEN: '127.0.0.1:1' } });
    expect(file).toBeUndefined();
    expect(config.listen.port).toBe(1);
    expect(warnings).toMatchObject([{ code: 'empty', key: 'servers' }]);
  });

  test('hasConfiguration finds a file, servers or agents', () => {
    expect(hasConfiguration({ cwd: folder, env: {} })).toBe(false);
    expect(hasConfiguration({ cwd: folder, env: { PARLEY_LISTEN: 'x' } })).toBe(false);
    expect(hasConfiguration({ cwd: folder, env: { PARLEY_SERVERS_A_URL: 'x' } })).toBe(true);
    expect(hasConfiguration({ cwd: folder, env: { PARLEY_CONFIG: 'x' } })).toBe(true);
    expect(hasConfiguration({ cwd: folder, env: {}, file: 'x' })).toBe(true);
    write('parley.yml', '');
    expect(hasConfiguration({ cwd: folder, env: {} })).toBe(true);
  });

  test('an empty file is an empty configuration, and a document that is not a map is refused', () => {
    expect(check('')).toMatchObject([{ severity: 'warning', key: 'servers' }]);
    expect(check('# nothing yet\n')).toMatchObject([{ severity: 'warning', key: 'servers' }]);
    expect(check('- a\n')[0]).toMatchObject({ severity: 'error', code: 'type' });
    expect(check('hello\n')[0]).toMatchObject({ severity: 'error', code: 'type' });
  });
});

describe('problems', () => {
  test('are reported all at once, each with its line, key, value and fix', () => {
    const found = check(`listen: 0.0.0.0:4600
timeouts:
  call: 5x
  cal: 5s
limits: { body: huge, depth: 4 }
naming: { separator: "/" }
callMax: 5m
servers:
  one: {}
  two: { url: ftp://x, command: y }
  three: oops
  four: { url: "\${NOT_SET}" }
auth:
cors: { credentials: true }
`).map(({ severity, code, key, message, fix, origin }) => [
      severity,
      code,
      origin.line,
      key,
      message,
      fix.slice(0, 24),
    ]);
    expect(found).toEqual([
      [
        'error',
        'unset_variable',
        12,
        'servers.four.url',
        'the environment variable NOT_SET is not set',
        'set NOT_SET, or give a d',
      ],
      ['error', 'unknown_key', 7, 'callMax', 'is not a known key', 'did you mean timeouts.ca'],
      ['error', 'type', 10, 'servers.two.url', '"ftp://x" has the scheme ftp:', 'write an http:// or http'],
      ['error', 'type', 11, 'servers.three', 'must be a map, not "oops"', 'write servers.three as a'],
      ['error', 'type', 6, 'naming.separator', '"/" is not one of the choices', 'write one of __, ., -'],
      ['error', 'unknown_key', 4, 'timeouts.cal', 'is not a known key', 'did you mean timeouts.ca'],
      ['error', 'type', 3, 'timeouts.call', '"5x" is not a duration', 'write a number with a un'],
      ['error', 'type', 5, 'limits.body', '"huge" is not a size', 'write a number with a un'],
      ['error', 'type', 5, 'limits.depth', '4 is out of range', 'write a number from 8 to'],
      [
        'error',
        'exposed',
        1,
        'listen',
        expect.stringContaining('"0.0.0.0:4600" can be reached'),
        'add auth: { tokens: [{ n',
      ],
      [
        'error',
        'empty',
        13,
        'auth.tokens',
        'auth has no tokens and no other way to identify callers, so nobody could call',
        'add a token, keys: true,',
      ],
      [
        'error',
        'conflict',
        14,
        'cors.credentials',
        'true is not allowed with the origin "*"',
        'name the origins, or set',
      ],
      ['error', 'required', 9, 'servers.one', 'has neither url nor command nor openapi', 'give one of them'],
      ['error', 'conflict', 10, 'servers.two', 'has both a url and a command', 'remove one of them'],
    ]);
  });

  test('are formatted with their origin, key, message and fix', () => {
    const [problem] = check('timeouts: { call: 5x }\nservers: { a: { command: x } }\n');
    expect(problem && formatProblem(problem)).toBe(
      'error: parley.yaml:1: timeouts.call: "5x" is not a duration\n' +
        '  fix: write a number with a unit, such as 500ms, 30s, 10m, 1h or 1m30s',
    );
  });

  test('in the syntax have a line number', () => {
    expect(check('servers:\n  a: [1, 2\n')[0]).toMatchObject({ code: 'syntax', origin: { file: 'parley.yaml' } });
    expect(check('a: 1\na: 2\n')).toMatchObject([{ code: 'syntax', origin: { line: 2 } }]);
  });

  test('an unset variable is one problem, in any key', () => {
    const servers = {
      a: { url: 'http://127.0.0.1', headers: { 'X-Key': '${X}' } },
      b: { command: '${X}', args: ['${X}'] },
    };
    const found = checkValue({
      servers,
      auth: { tokens: [{ name: '${X}', token: '${X}' }] },
      hosts: ['${X}'],
      listen: '${X}',
    });
    expect(new Set(found.map(({ code }) => code))).toEqual(new Set(['unset_variable']));
    expect(found.map(({ key }) => key).sort()).toEqual([
      'auth.tokens[0].name',
      'auth.tokens[0].token',
      'hosts[0]',
      'listen',
      'servers.a.headers.X-Key',
      'servers.b.args[0]',
      'servers.b.command',
    ]);
  });

  test('an unset variable of a disabled server is only a warning', () => {
    const servers = {
      a: { url: 'https://${X}/mcp', headers: { 'X-Key': '${X}' }, enabled: false },
      b: { command: 'x' },
    };
    expect(checkValue({ servers }).map(({ severity, key }) => [severity, key])).toEqual([
      ['warning', 'servers.a.url'],
      ['warning', 'servers.a.headers.X-Key'],
    ]);
  });

  test('a section or list of the wrong shape', () => {
    expect(checkValue({ timeouts: [1] })).toMatchObject([{ code: 'type', key: 'timeouts' }]);
    expect(checkValue({ hosts: { a: 1 } })).toMatchObject([{ code: 'type', key: 'hosts' }]);
    expect(checkValue({ listen: { host: 'x' } })).toMatchObject([{ code: 'type', key: 'listen' }]);
    expect(checkValue({ servers: ['a'] })).toMatchObject([{ code: 'type', key: 'servers' }, { code: 'empty' }]);
    expect(checkValue({ mcpServers: 'a', servers: undefined })[0]).toMatchObject({
      severity: 'error',
      key: 'mcpServers',
    });
    expect(checkValue({ servers: { a: { command: 'x', args: [{ b: 1 }] } } })).toMatchObject([
      { code: 'type', key: 'servers.a.args[0]' },
    ]);
  });

  test('one value where a list is expected is a list of one', () => {
    expect(configFrom({ hosts: 'a.example' }).config.hosts).toEqual(['a.example']);
  });

  test('a key without a value counts as missing', () => {
    expect(check('servers: { a: { command: x, env: } }\nhosts:\ntimeouts:\nlog: { level: }\n')).toEqual([]);
    expect(checkValue({ servers: { a: { url: 'http://127.0.0.1', headers: { 'X-Key': null } } } })).toMatchObject([
      { code: 'required', key: 'servers.a.headers.X-Key' },
    ]);
  });
});

describe('secrets', () => {
  const secret = 'hush-hush-0123456789-hush-hush-xyz';
  test('are masked in the shown configuration and in problems', () => {
    const value = {
      servers: {
        web: { url: `https://ada:${secret}@x.example/mcp?api_key=${secret}`, headers: { Authorization: secret } },
        bad: { url: 'https://x.example', headers: { A: `${secret}\n` } },
        run: { command: 'x', args: [`--token=${secret}`, '--api-key', secret, `-k=${secret}`], env: { KEY: secret } },
      },
      auth: { tokens: [{ name: 'ada', token: secret.slice(0, 12) }] },
      state: { db: `postgres://u:${secret}@h/db`, keys: ['too-short-hush-hush'] },
      publicUrl: `ftp://ada:${secret}@x`,
    };
    const text = JSON.stringify(problemsOf(() => configFrom(value)));
    expect(text).not.toContain('hush');
    expect(JSON.parse(text).filter((problem: Problem) => problem.severity === 'error')).toHaveLength(4);
    const { bad: _, ...servers } = value.servers;
    const fine = {
      servers,
      auth: { tokens: [{ name: 'ada', token: secret }] },
      state: { db: value.state.db, keys: [secret] },
    };
    const shown = configFrom({ ...fine, listen: '0.0.0.0:1' }, { env: { MY_KEY: secret } }).shown;
    expect(JSON.stringify(shown).replace(`-k=${secret}`, '')).not.toContain('hush');
  });

  test('from a variable with a secret-looking name are masked in every key', () => {
    const env = { API_KEY: secret };
    expect(JSON.stringify(checkValue({ publicUrl: '${API_KEY}' }, env))).not.toContain('hush');
    const { shown } = configFrom({ servers: { a: { command: 'x', args: ['-k${API_KEY}'] } } }, { env });
    expect(shown).toMatchObject({ servers: { a: { args: ['-k********'] } } });
  });
});

describe('where the gateway listens', () => {
  const auth = { tokens: [{ name: 'ada', token: good }] };
  test.each(['0.0.0.0:4600', '[::]:4600', '192.168.0.1:4600', 'gateway.example.com:4600'])(
    '%s needs auth',
    (listen) => {
      expect(checkValue({ listen })).toMatchObject([
        {
          severity: 'error',
          code: 'exposed',
          key: 'listen',
          message: expect.stringContaining(listen),
          fix: expect.stringContaining('auth:'),
        },
      ]);
      expect(checkValue({ listen, auth, publicUrl: 'https://gateway.example.com' })).toEqual([]);
    },
  );

  test('tokens over plain HTTP on a non-loopback address cause a warning', () => {
    const clear = [{ severity: 'warning', code: 'clear', key: 'listen', fix: expect.stringContaining('tls:') }];
    expect(checkValue({ listen: '0.0.0.0:4600', auth })).toMatchObject(clear);
    expect(checkValue({ listen: '0.0.0.0:4600', auth, publicUrl: 'http://gateway.example.com' })).toMatchObject(clear);
    const file = fileURLToPath(import.meta.url);
    expect(checkValue({ listen: '0.0.0.0:4600', auth, tls: { cert: file, key: file } })).toEqual([]);
    expect(checkValue({ listen: '127.0.0.1:4600', auth })).toEqual([]);
  });

  test('TLS requires a certificate and its key, in readable files', () => {
    const file = fileURLToPath(import.meta.url);
    expect(checkValue({ tls: { cert: file } })).toMatchObject([{ code: 'required', key: 'tls.key' }]);
    expect(checkValue({ tls: { key: file } })).toMatchObject([{ code: 'required', key: 'tls.cert' }]);
    expect(checkValue({ tls: { clientCa: file } })).toMatchObject([{ code: 'required', key: 'tls.cert' }]);
    expect(checkValue({ tls: { cert: '/none.pem', key: file } })).toMatchObject([
      { code: 'file', key: 'tls.cert', message: '"/none.pem" cannot be read (ENOENT)' },
    ]);
  });

  test.each(['10.0.0.0/8', '127.0.0.1', '::1', 'fd00::/8', '0.0.0.0/0'])('%s may be a trusted proxy', (range) => {
    expect(checkValue({ trustedProxies: [range] })).toEqual([]);
  });

  test.each(['10.0.0.0/33', '10.0.0', 'proxy.example', '::1/129', '10.0.0.0/8/8', 'fe80::1%eth0', ''])(
    '%j may not',
    (range) => {
      expect(checkValue({ trustedProxies: [range] })).toMatchObject([{ severity: 'error', key: 'trustedProxies[0]' }]);
    },
  );

  test.each(['127.0.0.1:4600', '[::1]:4600', 'localhost:4600'])('%s needs no auth', (listen) => {
    expect(checkValue({ listen })).toEqual([]);
  });

  test('a gateway that opens no port needs no auth', () => {
    expect(
      problemsOf(() => configFrom({ listen: '0.0.0.0:1', servers: { a: { command: 'x' } } }, { listens: false })),
    ).toEqual([]);
  });
});

describe('callers', () => {
  const tokens = (...list: object[]) => checkValue({ auth: { tokens: list } });
  test('a token of 15 characters stops the start, 16 characters cause a warning, 32 characters cause none (S4-12)', () => {
    expect(tokens({ name: 'ada', token: good.slice(0, 15) })).toMatchObject([
      {
        severity: 'error',
        code: 'token',
        key: 'auth.tokens[0].token',
        message: expect.stringContaining('15 characters'),
      },
    ]);
    expect(tokens({ name: 'ada', token: good.slice(0, 16) })[0]).toMatchObject({ severity: 'warning', code: 'token' });
    expect(tokens({ name: 'ada', token: good })).toEqual([]);
  });

  test('no two callers share a name or a token', () => {
    expect(tokens({ name: 'ada', token: good }, { name: 'ada', token: `${good}2` })).toMatchObject([
      { severity: 'error', code: 'duplicate', key: 'auth.tokens[1].name', message: expect.stringContaining('"ada"') },
    ]);
    const found = tokens({ name: 'ada', token: good }, { name: 'bob', token: good });
    expect(found).toMatchObject([{ severity: 'error', code: 'duplicate', key: 'auth.tokens[1].token' }]);
    expect(JSON.stringify(found)).not.toContain(good);
  });

  test('each caller has a name and a token', () => {
    expect(tokens({ token: good }, { name: 'bob' }, { name: 'a b', token: `${good}3` })).toMatchObject([
      { code: 'required', key: 'auth.tokens[0].name' },
      { code: 'required', key: 'auth.tokens[1].token' },
      { code: 'type', key: 'auth.tokens[2].name' },
    ]);
  });
});

describe('servers', () => {
  const servers = (value: object, rest: object = {}) => checkValue({ servers: value, ...rest });
  test('keys without effect cause a warning', () => {
    const found = servers({
      a: { url: 'http://127.0.0.1', args: ['x'], env: { A: 'b' }, cwd: '.' },
      b: { command: 'x', headers: { A: 'b' }, transport: 'http' },
    });
    expect(found.map(({ severity, key }) => [severity, key])).toEqual([
      ['warning', 'servers.a.args'],
      ['warning', 'servers.a.env'],
      ['warning', 'servers.a.cwd'],
      ['warning', 'servers.b.headers'],
      ['warning', 'servers.b.transport'],
    ]);
  });

  test('the names of the HTTP+SSE endpoints are reserved', () => {
    expect(servers({ sse: { command: 'x' }, Messages: { command: 'x' } })).toMatchObject([
      { severity: 'error', code: 'name', key: 'servers.sse' },
      { severity: 'error', code: 'name', key: 'servers.messages' },
    ]);
  });

  test('a name does not contain the separator (C-18)', () => {
    expect(servers({ 'a-b': { command: 'x' } }, { naming: { separator: '-' } })).toMatchObject([
      { severity: 'error', code: 'name', key: 'servers.a-b' },
    ]);
    expect(servers({ ab: { command: 'x' } }, { naming: { separator: '-' } })).toEqual([]);
  });

  test('headers must be valid in HTTP', () => {
    expect(servers({ a: { url: 'http://127.0.0.1', headers: { 'X Y': 'a', 'X-Z': 'a\r\nb' } } })).toMatchObject([
      { code: 'type', key: 'servers.a.headers.X-Z', message: '******** cannot be sent in a header' },
      { code: 'type', key: 'servers.a.headers.X Y' },
    ]);
  });

  test('the new names of tools are valid and unique', () => {
    const tools = { allow: ['read', 'a'], deny: ['a', ''], rename: { read: 'open', cat: 'open', x: 'no spaces' } };
    expect(servers({ a: { command: 'x', tools } })).toMatchObject([
      { code: 'type', key: 'servers.a.tools.deny[1]' },
      { code: 'type', key: 'servers.a.tools.rename.x', message: '"no spaces" is not a name for a tool' },
      {
        severity: 'warning',
        key: 'servers.a.tools.deny[0]',
        message: '"a" is both allowed and denied, so it is not offered',
      },
      { code: 'duplicate', key: 'servers.a.tools.rename.cat', message: '"open" is also the new name of "read"' },
    ]);
    expect(servers({ a: { command: 'x', tools: { rename: { a: 'b', b: 'a' } } } })).toEqual([]);
  });

  test('a revision must be a supported one', () => {
    expect(servers({ a: { command: 'x', revision: '1999-01-01' } })).toMatchObject([
      { key: 'servers.a.revision', fix: expect.stringMatching(/auto, modern, legacy, \d{4}-\d\d-\d\d, /) },
    ]);
    for (const revision of ['auto', 'modern', 'legacy']) expect(servers({ a: { command: 'x', revision } })).toEqual([]);
  });

  test('times default to those of the gateway', () => {
    const { config } = configFrom({
      timeouts: { call: '30s' },
      servers: {
        a: { command: 'x' },
        b: { command: 'x', timeouts: { connect: '1s', call: '1h' } },
        c: { command: 'x', timeouts: { callMax: '10s' } },
        d: { url: 'http://127.0.0.1/' },
      },
    });
    // npx or uvx may have to download the program first.
    expect(config.servers['a']?.timeouts).toEqual({ connect: 60_000, call: 30_000, callMax: 600_000 });
    expect(config.servers['b']?.timeouts).toEqual({ connect: 1000, call: 3_600_000, callMax: 3_600_000 });
    expect(config.servers['c']?.timeouts).toEqual({ connect: 60_000, call: 10_000, callMax: 10_000 });
    expect([config.servers['d']?.timeouts.connect, config.timeouts.connect]).toEqual([5000, 5000]);
    const { config: brisk } = configFrom({
      timeouts: { connect: '2s' },
      servers: { a: { command: 'x' }, d: { url: 'http://127.0.0.1/' } },
    });
    expect([brisk.servers['a']?.timeouts.connect, brisk.servers['d']?.timeouts.connect]).toEqual([2000, 2000]);
    expect(checkValue({ timeouts: { call: '20m' } })).toMatchObject([{ code: 'range', key: 'timeouts.callMax' }]);
    expect(servers({ a: { command: 'x', timeouts: { call: '5s', callMax: '1s' } } })).toMatchObject([
      { code: 'range', key: 'servers.a.timeouts.callMax', message: '1s is shorter than servers.a.timeouts.call, 5s' },
    ]);
  });

  test('calls can be disabled for one server', () => {
    const { config } = configFrom({ servers: { a: { command: 'x', invocation: false }, b: { command: 'x' } } });
    expect([config.servers['a']?.invocation, config.servers['b']?.invocation]).toEqual([false, true]);
  });

  test('a missing envFile is an error, or a warning if the server is disabled', () => {
    expect(servers({ a: { command: 'x', envFile: '/no/such' } })).toMatchObject([
      { severity: 'error', code: 'file', key: 'servers.a.envFile', message: '"/no/such" cannot be read (ENOENT)' },
    ]);
    expect(servers({ a: { command: 'x', envFile: '/no/such', enabled: false } })).toMatchObject([
      { severity: 'warning' },
    ]);
  });

  test('TLS files must exist and contain PEM, and a certificate requires its key', () => {
    write('ca.pem', '-----BEGIN CERTIFICATE-----\n');
    write('other.txt', 'nothing');
    const inline = '-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n';
    const at = (name: string): string => path.join(folder, name);
    const one = (tls: object, more: object = {}) => servers({ a: { url: 'https://x.example', tls, ...more } });
    expect(one({ ca: at('ca.pem'), cert: at('ca.pem'), key: inline, serverName: 'y.example' })).toEqual([]);
    expect(one({ ca: '/no/such' })).toMatchObject([
      { severity: 'error', code: 'file', key: 'servers.a.tls.ca', message: '"/no/such" cannot be read (ENOENT)' },
    ]);
    expect(one({ ca: '/no/such' }, { enabled: false })).toMatchObject([{ severity: 'warning' }]);
    expect(one({ ca: at('other.txt') })).toMatchObject([{ code: 'file', message: expect.stringContaining('no PEM') }]);
    expect(one({ cert: at('ca.pem') })).toMatchObject([{ code: 'required', message: 'key is missing; cert needs it' }]);
    expect(one({ serverName: 'not a name' })).toMatchObject([{ code: 'type', key: 'servers.a.tls.serverName' }]);
    expect(servers({ a: { url: 'http://x.example', tls: { serverName: 'y' } } })).toMatchObject([
      { severity: 'warning', key: 'servers.a.tls', message: 'has no effect on an http:// url' },
    ]);
    expect(servers({ a: { command: 'x', proxy: 'none' } })).toMatchObject([
      { severity: 'warning', key: 'servers.a.proxy' },
    ]);
  });

  test('a proxy is an http or https URL, or none', () => {
    const one = (proxy: string) => servers({ a: { url: 'https://x.example', proxy } });
    for (const proxy of ['http://p:3128', 'https://ada:secret@p', 'none']) expect(one(proxy)).toEqual([]);
    for (const proxy of ['socks5://p:1', 'p:3128', '', 'http://ada:50%@p'])
      expect(one(proxy)).toMatchObject([{ code: 'type' }]);
  });

  test('relative paths start at the folder of the file', () => {
    mkdirSync(path.join(folder, 'sub'));
    write('sub/x.yaml', 'data: state\nservers: { a: { command: x, cwd: .. } }\n');
    const { config } = loadConfig({ cwd: folder, env: {}, file: 'sub/x.yaml' });
    expect(config.data).toBe(path.join(folder, 'sub/state'));
    expect(config.servers['a']?.cwd).toBe(folder);
  });
});

test('origins: the wildcard is for CORS only, and never with credentials (C-15)', () => {
  expect(checkValue({ origins: ['*'] })).toMatchObject([{ code: 'type', key: 'origins[0]' }]);
  expect(checkValue({ cors: { credentials: true } })).toMatchObject([{ code: 'conflict', key: 'cors.credentials' }]);
  expect(checkValue({ cors: { credentials: true, origins: ['https://a.example'] } })).toEqual([]);
});

describe('random input', () => {
  const KEYS = [
    'servers',
    'mcpServers',
    'mcp_servers',
    'auth',
    'tokens',
    'listen',
    'a',
    'url',
    'type',
    'headers',
    'inputs',
    '__proto__',
  ];
  const leaf = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.constantFrom('${X}', '${', '5s', 'http://x'),
  );
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { depthSize: 'small' },
      leaf,
      fc.array(tie('tree')),
      fc.dictionary(fc.constantFrom(...KEYS), tie('tree')),
    ),
  }));

  test('every value gives a configuration or a ConfigError', () => {
    fc.assert(
      fc.property(tree, (value) => {
        for (const problem of problemsOf(() => configFrom(value))) expect(problem.fix).not.toBe('');
      }),
    );
    expect(({} as Record<string, unknown>)['url']).toBeUndefined();
  });

  test('every text gives a configuration or a ConfigError, in both formats', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      tree.map((value) => JSON.stringify(value)),
      fc.stringMatching(/^[-[\]{}:,&*<>"'| \na-c]*$/),
    );
    fc.assert(
      fc.property(text, fc.constantFrom('yaml', 'json'), (written, format) => {
        write(`any.${format}`, written);
        problemsOf(() => loadConfig({ cwd: folder, env: {}, file: `any.${format}` }));
      }),
    );
  });

  test('every environment gives a configuration or a ConfigError', () => {
    const name = fc.stringMatching(/^PARLEY_(SERVERS|AUTH|TOKENS|TIMEOUTS|CALL|MAX|URL|ENV|HEADERS|[0-3A-C]|_){0,6}$/);
    fc.assert(
      fc.property(fc.dictionary(name, fc.string()), (env) => {
        problemsOf(() => configFrom({}, { env }));
      }),
    );
  });
});
