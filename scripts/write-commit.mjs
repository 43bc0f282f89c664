// Writes the commit of the build to dist/commit.txt, which reports of `parley assess` name. Without a repository there
// is no file.
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FILE = new URL('../dist/commit.txt', import.meta.url);
const git = (...args) =>
  execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();

/** The commit, with a plus sign if files differ from it; undefined outside of a repository of the project itself. */
function commit() {
  try {
    if (git('rev-parse', '--show-prefix') !== '') return undefined;
    return `${git('rev-parse', 'HEAD')}${git('status', '--porcelain', '--untracked-files=no') === '' ? '' : '+'}`;
  } catch {
    return undefined;
  }
}

const built = commit();
if (built === undefined) rmSync(FILE, { force: true });
else writeFileSync(FILE, `${built}\n`);
