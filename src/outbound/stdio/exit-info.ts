import type { Failure } from './failure-report.js';

export interface ExitInfo {
  /** One of `code` and `signal` is set. Neither is set if the process could not be killed. */
  code: number | null;
  signal: NodeJS.Signals | null;
  /** Whether `stop()` ended the process. */
  expected: boolean;
  uptimeMs: number;
  /** Wall-clock time, for display. */
  at: Date;
  /** The cause, if the process ended on its own. */
  failure?: Failure | undefined;
}
