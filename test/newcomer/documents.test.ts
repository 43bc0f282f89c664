/** Compares the documents with the code and the running gateway. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { configFrom } from '../../src/config/load.js';
import { clientSnippets, type SnippetId, snippetsMarkdown } from '../../src/inbound/mcp/client-snippets.js';
import { ERRORS } from '../../src/protocol/errors.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (name: string): string => readFileSync(path.join(ROOT, name), 'utf8');
const README = read('README.md');
const COMPATIBILITY = read('docs/compatibility.md');
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
  const lines = sectionOf(COMPATIBILITY, 'What does not cross the gateway')
    .split(/\n(?=- )|\n\n/)
    .filter((part) => part.startsWith('- '));
  const proofs = read('test/newcomer/does-not-cross.test.ts');
  const tests = [
    ...proofs.matchAll(/^\s*(?:test\(|test\.each\([\s\S]*?\]\)\(|test\.each\(\w+\)\(\s*)\s*'(NX-\d\d) /gm),
  ].map((match) => match[1]);

  test('every line names an existing test', () => {
    expect(lines.length).toBeGreaterThan(20);
    for (const line of lines) {
      const ids = [...line.matchAll(/\((NX-\d\d)\)/g)].map((match) => match[1]);
      expect(ids, line).toHaveLength(1);
      expect(tests, line).toContain(ids[0]);
    }
  });

  test('every test has its line', () => {
    expect(tests).toEqual([...new Set(tests)]);
    for (const id of tests) expect(COMPATIBILITY).toContain(`(${id})`);
  });
});

describe('README.md', () => {
  test('is short', () => {
    expect(README.split('\n').length).toBeLessThan(200);
  });

  test('shows the commands that install, start and test', () => {
    const commands = [...README.matchAll(/^```sh\n([\s\S]*?)```/gm)].flatMap((match) => match[1]!.trim().split('\n'));
    expect(commands).toContain('npm install && npm start');
    expect(commands).toContain('npm install && npm test');
  });

  test('links to every page of docs/, directly or through a page that it links to', () => {
    const linked = (name: string): string[] =>
      [...read(name).matchAll(/\]\(([^)\s#]+\.md)[^)]*\)/g)].map(([, target]) =>
        path.normalize(path.join(path.dirname(name), target!)),
      );
    const first = linked('README.md');
    const reached = new Set([...first, ...first.flatMap(linked)]);
    const pages = DOCUMENTS.filter((name) => /^docs\/[^/]+\.md$/.test(name));
    expect(pages.filter((name) => !reached.has(name))).toEqual([]);
  });

  test('its parley.yaml is valid, with the commented lines too', () => {
    const yaml = /```yaml\n([\s\S]*?)```/.exec(sectionOf(README, 'Your own servers'))![1]!;
    const all = yaml.replace(/^( *)# (\w+: \{)/gm, '$1$2');
    expect(all.split('\n').filter((line) => /^ *# \w+:/.test(line))).toEqual([]);
    const { config, warnings } = configFrom(parse(all), { env: { WEATHER_TOKEN: 'a-token-of-weather' } });
    expect(warnings).toEqual([]);
    expect(Object.keys(config.servers)).toEqual(['units', 'files', 'weather']);
    expect(Object.keys(config.agents)).toEqual(['helper', 'planner']);
  });
});

test('the configuration of docs/operating.md is valid, and shows the defaults', () => {
  const yaml = /```yaml\n([\s\S]*?)```/.exec(sectionOf(read('docs/operating.md'), 'Configuration'))![1]!;
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

test('the state of several replicas in docs/operating.md is valid', () => {
  const section = sectionOf(read('docs/operating.md'), 'One process or several replicas');
  const yaml = /```yaml\n([\s\S]*?)```/.exec(section)![1]!;
  const given = { ...parse(yaml), servers: { weather: { url: 'https://weather.example.com/mcp' } } };
  const { config, warnings } = configFrom(given, { env: { SEAL_KEY: 'k'.repeat(44) } });
  expect(warnings).toEqual([]);
  expect(config.state).toMatchObject({
    db: expect.stringMatching(/^postgres:/),
    bus: expect.stringMatching(/^redis:/),
  });
});

test('docs/architecture.md shows the folders of src/', () => {
  const tree = /```\n(bin\/[\s\S]*?)```/.exec(sectionOf(read('docs/architecture.md'), 'Folders'))![1]!;
  const shown = [...tree.matchAll(/^ {2}(\S+) /gm)].map((match) => match[1]!);
  for (const name of shown) expect(existsSync(path.join(ROOT, 'src', name)), name).toBe(true);
  const folders = readdirSync(path.join(ROOT, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && readdirSync(path.join(ROOT, 'src', entry.name)).length > 0)
    .map((entry) => `${entry.name}/`);
  for (const folder of folders) expect(shown).toContain(folder);
});

test('docs/testing.md names every script that tests or measures; documents name no script that does not exist', () => {
  const scriptsIn = (text: string): Set<string> => {
    const named = new Set([...text.matchAll(/`npm (?:run )?([\w:-]+)[^`]*`/g)].map((match) => match[1]!));
    // These are commands of npm itself.
    for (const name of ['install', 'pack']) named.delete(name);
    return named;
  };
  for (const document of DOCUMENTS)
    for (const name of scriptsIn(read(document))) expect(MANIFEST['scripts'], document).toHaveProperty([name]);
  const named = scriptsIn(read('docs/testing.md'));
  for (const name of Object.keys(MANIFEST['scripts']!)) {
    if (/^(test|bench)/.test(name)) expect(named).toContain(name);
  }
});

test('docs/testing.md describes the folders of test/', () => {
  const named = [...read('docs/testing.md').matchAll(/`test\/([\w-]+)`/g)].map((match) => match[1]!);
  const folders = readdirSync(path.join(ROOT, 'test'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'fixtures' && entry.name !== 'support')
    .map((entry) => entry.name);
  expect(named.sort()).toEqual(folders.sort());
});

test('README.md tells that npm test leaves tests out, and where their scripts are', () => {
  const section = sectionOf(README, 'Tests');
  expect(section).toContain('`npm test` leaves out');
  expect(section).toContain('(docs/testing.md)');
  expect(section).toContain('`npm run test:all`');
});

const IN_README: readonly SnippetId[] = ['claude-code', 'claude-desktop', 'cursor', 'vscode', 'typescript-sdk'];

test.each([
  ['README.md', (id: SnippetId) => IN_README.includes(id)],
  ['docs/clients.md', () => true],
])('%s shows the client snippets of the gateway; scripts/insert-clients.mjs puts them there', (name, shown) => {
  const snippets = clientSnippets('http://127.0.0.1:4600/mcp').filter(({ id }) => shown(id));
  expect(read(name).split('<!-- clients -->\n')[1]!.split('<!-- /clients -->')[0]).toBe(snippetsMarkdown(snippets));
});

test('docs/compatibility.md shows the matrices as they were last generated', () => {
  const { status, stderr } = spawnSync(process.execPath, [path.join(ROOT, 'scripts/insert-matrix.mjs'), '--check']);
  expect({ status, stderr: stderr.toString() }).toEqual({ status: 0, stderr: '' });
});

test('S2-37: docs/troubleshooting.md explains every reason of an error, and no other', () => {
  const table = sectionOf(read('docs/troubleshooting.md'), 'Reasons in errors');
  const explained = [...table.matchAll(/^\| (`[^|]+) \|/gm)].flatMap(([, names]) => names!.match(/\w+/g) ?? []);
  expect(explained.sort()).toEqual(Object.keys(ERRORS).sort());
});

test.each(DOCUMENTS)('the links of %s have targets', (name) => {
  const text = read(name);
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map((match) => match[1]!.toLowerCase().replace(/[^\w]+/g, '-'));
  for (const [, target] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^https?:/.test(target!)) continue;
    if (target!.startsWith('#')) expect(headings).toContain(target!.slice(1));
    else expect(existsSync(path.join(ROOT, path.dirname(name), target!.replace(/#.*/, ''))), target).toBe(true);
  }
});

