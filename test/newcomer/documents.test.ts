/** What the documents say is held against what is there. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { configFrom } from '../../src/config/load.js';
import { clientSnippets, snippetsMarkdown } from '../../src/inbound/mcp/client-snippets.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (name: string): string => readFileSync(path.join(ROOT, name), 'utf8');
const README = read('README.md');
const MANIFEST = JSON.parse(read('package.json')) as Record<string, Record<string, string>>;
const DOCUMENTS = [
  'README.md',
  ...readdirSync(path.join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

function sectionOf(text: string, heading: string): string {
  const [, rest] = text.split(`\n## ${heading}\n`);
  if (rest === undefined) throw new Error(`there is no section "${heading}"`);
  return rest.split('\n## ')[0]!;
}

describe('What does not cross the gateway', () => {
  const lines = sectionOf(README, 'What does not cross the gateway')
    .split(/\n(?=- )|\n\n/)
    .filter((part) => part.startsWith('- '));
  const proofs = read('test/newcomer/does-not-cross.test.ts');
  const tests = [
    ...proofs.matchAll(/^\s*(?:test\(|test\.each\([\s\S]*?\]\)\(|test\.each\(\w+\)\(\s*)\s*'(NX-\d\d) /gm),
  ].map((match) => match[1]);

  test('every line names the test that proves it, and that test is there', () => {
    expect(lines.length).toBeGreaterThan(20);
    for (const line of lines) {
      const ids = [...line.matchAll(/\((NX-\d\d)\)/g)].map((match) => match[1]);
      expect(ids, line).toHaveLength(1);
      expect(tests, line).toContain(ids[0]);
    }
  });

  test('every test of it has its line', () => {
    expect(tests).toEqual([...new Set(tests)]);
    for (const id of tests) expect(README).toContain(`(${id})`);
  });
});

describe('README', () => {
  test('its configuration is one', () => {
    const yaml = /```yaml\n([\s\S]*?)```/.exec(sectionOf(README, 'Configuration'))![1]!;
    const { config, warnings } = configFrom(parse(yaml), { env: { KEY: 'value' } });
    expect(warnings).toEqual([]);
    expect(config).toMatchObject({
      listen: { host: '127.0.0.1', port: 4600 },
      naming: { separator: '__', prefix: 'always' },
      timeouts: { connect: 5_000, call: 60_000, callMax: 600_000 },
      limits: { body: 4 * 1024 * 1024, event: 4 * 1024 * 1024, depth: 64, batch: 50 },
    });
    expect(Object.keys(config.servers)).toEqual(['weather', 'files']);
  });

  test('the rooms it shows are there', () => {
    const house = /```\n([\s\S]*?)```/.exec(sectionOf(README, 'The house'))![1]!;
    const shown = [...house.matchAll(/^ {2}(\S+) /gm)].map((match) => match[1]!);
    for (const name of shown) expect(existsSync(path.join(ROOT, 'src', name)), name).toBe(true);
    const rooms = readdirSync(path.join(ROOT, 'src'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && readdirSync(path.join(ROOT, 'src', entry.name)).length > 0)
      .map((entry) => `${entry.name}/`);
    for (const room of rooms) expect(shown).toContain(room);
  });

  test('the scripts it names are there, and those that are there are named', () => {
    const named = new Set([...README.matchAll(/`npm (?:run )?([\w:-]+)`/g)].map((match) => match[1]!));
    // Commands of npm itself.
    for (const name of ['install', 'pack']) named.delete(name);
    for (const name of named) expect(MANIFEST['scripts']).toHaveProperty([name]);
    for (const name of Object.keys(MANIFEST['scripts']!)) {
      if (/^(test|bench)/.test(name)) expect(named).toContain(name);
    }
  });

  test('shows what to paste into each client as the gateway does; scripts/insert-clients.mjs puts it there', () => {
    const markdown = snippetsMarkdown(clientSnippets('http://127.0.0.1:4600/mcp'));
    expect(README.split('<!-- clients -->\n')[1]!.split('<!-- /clients -->')[0]).toBe(markdown);
  });

  test('shows the matrix of revisions as it was last generated', () => {
    const { status, stderr } = spawnSync(process.execPath, [path.join(ROOT, 'scripts/insert-matrix.mjs'), '--check']);
    expect({ status, stderr: stderr.toString() }).toEqual({ status: 0, stderr: '' });
  });
});

test.each(DOCUMENTS)('the links of %s lead somewhere', (name) => {
  const text = read(name);
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map((match) => match[1]!.toLowerCase().replace(/[^\w]+/g, '-'));
  for (const [, target] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^https?:/.test(target!)) continue;
    if (target!.startsWith('#')) expect(headings).toContain(target!.slice(1));
    else expect(existsSync(path.join(ROOT, path.dirname(name), target!.replace(/#.*/, ''))), target).toBe(true);
  }
});

test.each(readdirSync(path.join(ROOT, 'docs/decisions')))('decision %s is short, and says what and why', (name) => {
  const text = read(`docs/decisions/${name}`);
  expect(text.split('\n').length).toBeLessThanOrEqual(31);
  expect(text).toContain('\n**What.** ');
  expect(text).toContain('\n**Why.** ');
});

describe('docs/dependencies.md', () => {
  const DEPENDENCIES = read('docs/dependencies.md');

  test.each([
    ['dependencies', 'At run time'],
    ['optionalDependencies', 'At run time, where Node needs it'],
    ['devDependencies', 'For development and tests'],
  ])('has one line for each of the %s, and no other', (kind, heading) => {
    const rows = [...sectionOf(DEPENDENCIES, heading).matchAll(/^\| `([^`]+)` *\| (.{20,}?) *\|$/gm)];
    expect(rows.map(([, name]) => name).sort()).toEqual(Object.keys(MANIFEST[kind] ?? {}).sort());
  });
});

describe('package-lock.json', () => {
  type Locked = Record<'dev' | 'optional' | 'hasInstallScript', boolean | undefined> & { resolved?: string };
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> };

  test('names no registry', () => {
    expect(Object.keys(packages).length).toBeGreaterThan(50);
    for (const [name, { resolved }] of Object.entries(packages)) expect(resolved, name).toBeUndefined();
  });

  test('nothing that runs in production needs its install script', () => {
    const scripted = Object.entries(packages)
      .filter(([, { dev, hasInstallScript }]) => hasInstallScript === true && dev !== true)
      .map(([name]) => name.replace(/^node_modules\//, ''));
    // This one's script looks for a binary, and the package brings it along for every system named here.
    expect(scripted).toEqual(['@photostructure/sqlite']);
    const prebuilt = readdirSync(path.join(ROOT, 'node_modules/@photostructure/sqlite/prebuilds'));
    expect(prebuilt.sort()).toEqual(
      ['darwin', 'linux', 'win32'].flatMap((system) => [`${system}-arm64`, `${system}-x64`]),
    );
  });
});
