/**
 * The reader of stdout, such as a pager, may be slow, or may end before the command. Neither ends the process with an
 * error.
 */
let gone = false;
let followed = false;

/** Resolves when stdout takes more text. Resolves with false if the reader of stdout is gone. */
export async function stdoutFlushed(): Promise<boolean> {
  const { stdout } = process;
  if (!followed) {
    followed = true;
    stdout.on('error', () => {
      gone = true;
    });
  }
  if (!stdout.writableNeedDrain || gone) return !gone;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      for (const event of ['drain', 'error', 'close']) stdout.off(event, done);
      resolve();
    };
    for (const event of ['drain', 'error', 'close']) stdout.once(event, done);
  });
  return !gone;
}
