// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is the syntax under test
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parse } from 'yaml';
import { PLAIN } from '../../telemetry/terminal-style.js';
import { main } from '../main.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-import-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (name: string, text: string): void => {
  mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
  writeFileSync(path.join(folder, name), text);
};
const read = (name: string): string => readFileSync(path.join(folder, name), 'utf8');

async function run(line: string, answer?: string) {
  const out: string[] = [];
  const err: string[] = [];
  const code = await main(line.split(' '), {
    cwd: folder,
    env: { HOME: path.join(folder, 'home') },
    style: PLAIN,
    terminal: false,
    stdout: (text) => void out.push(text),
    stderr: (text) => void err.push(text),
    ask: async () => answer,
  });
  return { code, stdout: out.join(''), stderr: err.join('') };
}

const SECRET = 'ghp_0123456789abcdefghij0123';
const CLAUDE = { mcpServers: { github: { command: 'npx', args: ['-y', 'x'], env: { GITHUB_TOKEN: SECRET } } } };

test('shows the report and the change, asks, writes, and keeps the old text', async () => {
  write('claude.json', JSON.stringify(CLAUDE));
  write('parley.yaml', '# mine\nservers:\n  weather: { url: http://127.0.0.1:1/mcp }\n');
  const before = read('parley.yaml');
  expect(await run('import claude.json', 'n')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Nothing was written'),
  });
  expect(read('parley.yaml')).toBe(before);
  const { code, stdout } = await run('import claude.json', 'y');
  expect(code).toBe(0);
  expect(stdout).toContain('github is added');
  expect(stdout).toMatch(/^\+ +github:/m);
  expect(stdout).toContain('export GITHUB_TOKEN=…');
  expect(stdout).not.toContain(SECRET);
  expect(read('parley.yaml')).toContain('# mine');
  expect(parse(read('parley.yaml')).servers.github.env).toEqual({ GITHUB_TOKEN: '${GITHUB_TOKEN}' });
  expect(read('parley.yaml.bak')).toBe(before);
  expect((await run('import claude.json')).stdout).toContain('There is nothing to write');
});

test('without a terminal it writes only with --yes, and never with --dry-run', async () => {
  write('claude.json', JSON.stringify(CLAUDE));
  expect(await run('import claude.json')).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') });
  expect(await run('import claude.json --dry-run')).toMatchObject({ code: 0 });
  expect(existsSync(path.join(folder, 'parley.yaml'))).toBe(false);
  expect(await run('import claude.json --yes --json')).toMatchObject({ code: 0 });
  expect(parse(read('parley.yaml')).servers).toHaveProperty('github');
});

test('an entry of the same name is replaced only with --replace', async () => {
  write('claude.json', JSON.stringify(CLAUDE));
  write('parley.yaml', 'servers:\n  github: { command: other }\n');
  expect(await run('import claude.json --yes')).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('--replace'),
  });
  expect(parse(read('parley.yaml')).servers.github.command).toBe('other');
  expect(await run('import claude.json --yes --replace')).toMatchObject({ code: 0 });
  expect(parse(read('parley.yaml')).servers.github.command).toBe('npx');
});

test('--discover reads the files of this user and this folder, and leaves the gateway itself out', async () => {
  write('home/.cursor/mcp.json', JSON.stringify({ mcpServers: { a: { url: 'https://a.example.com/mcp' } } }));
  write(
    'home/.codeium/windsurf/mcp_config.json',
    JSON.stringify({ mcpServers: { b: { serverUrl: 'https://b.example.com/mcp' } } }),
  );
  write(
    '.vscode/mcp.json',
    '{ "servers": { "c": { "command": "c" }, "parley": { "command": "parley", "args": ["stdio"] } } }',
  );
  write('home/.claude.json', '{ broken');
  const { code, stdout, stderr } = await run('import --discover --yes');
  expect(code).toBe(0);
  expect(Object.keys(parse(read('parley.yaml')).servers)).toEqual(['a', 'c', 'b']);
  expect(stdout).toContain('parley is left out: it is this gateway itself');
  expect(stderr).toContain('.claude.json is left out');
});

test('an entry with invalid settings is left out with the reason', async () => {
  write('claude.json', '{ "mcpServers": { "bad": { "url": "ftp://x" }, "good": { "command": "x" } } }');
  const { stdout } = await run('import claude.json --yes');
  expect(stdout).toMatch(/bad is left out: .*url/);
  expect(Object.keys(parse(read('parley.yaml')).servers)).toEqual(['good']);
});

test('many entries are written at once, and each is named in the report', async () => {
  const imported = async (count: number): Promise<{ stdout: string; took: number }> => {
    const servers = Object.fromEntries(Array.from({ length: count }, (_, n) => [`s${n}`, { command: 'x' }]));
    write('claude.json', JSON.stringify({ mcpServers: { ...servers, 日本: { command: 'y' } } }));
    const began = performance.now();
    const { stdout } = await run('import claude.json --yes --replace');
    return { stdout, took: performance.now() - began };
  };
  const few = await imported(150);
  const many = await imported(1_500);
  // An earlier implementation wrote the file once for each entry: ten times the entries took a hundred times as long.
  expect(many.took / few.took).toBeLessThan(50);
  expect(many.stdout).toContain('an entry is left out: its name has neither letters nor digits');
  expect(Object.keys(parse(read('parley.yaml')).servers)).toHaveLength(1_500);
});

test('the first of several files wins, also with --replace', async () => {
  write('home/.cursor/mcp.json', JSON.stringify({ mcpServers: { a: { command: 'first' } } }));
  write('home/.codeium/windsurf/mcp_config.json', JSON.stringify({ mcpServers: { a: { command: 'second' } } }));
  write('parley.yaml', 'servers:\n  a: { command: old }\n');
  const { stdout } = await run('import --discover --yes --replace');
  expect(stdout).toMatch(/a replaces the entry of the same name[\s\S]*a is left out: the file has another entry/);
  expect(parse(read('parley.yaml')).servers.a.command).toBe('first');
});

test('wrong uses are explained', async () => {
  expect(await run('import')).toMatchObject({ code: 2, stderr: expect.stringContaining('--discover') });
  expect(await run('import none.json')).toMatchObject({ code: 1, stderr: expect.stringContaining('does not exist') });
  expect(await run('import --discover')).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('No configuration'),
  });
});
