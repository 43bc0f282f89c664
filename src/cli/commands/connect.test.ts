// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is the syntax under test
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { PLAIN } from '../../telemetry/terminal-style.js';
import { placesOf } from '../client-config-files.js';
import { main } from '../main.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-connect-'));
  writeFileSync(path.join(folder, 'parley.yaml'), 'servers: { weather: { command: x } }\n');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function run(line: string, answer?: string) {
  const out: string[] = [];
  const err: string[] = [];
  const code = await main(line.split(' '), {
    cwd: folder,
    env: { HOME: path.join(folder, 'home'), APPDATA: path.join(folder, 'home', '.config') },
    style: PLAIN,
    terminal: false,
    stdout: (text) => void out.push(text),
    stderr: (text) => void err.push(text),
    ask: async () => answer,
  });
  return { code, stdout: out.join(''), stderr: err.join('') };
}

const settings = (): string =>
  placesOf({ env: { HOME: path.join(folder, 'home'), APPDATA: path.join(folder, 'home', '.config') } }).settings;
const home = (...names: string[]): string => path.join(folder, 'home', ...names);
const URL_OF = 'http://127.0.0.1:4600/mcp';

test.each([
  [
    'claude',
    () => path.join(settings(), 'Claude', 'claude_desktop_config.json'),
    { mcpServers: { parley: { command: 'npx', args: ['-y', 'mcp-remote', URL_OF] } } },
  ],
  ['claude-code', () => home('.claude.json'), { mcpServers: { parley: { type: 'http', url: URL_OF } } }],
  ['cursor', () => home('.cursor', 'mcp.json'), { mcpServers: { parley: { url: URL_OF } } }],
  [
    'vscode',
    () => path.join(settings(), 'Code', 'User', 'mcp.json'),
    { servers: { parley: { type: 'http', url: URL_OF } } },
  ],
  [
    'windsurf',
    () => home('.codeium', 'windsurf', 'mcp_config.json'),
    { mcpServers: { parley: { serverUrl: URL_OF } } },
  ],
])('writes the entry of %s', async (client, file, content) => {
  expect(await run(`connect ${client} --yes`)).toMatchObject({ code: 0 });
  expect(JSON.parse(readFileSync(file(), 'utf8'))).toEqual(content);
  expect(statSync(file()).mode & 0o077).toBe(0);
});

test('changes only its own entry, keeps the old text, and takes the entry back byte for byte', async () => {
  const file = home('.cursor', 'mcp.json');
  const text =
    '{\n\t// my servers\n\t"mcpServers": {\n\t\t"other": { "command": "x" }, // keep\n\t},\n\t"theme": 1\n}\n';
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  const { stdout } = await run('connect cursor', 'y');
  expect(stdout).toMatch(/^\+ .*"parley"/m);
  expect(stdout).not.toMatch(/^- /m);
  const connected = readFileSync(file, 'utf8');
  expect(connected).toContain('// my servers');
  expect(readFileSync(`${file}.bak`, 'utf8')).toBe(text);
  expect(await run('connect cursor')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('already has the entry'),
  });
  expect(readFileSync(file, 'utf8')).toBe(connected);
  expect(await run('connect cursor --remove --yes')).toMatchObject({ code: 0 });
  expect(readFileSync(file, 'utf8')).toBe(text);
  expect(await run('connect cursor --remove')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('has no entry'),
  });
  expect(readdirSync(path.dirname(file)).sort()).toEqual(['mcp.json', 'mcp.json.bak']);
});

test('writes nothing without a confirmation, with --dry-run, or into a broken file', async () => {
  const file = home('.cursor', 'mcp.json');
  expect(await run('connect cursor', 'no')).toMatchObject({ code: 0 });
  expect(await run('connect cursor')).toMatchObject({ code: 2 });
  expect(await run('connect cursor --dry-run')).toMatchObject({ code: 0, stdout: expect.stringContaining('"parley"') });
  expect(existsSync(file)).toBe(false);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, '{ broken');
  expect(await run('connect cursor --yes')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('cannot be changed'),
  });
  expect(readFileSync(file, 'utf8')).toBe('{ broken');
});

test('a token is a reference, never a value', async () => {
  const token = '5b1c8e0f9a7d4c3e5b1c8e0f9a7d4c3e';
  writeFileSync(
    path.join(folder, 'parley.yaml'),
    `servers: { w: { command: x } }\nauth: { tokens: [{ name: ada, token: ${token} }] }\n`,
  );
  const expected = { vscode: '${env:PARLEY_TOKEN}', 'claude-code': '${PARLEY_TOKEN}', claude: '${PARLEY_TOKEN}' };
  for (const [client, reference] of Object.entries(expected)) {
    const { stdout } = await run(`connect ${client} --yes --file ${client}.json`);
    expect(stdout).toContain('PARLEY_TOKEN');
    const text = readFileSync(path.join(folder, `${client}.json`), 'utf8');
    expect(text).toContain(`Bearer ${reference}`);
    expect(text + stdout).not.toContain(token);
  }
});

test('--stdio, --server, --project and --name', async () => {
  await run('connect vscode --project --stdio --server weather --name mine --yes');
  const { servers } = JSON.parse(readFileSync(path.join(folder, '.vscode', 'mcp.json'), 'utf8'));
  expect(servers.mine).toMatchObject({ type: 'stdio', command: process.execPath });
  expect(servers.mine.args.slice(1)).toEqual([
    'stdio',
    '--config',
    path.join(folder, 'parley.yaml'),
    '--server',
    'weather',
  ]);
  await run('connect cursor --url https://gateway.example.com --server weather --yes --json');
  expect(JSON.parse(readFileSync(home('.cursor', 'mcp.json'), 'utf8')).mcpServers.parley).toEqual({
    url: 'https://gateway.example.com/mcp/weather',
  });
});

test('wrong uses are explained', async () => {
  expect(await run('connect curser')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('did you mean cursor?'),
  });
  expect(await run('connect windsurf --project')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no file for a project'),
  });
});
