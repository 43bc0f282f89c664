/** Time for what a command left open to end by itself, in milliseconds. */
const GRACE = 2_000;

/**
 * Ends the process after its command has ended, also if code of others holds a timer or a connection for ever, such as a
 * plugin without `close`. Output that still waits for a slow reader is written first.
 */
export function endProcess(code: number): void {
  process.exitCode = code;
  const end = (): void => {
    const writing = process.stdout.writableLength > 0 || process.stderr.writableLength > 0;
    if (writing) after();
    else process.exit();
  };
  // A process that nothing keeps alive does not wait for the timer.
  const after = (): NodeJS.Timeout => setTimeout(end, GRACE).unref();
  after();
}
