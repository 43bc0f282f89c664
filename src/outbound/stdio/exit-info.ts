import type { Failure } from './failure.js';

export interface ExitInfo {
  /** Exactly one of the two is set, unless the process could not even be killed: then neither is. */
  code: number | null;
  signal: NodeJS.Signals | null;
  /** True when `stop()` asked for it. */
  expected: boolean;
  uptimeMs: number;
  /** Wall-clock time, for people. */
  at: Date;
  /** Why, where it ended on its own. */
  failure?: Failure | undefined;
}
