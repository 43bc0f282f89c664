/** The package that `npm pack` makes, installed into an empty folder and run with npx under each supported Node. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cleanCopy } from '../support/clean-copy.js';
import { nodeOfMajor } from '../support/other-node.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };
const LIMIT = 600_000;
const run = promisify(execFile);

/** A plugin that compiles only if its types come from the package. */
const PLUGIN = `import { API_VERSION, HOOKS, type Hook, type JsonObject, type Plugin } from 'parley/plugin';

const first: Hook | undefined = HOOKS[0];
const plugin: Plugin = {
  apiVersion: API_VERSION,
  onRequest({ method, caller }) {
    return method === 'tools/call' && caller.roles.length === 0 ? { deny: 'Only for roles' } : undefined;
  },
  async onResponse(_call, { size, result }) {
    const more: JsonObject = { ...result, first: first ?? null, size };
    return { result: more };
  },
  onError: (_call, { message, data }) => ({ error: { message: message.toUpperCase(), ...(data && { data }) } }),
  onEvent: () => ({ drop: true }),
  onList: (_call, items) => ({ items: items.filter(({ name }) => name !== 'hidden') }),
};
export default plugin;

export const wrong: Plugin = {
  apiVersion: 1,
  // @ts-expect-error A decision of another hook.
  onRequest: () => ({ drop: true }),
};
`;

let folder: string;
let tarball: string;
let files: string[];

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-package-'));
  const source = cleanCopy();
  try {
    // Files of an older build must not be packed.
    mkdirSync(path.join(source, 'dist'));
    writeFileSync(path.join(source, 'dist', 'stale.js'), '');
    await run('npm', ['pack', '--pack-destination', folder], { cwd: source, timeout: LIMIT });
  } finally {
    rmSync(source, { recursive: true, force: true, maxRetries: 3 });
  }
  tarball = path.join(folder, `parley-${version}.tgz`);
  const { stdout } = await run('tar', ['-tzf', tarball], { maxBuffer: 10_000_000 });
  files = stdout
    .trim()
    .split('\n')
    .map((name) => name.replace(/^package\//, ''));
}, LIMIT);
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));

describe('npm pack', () => {
  test('builds from a clean state first', () => {
    expect(files).toContain('dist/cli/main.js');
    expect(files).not.toContain('dist/stale.js');
  });

  test('ships the documents and the examples', () => {
    const documents = readdirSync(path.join(ROOT, 'docs'), { recursive: true }) as string[];
    const wanted = documents.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`);
    expect(files).toEqual(
      expect.arrayContaining(['README.md', 'LICENSE', 'bin/parley.js', 'examples/quickstart.yaml']),
    );
    expect(files).toEqual(expect.arrayContaining(wanted));
  });

  test(
    'has the types of plugins, without packages of types beside it',
    async () => {
      const project = path.join(folder, 'plugin');
      const installed = path.join(project, 'node_modules', 'parley');
      mkdirSync(installed, { recursive: true });
      await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', installed]);
      writeFileSync(path.join(project, 'package.json'), '{ "private": true, "type": "module" }');
      writeFileSync(path.join(project, 'plugin.ts'), PLUGIN);
      const tsc = path.join(ROOT, 'node_modules', '.bin', 'tsc');
      const options = ['--noEmit', '--strict', '--target', 'es2023', '--module', 'nodenext', '--types', ''];
      const { stdout } = await run(tsc, [...options, 'plugin.ts'], { cwd: project, timeout: LIMIT }).catch(
        (error: { stdout: string }) => error,
      );
      expect(stdout).toBe('');
    },
    LIMIT,
  );

  test('ships neither tests nor sources', () => {
    const places = new Set(files.map((name) => name.split('/')[0]));
    expect([...places].sort()).toEqual(['LICENSE', 'README.md', 'bin', 'dist', 'docs', 'examples', 'package.json']);
    expect(files.filter((name) => /\.(test\.js|map|tsbuildinfo)$/.test(name))).toEqual([]);
  });
});

describe.each([20, 22, 24])('npx parley under Node %i', (major) => {
  let home: string;
  let env: Record<string, string>;
  const running: ChildProcess[] = [];

  beforeAll(async () => {
    home = path.join(folder, `node-${major}`);
    const programs = path.join(home, 'programs');
    mkdirSync(programs, { recursive: true });
    symlinkSync(await nodeOfMajor(major), path.join(programs, 'node'));
    env = {
      ...(process.env as Record<string, string>),
      PATH: `${programs}${path.delimiter}${process.env['PATH'] ?? ''}`,
      PARLEY_LISTEN: '127.0.0.1:0',
    };
    // An empty folder, which npm turns into a package with one dependency.
    home = path.join(home, 'project');
    mkdirSync(home);
    writeFileSync(path.join(home, 'package.json'), '{ "private": true }');
    await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball], {
      cwd: home,
      env,
      timeout: LIMIT,
    });
  }, LIMIT);
  afterAll(async () => {
    for (const child of running) await interrupt(child);
  });

  async function interrupt(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    process.kill(-child.pid!, 'SIGINT');
    await exit;
  }

  test('prints its version', async () => {
    expect((await run('node', ['--version'], { env })).stdout).toMatch(new RegExp(`^v${major}\\.`));
    const { stdout, stderr } = await run('npx', ['parley', '--version'], { cwd: home, env });
    expect(stdout).toBe(`${version}\n`);
    // npm itself may print warnings.
    expect(stderr.split('\n').filter((line) => !/^npm |^$/.test(line))).toEqual([]);
  });

  test('serves a real client', async () => {
    const child = spawn('npx', ['parley', 'serve'], {
      cwd: home,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    running.push(child);
    let output = '';
    const url = await new Promise<string>((resolve, reject) => {
      for (const stream of [child.stdout!, child.stderr!])
        stream.on('data', (chunk: Buffer) => {
          output += chunk.toString();
          const found = /listening on (http\S+)/.exec(output)?.[1];
          if (found && output.includes('Stop with Ctrl-C')) resolve(found);
        });
      child.once('exit', (code) => reject(new Error(`it ended with code ${code}:\n${output}`)));
    });
    const client = new Client(
      { name: 'package', version: '1' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } } },
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
    const { structuredContent } = await client.callTool({ name: 'clock__now', arguments: { timeZone: 'Asia/Tokyo' } });
    expect(structuredContent).toMatchObject({ timeZone: 'Asia/Tokyo' });
    await client.close();
    expect(output).not.toMatch(/Warning|deprecated/i);
    await interrupt(child);
    expect(existsSync(path.join(home, 'node_modules', 'parley', 'docs', 'configuration.md'))).toBe(true);
  });
});
