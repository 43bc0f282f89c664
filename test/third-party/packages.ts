/** Installs npm and PyPI packages, each with its dependencies in its own folder outside the repository. */
import { type SpawnOptions, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Package {
  readonly registry: 'npm' | 'pypi';
  readonly name: string;
  readonly version: string;
  /** Extras of a Python distribution, such as `mcp` of `google-adk[mcp]`. */
  readonly extras?: string;
  /** Further packages in the same folder, with exact versions, for dependencies that the package does not pin. */
  readonly with?: Readonly<Record<string, string>>;
  /** The file with the versions of its dependencies; default: constraints.txt. */
  readonly constraints?: string;
  /** Whether the package does not work without its install script. No other package may run one. */
  readonly installScript?: true;
}

/** npm resolves dependencies as of this day; `constraints.txt` does the same for pip. */
const BEFORE = '2026-11-15';
const CONSTRAINTS = 'constraints.txt';

/** Time limit for a cold cache, a slow mirror and a busy machine. */
const MOST_TIME = 30 * 60_000;

export const CACHE =
  process.env['PARLEY_THIRD_PARTY_CACHE'] ??
  join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'parley-third-party');

export const label = ({ name, version }: Package): string => `${name} ${version}`;

/** The folder of a package. The name depends on everything that determines the content. */
function folderOf(wanted: Package): string {
  const facts = JSON.stringify({ ...wanted, before: wanted.registry === 'npm' ? BEFORE : undefined });
  const digest = createHash('sha256').update(facts).digest('hex').slice(0, 8);
  return join(CACHE, `${wanted.registry}-${wanted.name.replace('/', '+')}-${wanted.version}-${digest}`);
}

/** The folder with the executables of an installed package. */
export const executables = (wanted: Package): string =>
  join(folderOf(wanted), wanted.registry === 'npm' ? 'node_modules/.bin' : 'bin');

export const executable = (wanted: Package, name: string): string => join(executables(wanted), name);

/** The working folder for programs that import an npm package. */
export const workFolder = (wanted: Package): string => folderOf(wanted);

/** Installs a package unless it is already installed. Throws with the end of the installer's output. */
export async function install(wanted: Package): Promise<'installed' | 'cached'> {
  const folder = folderOf(wanted);
  const done = join(folder, 'installed');
  if (await exists(done)) return 'cached';
  const release = await locked(`${folder}.lock`);
  try {
    if (await exists(done)) return 'cached';
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    if (wanted.registry === 'npm') await installNpm(wanted, folder);
    else await installPython(wanted, folder);
    await writeFile(`${done}.part`, `${label(wanted)}\n`);
    await rename(`${done}.part`, done);
    return 'installed';
  } finally {
    await release();
  }
}

/** Locks the cache, which concurrent runs share. A lock older than any installation belongs to a killed run. */
async function locked(lock: string): Promise<() => Promise<void>> {
  await mkdir(CACHE, { recursive: true });
  for (;;) {
    try {
      await mkdir(lock);
      return () => rm(lock, { recursive: true, force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const taken = await stat(lock).catch(() => undefined);
    if (taken && Date.now() - taken.mtimeMs > 2 * MOST_TIME) await rm(lock, { recursive: true, force: true });
    else await sleep(1_000);
  }
}

async function installNpm({ name, version, with: others = {}, installScript }: Package, folder: string): Promise<void> {
  const dependencies = { [name]: version, ...others };
  await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module', dependencies }));
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error'];
  const scripts = installScript ? '--no-ignore-scripts' : '--ignore-scripts';
  await run('npm', ['install', ...quiet, scripts, `--before=${BEFORE}`], { cwd: folder });
}

async function installPython(
  { name, version, extras, with: others = {}, constraints = CONSTRAINTS }: Package,
  folder: string,
): Promise<void> {
  await run(process.env['PYTHON'] ?? 'python3', ['-m', 'venv', folder]);
  const pip = join(folder, 'bin', 'pip');
  const exact = Object.entries(others).map(([other, its]) => `${other}==${its}`);
  const wanted = `${name}${extras === undefined ? '' : `[${extras}]`}==${version}`;
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input'];
  // A package may override a common version.
  const own = join(folder, 'constraints.txt');
  const common = (await readFile(new URL(constraints, import.meta.url), 'utf8')).split('\n');
  const free = common.filter((line) => !Object.keys(others).includes(line.split('==')[0]!));
  await writeFile(own, free.join('\n'));
  await run(pip, ['install', ...quiet, '--constraint', own, wanted, ...exact]);
}

/** The versions in the folder of a Python package, for `constraints.txt`. */
export async function frozen(wanted: Package): Promise<string[]> {
  const text = await run(executable(wanted, 'pip'), ['freeze', '--quiet', '--disable-pip-version-check']);
  return text.split('\n').filter((line) => /^[\w.-]+==\S+$/.test(line));
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Runs a program to its end and resolves with its output. Throws with the end of its output if it fails. */
export function run(command: string, args: readonly string[], options: SpawnOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], timeout: MOST_TIME });
    let output = '';
    let everything = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      everything = (everything + chunk.toString()).slice(-2_000);
    });
    child.stderr?.on('data', (chunk: Buffer) => {
      everything = (everything + chunk.toString()).slice(-2_000);
    });
    child.once('error', (error) => reject(new Error(`${command} does not start: ${error.message}`)));
    child.once('close', (code, signal) => {
      if (code === 0) resolve(output);
      else reject(new Error(`${command} ${args.join(' ')} ended with ${signal ?? code}: ${everything.trim()}`));
    });
  });
}
