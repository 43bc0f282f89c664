/**
 * `npm run test:newcomer`: runs the first steps of a newcomer on an unprepared machine. Clones the last commit into an
 * empty folder and runs `npm install && npm test` there with a new home folder, an empty npm cache, Node 20 as the only
 * Node, and neither PostgreSQL nor Redis on the PATH. Prints both results and removes all files.
 *
 * The tests in `test/newcomer` are different: they check the documents and the quickstart.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { nodeOfMajor } from '../test/support/other-node.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NODE_MAJOR = 20;
const LIMIT_MINUTES = Number(process.env['NEWCOMER_MINUTES'] ?? 90);
/** Programs that a newcomer may not have. One version of Node is added back. */
const ABSENT =
  /^(node|nodejs|npm|npx|corepack|yarn|pnpm|bun|deno)(-?\d.*)?$|^(postgres|postmaster|initdb|psql|pg_|createdb|createuser|dropdb|redis-|valkey-)/;
/** The only environment variables that are kept: the settings for access to the package registries. */
const NETWORK =
  /^((https?|no|all|ftp)_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|PIP_\w+|UV_\w+)$/i;

const folder = mkdtempSync(join(tmpdir(), 'parley-newcomer-'));
// Programs of another user, such as PostgreSQL started by root, must be able to search the PATH in this folder.
chmodSync(folder, 0o755);
let child: ChildProcess | undefined;

/** Ends the running command and all its descendants, also those in other process groups. */
function stop(): void {
  if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  const parents = table
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number]);
  const started = (of: number): number[] => [
    of,
    ...parents.flatMap(([pid, parent]) => (parent === of ? started(pid) : [])),
  ];
  for (const pid of started(child.pid)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // The process has already ended.
    }
  }
}

function leave(code: number): never {
  stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  process.exit(code);
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => leave(130));

/** A folder with links to all programs of this machine except the absent ones. */
async function buildPath(): Promise<string> {
  const programs = join(folder, 'programs');
  mkdirSync(programs);
  const linked = new Set<string>();
  const link = (target: string, name: string): void => {
    if (linked.has(name)) return;
    linked.add(name);
    symlinkSync(target, join(programs, name));
  };
  link(await nodeOfMajor(NODE_MAJOR), 'node');
  for (const name of ['npm', 'npx']) link(realpathSync(which(name)), name);
  for (const place of new Set((process.env['PATH'] ?? '').split(delimiter))) {
    // npm adds the programs of this checkout to the PATH of its scripts; a newcomer does not have them.
    if (place === '' || place.includes('node_modules')) continue;
    for (const name of list(resolve(place))) if (!ABSENT.test(name)) link(join(resolve(place), name), name);
  }
  return programs;
}

function list(place: string): string[] {
  try {
    return readdirSync(place).filter((name) => statSync(join(place, name), { throwIfNoEntry: false })?.isFile());
  } catch {
    return [];
  }
}

const which = (program: string, env = process.env): string =>
  execFileSync('/bin/sh', ['-c', `command -v ${program}`], { env, encoding: 'utf8' }).trim();

/** Throws if the environment has a program that must be absent. */
function check(env: Record<string, string>): void {
  const version = execFileSync(join(env['PATH']!, 'node'), ['--version'], { env, encoding: 'utf8' }).trim();
  if (!version.startsWith(`v${NODE_MAJOR}.`)) throw new Error(`the Node on the PATH is ${version}`);
  for (const program of ['node22', 'node24', 'postgres', 'pg_ctl', 'initdb', 'psql', 'redis-server', 'redis-cli']) {
    let found: string;
    try {
      found = which(program, env);
    } catch {
      continue;
    }
    throw new Error(`${program} is on the PATH: ${found}`);
  }
  console.log(
    `Node ${version}; no other Node, no PostgreSQL and no Redis on the PATH; home ${env['HOME']}, which is empty`,
  );
}

const seconds = (since: number): string => `${Math.round((performance.now() - since) / 1_000)} s`;

/** Runs npm as a newcomer does; resolves with its exit code, or with 124 after a timeout. */
async function npm(args: readonly string[], cwd: string, env: Record<string, string>, ms: number): Promise<number> {
  // In its own process group, so that all its processes can be ended.
  child = spawn('npm', args, { cwd, env, stdio: ['ignore', 'inherit', 'inherit'], detached: true });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    stop();
  }, ms);
  const code = await new Promise<number>((settle, reject) => {
    child!.once('error', reject);
    child!.once('close', (status) => settle(status ?? 1));
  });
  clearTimeout(timer);
  return late ? 124 : code;
}

async function main(): Promise<number> {
  const git = (...args: string[]): string => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  const commit = git('log', '-1', '--format=%h %s');
  if (git('status', '--porcelain') !== '') console.log('Uncommitted changes are not tested (see git status).');
  const clone = join(folder, 'parley');
  execFileSync('git', ['clone', '--quiet', '--no-hardlinks', ROOT, clone], { stdio: 'inherit' });
  console.log(`Cloned ${commit} to ${clone}`);

  const home = join(folder, 'home');
  mkdirSync(home);
  const kept = Object.entries(process.env).filter(([name]) => NETWORK.test(name)) as [string, string][];
  const registry = execFileSync('npm', ['config', 'get', 'registry'], { cwd: home, encoding: 'utf8' }).trim();
  const env: Record<string, string> = {
    ...Object.fromEntries(kept),
    ...(registry !== 'https://registry.npmjs.org/' && { npm_config_registry: registry }),
    PATH: await buildPath(),
    HOME: home,
    TMPDIR: tmpdir(),
  };
  check(env);

  const began = performance.now();
  const results: string[] = [];
  for (const args of [['install'], ['test']]) {
    const since = performance.now();
    console.log(`\n$ npm ${args.join(' ')}`);
    const left = LIMIT_MINUTES * 60_000 - (performance.now() - began);
    const code = await npm(args, clone, env, left);
    const said =
      code === 0 ? 'passed' : code === 124 ? `did not end within ${LIMIT_MINUTES} minutes` : `failed (${code})`;
    results.push(`npm ${args.join(' ')} ${said} after ${seconds(since)}`);
    if (code !== 0) {
      console.log(`\nNewcomer: FAILED at ${commit}: ${results.join('; ')}`);
      return code;
    }
  }
  console.log(`\nNewcomer: PASSED at ${commit}: ${results.join('; ')}; ${seconds(began)} in all`);
  return 0;
}

try {
  leave(await main());
} catch (error) {
  console.error(`Newcomer: the test could not run: ${(error as Error).message}`);
  leave(1);
}
