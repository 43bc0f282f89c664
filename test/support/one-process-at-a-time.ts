/** Work that several test processes need and only one of them does. */
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Runs `work` in one process at a time, and not at all when `done` returns true. The lock only avoids double work: a
 * lock of a dead process, or one held longer than `limitMs`, is ignored. Running `work` twice must do no harm.
 */
export async function alone(
  lock: string,
  limitMs: number,
  done: () => boolean,
  work: () => Promise<void>,
): Promise<void> {
  const deadline = Date.now() + limitMs;
  while (!done()) {
    const locked = await writeFile(lock, String(process.pid), { flag: 'wx' }).then(
      () => true,
      () => false,
    );
    if (!locked && Date.now() < deadline && (await isHeld(lock))) {
      await delay(100);
      continue;
    }
    try {
      if (!done()) await work();
      return;
    } finally {
      await rm(lock, { force: true });
    }
  }
}

async function isHeld(lock: string): Promise<boolean> {
  const [owner, age] = await Promise.all([
    readFile(lock, 'utf8').then(Number, () => 0),
    stat(lock).then(
      ({ mtimeMs }) => Date.now() - mtimeMs,
      () => 0,
    ),
  ]);
  // An empty lock file means that its owner is about to write it.
  if (!owner) return age < 10_000;
  try {
    process.kill(owner, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