// docs/extending.md also names files that the reader is going to write; test/extending checks that page.
test.each(DOCUMENTS.filter((name) => name !== 'docs/extending.md'))('the files that %s names exist', (name) => {
  for (const [, file] of read(name).matchAll(/`((?:[\w.-]+\/)+[\w.-]+\.(?:ts|mjs|js|md|yaml))`/g)) {
    const places = [ROOT, path.join(ROOT, 'src')].map((folder) => path.join(folder, file!));
    expect(places.some(existsSync), file).toBe(true);
  }
});

test('docs/finding-your-way.md answers at least twenty questions, each with files of src/', () => {
  const rows = [...read('docs/finding-your-way.md').matchAll(/^\| ([^|]+\?) \| (.+) \|$/gm)];
  expect(rows.length).toBeGreaterThanOrEqual(20);
  for (const [, question, answer] of rows) {
    const files = [...answer!.matchAll(/`(src\/[^`]+\.ts)`/g)].map((match) => match[1]!);
    expect(files, question).not.toEqual([]);
    for (const file of files) expect(existsSync(path.join(ROOT, file)), file).toBe(true);
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
    ['optionalDependencies', 'At run time, loaded on demand'],
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
    // The script of this package looks for a binary, and the package contains the binary for every system listed here.
    expect(scripted).toEqual(['@photostructure/sqlite']);
    const prebuilt = readdirSync(path.join(ROOT, 'node_modules/@photostructure/sqlite/prebuilds'));
    expect(prebuilt.sort()).toEqual(
      ['darwin', 'linux', 'win32'].flatMap((system) => [`${system}-arm64`, `${system}-x64`]),
    );
  });
});
