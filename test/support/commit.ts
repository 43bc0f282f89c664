import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const git = (...args: string[]): string => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();

/** The commit of a published result, with a note where the code has uncommitted changes. */
export function commitOf(): string {
  try {
    const changed = git('status', '--porcelain', '--', 'src', 'test', 'bin', 'package-lock.json') !== '';
    return `commit ${git('rev-parse', '--short=10', 'HEAD')}${changed ? ' with uncommitted changes' : ''}`;
  } catch {
    return 'an unknown commit';
  }
}
