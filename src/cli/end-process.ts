/** Time for timers and connections that a command left open to end by themselves, in milliseconds. */
const GRACE = 2_000;

/**
 * Ends the process after its command has ended, even if foreign code keeps a timer or a connection open for ever, such
 * as a plugin without `close`. Output that still waits for a slow reader is written first.
 */
export function endProcess(code: number): void {
  process.exitCode = code;
  const end = (): void => {
    const writing = process.stdout.writableLength > 0 || process.stderr.writableLength > 0;
    if (writing) after();
    else process.exit();
  };
  // This timer does not keep the process alive, so a process with nothing left to do ends at once.
  const after = (): NodeJS.Timeout => setTimeout(end, GRACE).unref();
  after();
}
