import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { type CommandLine, type Flag, UsageError } from './command.js';
import { textDiff } from './text-diff-output.js';

export const YES: Flag = { name: 'yes', short: 'y', description: 'Write without asking.' };
export const DRY_RUN: Flag = { name: 'dry-run', description: 'Show the change and write nothing.' };

/** The text of a file, or undefined if there is none. */
export function readIfExists(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new Error(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/**
 * Replaces the content of a file in one step: a reader sees the old text or the new text, never a part. A symbolic link
 * is kept, and its target is replaced.
 */
export function writeAtomically(file: string, text: string): void {
  const target = existsSync(file) ? realpathSync(file) : file;
  mkdirSync(path.dirname(target), { recursive: true });
  const temporary = `${target}.${randomBytes(6).toString('hex')}.tmp`;
  // Configurations of clients may contain tokens, so only the owner may read a new file.
  const mode = existsSync(target) ? statSync(target).mode & 0o777 : 0o600;
  try {
    writeFileSync(temporary, text, { mode, flag: 'wx' });
    chmodSync(temporary, mode);
    renameSync(temporary, target);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

export interface FileChange {
  readonly file: string;
  readonly before: string | undefined;
  readonly after: string;
  /** Whether the old text is kept as `FILE.bak`. */
  readonly backup: boolean;
}

/**
 * Shows a change of a file and writes it after a confirmation. Without a terminal it writes only with `--yes`. Returns
 * whether the file was written.
 */
export async function applyChange({ file, before, after, backup }: FileChange, line: CommandLine): Promise<boolean> {
  const { io, given } = line;
  const quiet = given('json');
  if (!quiet)
    io.stdout(
      `${before === undefined ? 'New file' : 'Change of'} ${file}:\n${textDiff(before ?? '', after, io.style)}`,
    );
  if (given('dry-run')) return false;
  if (!given('yes')) {
    const answer = quiet ? undefined : await io.ask?.(`Write ${file}? [y/N] `);
    if (answer === undefined) throw new UsageError(`nothing was written; give --yes to write ${file}`);
    if (!/^y(es)?$/i.test(answer.trim())) {
      io.stdout('Nothing was written.\n');
      return false;
    }
  }
  if (readIfExists(file) !== before) throw new Error(`${file} changed in the meantime; nothing was written, try again`);
  if (backup && before !== undefined) copyFileSync(file, `${file}.bak`);
  writeAtomically(file, after);
  return true;
}
