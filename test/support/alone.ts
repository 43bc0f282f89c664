/** Work that several test processes want done, and one does. */
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Runs `work` in one process at a time, and not at all once it is `done`. The lock only saves work and trouble, so a lock
 * of a process that died, or one held longer than `limitMs`, is passed over: `work` must bear to be run twice.
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
  // An empty file is one that its owner is about to write.
  if (!owner) return age < 10_000;
  try {
    process.kill(owner, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
