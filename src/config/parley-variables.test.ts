// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is the syntax under test
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { Environment } from './expand-variables.js';
import { configFrom } from './load.js';
import { keyVariables, oldNames, otherGatewayVariables } from './parley-variables.js';
import { ConfigError } from './problem.js';
import { SCHEMA } from './schema.js';

const weather = { servers: { weather: { url: 'http://127.0.0.1:1/mcp' } } };
const load = (value: unknown, env: Environment) => configFrom(value, { env, cwd: '/here' });
const config = (value: unknown, env: Environment) => load(value, env).config;

function problems(value: unknown, env: Environment) {
  try {
    return load(value, env).warnings;
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

test('every key has one variable, and no two keys share one', () => {
  const names = keyVariables(SCHEMA).map(({ variable }) => variable.replaceAll('_', ''));
  expect(new Set(names).size).toBe(names.length);
  const documented = keyVariables(SCHEMA).map(({ variable }) => variable);
  expect(documented).toEqual(
    expect.arrayContaining(['PARLEY_LISTEN', 'PARLEY_TIMEOUTS_CALL', 'PARLEY_SERVERS_<NAME>_URL']),
  );
});

/** One value per type, different from every default. */
const SAMPLE: Record<string, string> = {
  'host:port': '127.0.0.1:9999',
  URL: 'https://sample.example/mcp',
  path: '/sample',
  string: 'sample',
  secret: 'sample-with-more-than-32-characters-1234567890',
  duration: '7m',
  size: '7MiB',
  integer: '9',
  origin: 'https://sample.example',
  host: 'sample.example',
  'address range': '10.0.0.0/8',
  network: '10.0.0.0/8',
};

test('every key without a user-chosen part can be set by its variable', () => {
  const plain = keyVariables(SCHEMA).filter(({ variable }) => !variable.includes('<'));
  for (const { variable, key } of plain) {
    const field = key
      .split('.')
      .reduce<unknown>((at, part) => (at as { fields: Record<string, unknown> }).fields[part], SCHEMA);
    const {
      kind,
      type,
      item,
      default: preset,
    } = field as { kind: string; type: string; item?: { type?: string }; default?: unknown };
    if (kind === 'group' || kind === 'map' || (kind === 'list' && item?.type === undefined)) continue;
    const named = kind === 'list' ? (item?.type ?? '') : type;
    let value = SAMPLE[named];
    if (named === 'boolean') value = String(preset !== true);
    if (named.startsWith('`'))
      value = [...named.matchAll(/`([^`]+)`/g)].map((match) => match[1]).find((choice) => choice !== preset);
    if (named === 'integer' && typeof preset === 'number') value = String(preset + 1);
    if (key === 'state.db' || key === 'state.directDb') value = 'postgres://127.0.0.1/x';
    if (key === 'state.bus') value = 'redis://127.0.0.1';
    if (key === 'cors.credentials') continue;
    // The files exist, and cert and key are both set.
    const tls = { PARLEY_TLS_CERT: process.execPath, PARLEY_TLS_KEY: process.execPath };
    const clientCa = key.startsWith('auth.certificates') && { PARLEY_TLS_CLIENT_CA: process.execPath };
    const beside = key.startsWith('tls.') || clientCa ? { ...tls, ...clientCa } : {};
    if (key.startsWith('tls.') && named === 'path') value = fileURLToPath(import.meta.url);
    expect(value, variable).toBeDefined();
    const shown = load(weather, { ...beside, [variable]: value }).shown;
    const before = load(weather, beside).shown;
    const at = (from: unknown) =>
      key.split('.').reduce<unknown>((node, part) => (node as Record<string, unknown> | undefined)?.[part], from);
    expect(at(shown), variable).not.toEqual(at(before));
  }
});

describe('scalars', () => {
  test('a variable overrides the file', () => {
    expect(config({ ...weather, timeouts: { call: '1s' } }, { PARLEY_TIMEOUTS_CALL: '30s' }).timeouts.call).toBe(
      30_000,
    );
  });

  test('the words of a key may be separated by underscores or joined', () => {
    expect(config(weather, { PARLEY_TIMEOUTS_CALL_MAX: '20m' }).timeouts.callMax).toBe(1_200_000);
    expect(config(weather, { PARLEY_TIMEOUTS_CALLMAX: '20m' }).timeouts.callMax).toBe(1_200_000);
  });

  test('an empty variable counts as not set', () => {
    expect(config(weather, { PARLEY_TIMEOUTS_CALL: '' }).timeouts.call).toBe(60_000);
  });

  test('the value of a variable is not expanded', () => {
    expect(config(weather, { PARLEY_POLICY_APPROVE_TOOLS: '${X}' }).policy.approve.tools).toEqual(['${X}']);
  });

  test('a variable replaces a value of the file that could not be expanded', () => {
    const value = { servers: { weather: { url: '${UNSET}' } } };
    expect(config(value, { PARLEY_SERVERS_WEATHER_URL: 'http://127.0.0.1:2/' }).servers['weather']?.url).toBe(
      'http://127.0.0.1:2/',
    );
  });

  test('relative paths start at the working directory', () => {
    expect(config(weather, { PARLEY_DATA: 'state' }).data).toBe('/here/state');
  });

  test('a bad value is an error that names the variable', () => {
    expect(problems(weather, { PARLEY_LIMITS_DEPTH: 'deep' })).toMatchObject([
      {
        severity: 'error',
        code: 'type',
        key: 'limits.depth',
        message: expect.stringContaining('"deep"'),
        origin: { variable: 'PARLEY_LIMITS_DEPTH' },
      },
    ]);
  });
});

describe('lists', () => {
  test('plain values are separated by commas, or given as JSON', () => {
    expect(config(weather, { PARLEY_HOSTS: 'a.example, b.example:80' }).hosts).toEqual(['a.example', 'b.example:80']);
    expect(config(weather, { PARLEY_HOSTS: '["a.example"]' }).hosts).toEqual(['a.example']);
  });

  const token = 'k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH+a';
  test('callers by index', () => {
    const env = {
      PARLEY_AUTH_TOKENS_0_NAME: 'ada',
      PARLEY_AUTH_TOKENS_0_TOKEN: token,
      PARLEY_AUTH_TOKENS_0_ADMIN: 'true',
      PARLEY_AUTH_TOKENS_1_NAME: 'bob',
      PARLEY_AUTH_TOKENS_1_TOKEN: `${token}2`,
    };
    expect(config(weather, env).auth.tokens).toEqual([
      { name: 'ada', token, admin: true },
      { name: 'bob', token: `${token}2`, admin: false },
    ]);
  });

  test('callers as JSON, and one key of a caller in the file', () => {
    const json = JSON.stringify([{ name: 'ada', token }]);
    expect(config(weather, { PARLEY_AUTH_TOKENS: json }).auth.tokens).toEqual([{ name: 'ada', token, admin: false }]);
    const file = { ...weather, auth: { tokens: [{ name: 'ada', token: '${UNSET}' }] } };
    expect(config(file, { PARLEY_AUTH_TOKENS_0_TOKEN: token }).auth.tokens[0]?.token).toBe(token);
  });

  test('invalid JSON is an error that does not show the value', () => {
    const found = problems(weather, { PARLEY_AUTH_TOKENS: 'hush-hush' });
    expect(found).toMatchObject([{ severity: 'error', origin: { variable: 'PARLEY_AUTH_TOKENS' } }]);
    expect(JSON.stringify(found)).not.toContain('hush-hush');
  });
});

describe('servers', () => {
  test('a server that exists only in the environment', () => {
    const { servers } = config(
      {},
      { PARLEY_SERVERS_MY_FILES_COMMAND: 'npx', PARLEY_SERVERS_MY_FILES_ARGS: '-y,some-server' },
    );
    expect(servers['my-files']).toMatchObject({ command: 'npx', args: ['-y', 'some-server'] });
  });

  test('a server of the file, in any case and with dashes', () => {
    const file = { servers: { 'My-Files': { command: 'npx' } } };
    const { servers } = config(file, {
      PARLEY_SERVERS_MY_FILES_CWD: '/tmp',
      PARLEY_SERVERS_MY_FILES_TIMEOUTS_CALL_MAX: '1h',
    });
    expect(servers['my-files']).toMatchObject({ command: 'npx', cwd: '/tmp', timeouts: { callMax: 3_600_000 } });
  });

  test('the filter of its tools', () => {
    const file = { servers: { my_files: { command: 'x', tools: { allow: ['old'], rename: { 'Read-File': 'old' } } } } };
    const { servers } = config(file, {
      PARLEY_SERVERS_MY_FILES_TOOLS_ALLOW: 'read*, write_file',
      PARLEY_SERVERS_MY_FILES_TOOLS_DENY: '["*_secret"]',
      PARLEY_SERVERS_MY_FILES_TOOLS_RENAME_READ_FILE: 'open',
      PARLEY_SERVERS_MY_FILES_TOOLS_RENAME_WRITE_FILE: 'save',
    });
    expect(servers['my_files']?.tools).toEqual({
      allow: ['read*', 'write_file'],
      deny: ['*_secret'],
      rename: { 'Read-File': 'open', write_file: 'save' },
      trust: 100,
    });
  });

  test('variables and headers of a server', () => {
    const file = {
      servers: { files: { command: 'x' }, web: { url: 'http://127.0.0.1:1', headers: { 'X-API-Key': 'old' } } },
    };
    const { servers } = config(file, {
      PARLEY_SERVERS_FILES_ENV_API_KEY: 'k',
      PARLEY_SERVERS_FILES_ENV_URL: 'u',
      PARLEY_SERVERS_WEB_HEADERS_X_API_KEY: 'new',
      PARLEY_SERVERS_WEB_HEADERS_AUTHORIZATION: 'Bearer t',
    });
    expect(servers['files']?.env).toEqual({ API_KEY: 'k', URL: 'u' });
    expect(servers['web']?.headers).toEqual({ 'X-API-Key': 'new', authorization: 'Bearer t' });
  });

  test('an existing name of a server is preferred to a shorter new name', () => {
    const file = { servers: { files: { command: 'x' }, 'files-env': { url: 'http://127.0.0.1:1' } } };
    const { servers } = config(file, { PARLEY_SERVERS_FILES_ENV_URL: 'http://127.0.0.1:2' });
    expect(servers['files-env']?.url).toBe('http://127.0.0.1:2');
    expect(servers['files']?.env).toEqual({});
  });

  test('all servers as JSON, in every spelling that a file may use', () => {
    const json = JSON.stringify({ Other: { type: 'sse', url: 'http://127.0.0.1:3', disabled: true } });
    const { servers } = config(weather, { PARLEY_SERVERS: json });
    expect(Object.keys(servers)).toEqual(['weather', 'other']);
    expect(servers['other']).toMatchObject({ enabled: false, transport: 'sse' });
  });
});

describe('variable names of other programs', () => {
  test('LLMROUTER_ENABLE_MCP_TOOL_INVOCATION=false switches tool calls off everywhere (C-19)', () => {
    const off = config(weather, { LLMROUTER_ENABLE_MCP_TOOL_INVOCATION: 'false' });
    expect(off.mcp.invocation).toBe(false);
    expect(off.servers['weather']?.invocation).toBe(false);
    expect(config(weather, {}).servers['weather']?.invocation).toBe(true);
  });

  test('MCP_SSE_TRANSPORT_ENABLED and MCP_SSE_LEGACY_MODE (C-30)', () => {
    expect(config(weather, {}).mcp.sse).toBe(true);
    expect(config(weather, { MCP_SSE_TRANSPORT_ENABLED: 'false' }).mcp.sse).toBe(false);
    expect(config(weather, { MCP_SSE_LEGACY_MODE: 'true' }).mcp.legacyMode).toBe(true);
  });

  test('variables of other programs override the file, and variables of Parley override both', () => {
    expect(config({ ...weather, mcp: { sse: true } }, { MCP_SSE_TRANSPORT_ENABLED: '0' }).mcp.sse).toBe(false);
    expect(config(weather, { MCP_SSE_TRANSPORT_ENABLED: '0', PARLEY_MCP_SSE: '1' }).mcp.sse).toBe(true);
  });
});

describe('variables of other gateways (C-30)', () => {
  test('values are converted: seconds, hosts with a leading dot, lists from several variables', () => {
    const env = {
      A2A_BASE_URL: 'https://gateway.example.com',
      A2A_TASK_TTL_SECONDS: '3600',
      MCP_SESSION_TIMEOUT: '1800',
      MCP_TOOLS_PAGE_SIZE: '100',
      LLMROUTER_OUTBOUND_HOST_ALLOWLIST: 'a.example.com, .corp.example',
      LLMROUTER_SSRF_ALLOWLIST_CIDRS: '10.20.0.0/16',
      LLMROUTER_ALLOW_PRIVATE_IPS: 'true',
    };
    const read = config(weather, env);
    expect(read).toMatchObject({
      publicUrl: 'https://gateway.example.com',
      a2a: { taskTtl: 3_600_000 },
      session: { idle: 1_800_000 },
      limits: { pageSize: 100 },
      egress: { allowPrivate: true },
    });
    expect(read.egress.allow).toHaveLength(3);
    expect(problems(weather, env)).toEqual([]);
    expect(config(weather, { ...env, PARLEY_LIMITS_PAGE_SIZE: '7' }).limits.pageSize).toBe(7);
  });

  test('every variable of another gateway is accepted: it sets a key, or a warning says why it has no effect', () => {
    const sample: Readonly<Record<string, string>> = { A2A_BASE_URL: 'https://gateway.example.com' };
    for (const variable of otherGatewayVariables(SCHEMA)) {
      const { name } = variable;
      const list =
        'list' in variable && (name.endsWith('HOSTS') || name.includes('HOST_') ? 'a.example' : '10.0.0.0/8');
      const value = sample[name] ?? (list || (name.includes('PRIVATE') ? 'true' : '60'));
      const found = problems(weather, { [name]: value });
      if ('key' in variable) expect([name, found]).toEqual([name, []]);
      else
        expect(found, name).toMatchObject([
          { severity: 'warning', message: expect.stringContaining(variable.ignored) },
        ]);
    }
    const names = otherGatewayVariables(SCHEMA).map(({ name }) => name);
    const named = oldNames(SCHEMA).map(({ oldName }) => oldName);
    for (const name of [
      'A2A_STREAM_RAW',
      'A2A_RAW_STREAMING_ENABLED',
      'MCP_SSE_TRANSPORT_ENABLED',
      'MCP_HA_SYNC_ENABLED',
    ])
      expect([...names, ...named]).toContain(name);
  });

  test('a wrong value of such a variable is an error that names the variable', () => {
    expect(problems(weather, { A2A_TASK_TTL_SECONDS: 'soon' })).toMatchObject([
      { severity: 'error', key: 'a2a.taskTtl', origin: { variable: 'A2A_TASK_TTL_SECONDS' } },
    ]);
  });
});

describe('variables that set nothing', () => {
  test('cause a warning with the most similar name', () => {
    expect(problems(weather, { PARLEY_TIMEOUT_CALL: '1s' })).toMatchObject([
      { severity: 'warning', code: 'unknown_variable', fix: 'did you mean PARLEY_TIMEOUTS_CALL?' },
    ]);
    expect(problems(weather, { PARLEY_WRONG: 'x' })[0]?.fix).toBe('unset it, or see docs/configuration.md');
    expect(problems(weather, { PARLEY_: 'x', PARLEY__LISTEN: 'y', PARLEY_PORT: '80' })).toHaveLength(3);
    expect(problems(weather, { PARLEY_AUTH_TOKENS_5_NAME: 'x' })).toMatchObject([{ code: 'unknown_variable' }]);
  });

  test('except those that Kubernetes sets for a service called parley, and those that Parley uses itself', () => {
    const env = {
      PARLEY_SERVICE_HOST: '10.0.0.1',
      PARLEY_SERVICE_PORT: '4600',
      PARLEY_PORT: 'tcp://10.0.0.1:4600',
      PARLEY_PORT_4600_TCP_ADDR: '10.0.0.1',
      PARLEY_CONFIG: 'x',
      PARLEY_INPUT_KEY: 'x',
    };
    expect(problems(weather, env)).toEqual([]);
  });
});
