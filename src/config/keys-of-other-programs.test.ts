// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is the syntax under test
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Environment } from './expand-variables.js';
import { loadConfig } from './load.js';
import { ConfigError } from './problem.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-imports-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function load(name: string, text: string, env: Environment = {}) {
  const file = path.join(folder, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  return loadConfig({ file: name, cwd: folder, env });
}

const keys = (warnings: readonly { key: string }[]) => warnings.map(({ key }) => key);

function errors(name: string, text: string, env: Environment = {}) {
  try {
    load(name, text, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.filter(({ severity }) => severity === 'error');
    throw error;
  }
  return [];
}

describe('Claude', () => {
  test('a desktop file', () => {
    const { config, warnings } = load(
      'claude_desktop_config.json',
      `{
        "globalShortcut": "Ctrl+Space",
        "mcpServers": {
          "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/Desktop"]
          },
          "brave-search": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-brave-search"],
            "env": { "BRAVE_API_KEY": "abc" }
          }
        },
        "preferences": { "menuBarEnabled": false }
      }`,
    );
    expect(keys(warnings)).toEqual(['globalShortcut', 'preferences']);
    expect(config.servers['filesystem']).toMatchObject({
      command: 'npx',
      args: ['-y', '@modelcontextprotocol/server-filesystem', '/Users/ada/Desktop'],
      transport: 'auto',
      enabled: true,
    });
    expect(config.servers['brave-search']?.env).toEqual({ BRAVE_API_KEY: 'abc' });
  });

  test('a project file of Claude Code', () => {
    const { config, warnings } = load(
      '.mcp.json',
      `{ "mcpServers": {
        "api": { "type": "http", "url": "\${API_BASE_URL:-https://api.example.com}/mcp",
                 "headers": { "Authorization": "Bearer \${API_KEY}" } },
        "old": { "type": "sse", "url": "https://old.example.com/sse" },
        "local": { "type": "stdio", "command": "\${HOME}/bin/server", "args": [], "env": { "CACHE_DIR": "/tmp" } }
      } }`,
      { API_KEY: 'k', HOME: '/home/ada' },
    );
    expect(config.servers['api']).toMatchObject({
      url: 'https://api.example.com/mcp',
      headers: { Authorization: 'Bearer k' },
      transport: 'auto',
    });
    expect(config.servers['old']?.transport).toBe('sse');
    expect(config.servers['local']).toMatchObject({ command: '/home/ada/bin/server', transport: 'auto' });
    expect(warnings).toMatchObject([{ code: 'deprecated', key: 'servers.old.transport' }]);
  });

  test('keys that only its client needs cause a warning, and a disabled server stays disabled', () => {
    const { config, warnings } = load(
      'cline_mcp_settings.json',
      `{ "mcpServers": { "a": { "command": "x", "disabled": false, "alwaysAllow": ["read"], "timeout": 60 },
                         "b": { "command": "x", "disabled": true, "autoApprove": [], "env": { "K": "\${UNSET}" } } } }`,
    );
    expect(config.servers['a']?.enabled).toBe(true);
    expect(config.servers['b']?.enabled).toBe(false);
    expect(keys(warnings)).toEqual([
      'mcpServers.a.alwaysAllow',
      'mcpServers.a.timeout',
      'mcpServers.b.autoApprove',
      'servers.b.env.K',
    ]);
    expect(warnings[1]?.fix).toContain('timeouts');
  });
});

test('Cursor: environment variables, the workspace, a file of variables', () => {
  writeFileSync(path.join(folder, '.env'), 'A=from-file\nB="also from file"\n');
  const { config, warnings } = load(
    '.cursor/mcp.json',
    `{
      "mcpServers": {
        "userjot": { "url": "https://api.example.com/v1/mcp", "headers": { "Authorization": "Bearer \${env:TOKEN}" } },
        "Local Tools": { "type": "stdio", "command": "python", "args": ["\${workspaceFolder}/tools/server.py"],
                         "env": { "A": "own" }, "envFile": "\${workspaceFolder}/.env" }
      }
    }`,
    { TOKEN: 't' },
  );
  expect(config.servers['userjot']).toMatchObject({ headers: { Authorization: 'Bearer t' } });
  expect(config.servers['local-tools']).toMatchObject({
    args: [path.join(folder, 'tools/server.py')],
    env: { A: 'own', B: 'also from file' },
  });
  expect(keys(warnings)).toEqual(['mcpServers.Local Tools']);
});

describe('VS Code', () => {
  const file = `{
    // the editor prompts for inputs
    "inputs": [
      { "type": "promptString", "id": "perplexity-key", "description": "Key", "password": true },
      { "type": "promptString", "id": "region", "description": "Region", "default": "eu" },
    ],
    "servers": {
      "uiTesting": { "type": "stdio", "command": "npx", "args": ["-y", "server-perplexity-ask"],
        "env": { "PERPLEXITY_API_KEY": "\${input:perplexity-key}", "REGION": "\${input:region}", "PORT": 8080, "GONE": null },
        "sandboxEnabled": true, "sandbox": { "filesystem": {} }, "dev": { "watch": "**/*.ts" } },
      "context7": { "type": "http", "url": "https://mcp.example.com/mcp", "gallery": true, "version": "1.0" },
      "io.github.github/github-mcp-server": { "type": "sse", "url": "https://old.example.com/sse" },
    },
  }`;

  test('a workspace file', () => {
    const { config, warnings } = load('.vscode/mcp.json', file, { PARLEY_INPUT_PERPLEXITY_KEY: 'k' });
    expect(Object.keys(config.servers)).toEqual(['uitesting', 'context7', 'io-github-github-github-mcp-server']);
    expect(config.servers['uitesting']).toMatchObject({
      command: 'npx',
      env: { PERPLEXITY_API_KEY: 'k', REGION: 'eu', PORT: '8080' },
    });
    expect(config.servers['uitesting']?.env).not.toHaveProperty('GONE');
    expect(config.servers['context7']).toMatchObject({ transport: 'auto' });
    expect(keys(warnings)).toEqual([
      'servers.uiTesting.sandboxEnabled',
      'servers.uiTesting.sandbox',
      'servers.uiTesting.dev',
      'servers.context7.gallery',
      'servers.context7.version',
      'servers.io.github.github/github-mcp-server',
      'servers.io-github-github-github-mcp-server.transport',
    ]);
    expect(warnings[0]?.fix).toContain('without a sandbox');
  });

  test('an input without an answer is an error that says which variable gives it', () => {
    expect(errors('.vscode/mcp.json', file)).toMatchObject([
      {
        code: 'unset_variable',
        key: 'servers.uitesting.env.PERPLEXITY_API_KEY',
        message: expect.stringContaining('PARLEY_INPUT_PERPLEXITY_KEY'),
        origin: { file: '.vscode/mcp.json', line: 9 },
      },
    ]);
  });
});

describe('LiteLLM', () => {
  test('a proxy file works as written (S3-06)', () => {
    const { config, warnings } = load(
      'config.yaml',
      `model_list:
  - model_name: gpt-4o
    litellm_params: { model: openai/gpt-4o, api_key: sk-xxxxxxx }
general_settings: { master_key: sk-1234 }
mcp_servers:
  postgres_mcp:
    url: http://127.0.0.1:8000/mcp
    transport: http
  github_mcp:
    url: https://api.example.com/mcp
    auth_type: bearer_token
    auth_value: os.environ/GITHUB_TOKEN
    static_headers: { X-Team: tools }
    allowed_tools: [list_issues]
  circleci:
    transport: stdio
    command: npx
    args: [-y, "@circleci/mcp-server-circleci"]
    env: { CIRCLECI_TOKEN: os.environ/CIRCLECI_TOKEN }
`,
      { GITHUB_TOKEN: 'g', CIRCLECI_TOKEN: 'c' },
    );
    expect(config.servers['postgres_mcp']).toMatchObject({ url: 'http://127.0.0.1:8000/mcp', transport: 'http' });
    expect(config.servers['github_mcp']?.headers).toEqual({ 'X-Team': 'tools', Authorization: 'Bearer g' });
    expect(config.servers['github_mcp']?.tools).toEqual({ allow: ['list_issues'], deny: [], rename: {}, trust: 100 });
    expect(config.servers['circleci']).toMatchObject({ command: 'npx', env: { CIRCLECI_TOKEN: 'c' } });
    expect(keys(warnings)).toEqual(['model_list', 'general_settings']);
  });

  test('its tool filter applies, with or without the name of the server as prefix', () => {
    const { config, warnings } = load(
      'c.yaml',
      `mcp_servers:
  git_hub:
    url: http://127.0.0.1:1
    allowed_tools: [git_hub-list_issues, get_issue]
    disallowed_tools: [delete_repo]
  none: { url: "http://127.0.0.1:2", allowed_tools: [], disallowed_tools: null }
`,
    );
    expect(warnings).toEqual([]);
    expect(config.servers['git_hub']?.tools).toMatchObject({
      allow: ['git_hub-list_issues', 'list_issues', 'get_issue'],
      deny: ['delete_repo'],
    });
    expect(config.servers['none']?.tools).toEqual({ allow: [], deny: [], rename: {}, trust: 100 });
  });

  test('transport: sse is accepted with a warning (S3-07)', () => {
    const { config, warnings } = load(
      'config.yaml',
      'mcp_servers:\n  old:\n    url: http://127.0.0.1:8000/sse\n    transport: sse\n',
    );
    expect(config.servers['old']?.transport).toBe('sse');
    expect(warnings).toMatchObject([
      { code: 'deprecated', key: 'servers.old.transport', origin: { file: 'config.yaml', line: 4 } },
    ]);
  });

  test.each([
    ['api_key', 'X-API-Key', 'v'],
    ['basic', 'Authorization', 'Basic v'],
    ['authorization', 'Authorization', 'v'],
  ])('auth_type: %s', (type, header, value) => {
    const text = `mcp_servers: { a: { url: "http://127.0.0.1:1", auth_type: ${type}, authentication_token: v } }`;
    expect(load('c.yaml', text).config.servers['a']?.headers).toEqual({ [header]: value });
  });

  test('an auth_type without a counterpart causes a warning', () => {
    const { warnings } = load('c.yaml', 'mcp_servers: { a: { url: "http://127.0.0.1:1", auth_type: oauth2 } }');
    expect(keys(warnings)).toEqual(['mcp_servers.a.auth_type']);
  });
});

describe('other spellings', () => {
  test.each(['serverUrl', 'httpUrl'])('%s is url', (name) => {
    const { config } = load('m.json', `{ "mcpServers": { "a": { "${name}": "http://127.0.0.1:1/mcp" } } }`);
    expect(config.servers['a']?.url).toBe('http://127.0.0.1:1/mcp');
  });

  test.each(['streamable-http', 'streamableHttp', 'streamable_http'])('%s is Streamable HTTP', (type) => {
    const { config } = load('m.json', `{ "mcpServers": { "a": { "type": "${type}", "url": "http://127.0.0.1:1" } } }`);
    expect(config.servers['a']?.transport).toBe('http');
  });

  test('a type that is not a transport is an error', () => {
    expect(errors('m.json', '{ "mcpServers": { "a": { "type": "ws", "url": "http://127.0.0.1:1" } } }')).toMatchObject([
      { key: 'mcpServers.a.type', message: expect.stringContaining('"ws"') },
    ]);
    expect(errors('m.json', '{ "servers": { "a": { "type": "stdio", "url": "http://127.0.0.1:1" } } }')).toMatchObject([
      { code: 'conflict', key: 'servers.a' },
    ]);
  });

  test.each([
    ['"includeTools": ["a", "b"], "excludeTools": ["c"]', { allow: ['a', 'b'], deny: ['c'] }],
    ['"disabledTools": ["c"]', { allow: [], deny: ['c'] }],
    ['"tools": ["*"]', { allow: ['*'], deny: [] }],
    ['"tools": { "allow": ["a"], "rename": { "a": "b" } }, "disabledTools": ["c"]', { allow: ['a'], deny: ['c'] }],
  ])('%s filters the tools', (written, expected) => {
    const { config, warnings } = load('m.json', `{ "mcpServers": { "a": { "command": "x", ${written} } } }`);
    expect(config.servers['a']?.tools).toMatchObject(expected);
    expect(warnings).toEqual([]);
  });

  test('servers of several containers are merged', () => {
    const { config } = load('m.yaml', 'servers: { a: { command: x } }\nmcpServers: { b: { command: y } }\n');
    expect(Object.keys(config.servers)).toEqual(['a', 'b']);
  });
});

describe('names', () => {
  test('must differ in more than case and punctuation', () => {
    const text =
      'servers:\n  Weather: { command: x }\n  weather: { command: y }\nmcpServers:\n  a-b: { command: x }\n  a.b: { command: x }\n';
    expect(errors('m.yaml', text)).toMatchObject([
      {
        code: 'duplicate',
        key: 'servers.weather',
        message: expect.stringContaining('servers.Weather'),
        origin: { line: 3 },
      },
      { code: 'duplicate', key: 'mcpServers.a.b', origin: { line: 6 } },
    ]);
  });

  test.each([
    ['my_server', 'my_server'],
    ['My_Server', 'my_server'],
    ['_private', '_private'],
    ['a-b_c', 'a-b_c'],
    ['a__b', 'a_b'],
    ['tail_', 'tail'],
    ['a b_c', 'a-b_c'],
  ])('%s is %s', (written, name) => {
    const { config, warnings } = load('m.yaml', `servers: { "${written}": { command: x } }`);
    expect(Object.keys(config.servers)).toEqual([name]);
    expect(warnings.length > 0).toBe(written.toLowerCase() !== name);
  });

  test('need at least one letter or digit', () => {
    expect(errors('m.yaml', 'servers: { "天気": { command: x } }')).toMatchObject([{ code: 'name' }]);
  });

  test('may be names of Object members', () => {
    const { config } = load('m.yaml', 'servers: { constructor: { command: x }, __proto__: { command: y } }');
    expect(config.servers['constructor']?.command).toBe('x');
    expect(config.servers['proto']?.command).toBe('y');
    expect(config.servers['toString']).toBeUndefined();
  });
});

describe('misspelt keys do not count as keys of other programs', () => {
  test('at the top of a foreign file', () => {
    expect(errors('m.json', '{ "mcpServers": {}, "auht": { "tokens": [] } }')).toMatchObject([
      { code: 'unknown_key', key: 'auht', fix: 'did you mean auth?' },
    ]);
  });

  test('in a server of a Parley file', () => {
    expect(errors('m.yaml', 'servers: { a: { command: x, invocaton: false } }')).toMatchObject([
      { code: 'unknown_key', key: 'servers.a.invocaton', fix: 'did you mean servers.a.invocation?' },
    ]);
  });

  test('in a server of a foreign file they cause only a warning', () => {
    const { warnings } = load('m.json', '{ "mcpServers": { "a": { "command": "x", "arg": [] } } }');
    expect(warnings).toMatchObject([{ code: 'foreign_key', key: 'mcpServers.a.arg', fix: 'did you mean args?' }]);
  });
});
