/**
 * Packages that tests need and the project must not depend on, fetched from the npm registry on first use. Each has its
 * own folder below `node_modules/.cache`. No install script is run. A package of this kind is too
 * large for every clone (a second Node), or would put a program in front of the machine's own on the PATH of npm
 * scripts.
 */
import { spawn } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { alone } from './one-process-at-a-time.js';

const INSTALL_LIMIT_MS = 300_000;

export interface NpmPackage {
  readonly name: string;
  /** A version, or a range such as `22`: then the newest version at the time of the first use. */
  readonly version: string;
  /** Rejects a package that does not work here. Runs once, before other tests can see the package. */
  verify?(folder: string): Promise<void>;
}

/** Returns the folder of the installed package. Several test processes may request the same package at once. */
export async function npmPackage(wanted: NpmPackage, cache = defaultCache()): Promise<string> {
  const { name, version } = wanted;
  const key = `${name}@${version}`.replaceAll('/', '+');
  const target = join(cache, key);
  const folder = join(target, 'node_modules', name);
  if (existsSync(folder)) return folder;
  await mkdir(cache, { recursive: true });
  // Two concurrent installations are safe but do the work twice.
  await alone(
    `${target}.lock`,
    INSTALL_LIMIT_MS,
    () => existsSync(folder),
    () => installInto(target, cache, wanted),
  );
  return folder;
}

function defaultCache(): string {
  return join(realpathSync(fileURLToPath(new URL('../../node_modules', import.meta.url))), '.cache', 'parley-tests');
}

async function installInto(target: string, cache: string, { name, version, verify }: NpmPackage): Promise<void> {
  // The folder is renamed when it is complete, so that an interrupted installation leaves no partial package.
  const staging = await mkdtemp(join(cache, '.staging-'));
  try {
    await writeFile(join(staging, 'package.json'), '{"private":true}');
    // Without the prefix, npm treats a folder below `node_modules` as part of the project.
    // `npm run --silent` would otherwise silence the error of this npm too.
    const options = [
      '--loglevel=error',
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      '--no-package-lock',
      '--prefer-offline',
    ];
    await npm(['install', '--prefix', staging, ...options, `${name}@${version}`], staging);
    await verify?.(join(staging, 'node_modules', name));
    await rename(staging, target).catch((error: NodeJS.ErrnoException) => {
      // Another process has installed the same package.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

async function npm(args: string[], cwd: string): Promise<void> {
  const windows = process.platform === 'win32';
  const child = spawn('npm', args, { cwd, shell: windows, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const timer = setTimeout(() => child.kill('SIGKILL'), INSTALL_LIMIT_MS);
  const ended = await new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`));
    child.once('close', (code, signal) => {
      if (code === 0) resolve('');
      else resolve(signal ? `did not end within ${INSTALL_LIMIT_MS / 1000} s` : `ended with code ${code}`);
    });
  });
  clearTimeout(timer);
  if (ended) throw new Error(`npm ${args.join(' ')} ${ended}. The tests need the npm registry for it.\n${output}`);
}
