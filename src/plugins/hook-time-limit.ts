/** The time limit of a hook: when the gateway stops to wait for its answer. */
import { within } from '../core/timing.js';
import { HookFailure } from './hook-errors.js';
import type { ThreadPlugin } from './thread/gateway-side.js';

/** The longest wait for a thread that stands still when the time of a hook is over, in milliseconds. */
const STANDING = 5_000;
/** A timer that is this late says more about the event loop than about the hook. */
const LATE = 100;

/** The answer of a hook. Rejects with the failure `timeout` if it does not arrive within `timeout` milliseconds. */
export function withinTimeLimit(
  answer: Promise<unknown>,
  timeout: number,
  thread: Pick<ThreadPlugin, 'turned' | 'abandon'> | undefined,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const late = async (): Promise<void> => {
      // A thread that stands still cannot answer: it turns soon, or it is blocked and ends.
      if (thread) await within(thread.turned(), STANDING, { ref: false });
      reject(new HookFailure('timeout'));
      thread?.abandon(answer);
    };
    const wait = (milliseconds: number, again: boolean): NodeJS.Timeout => {
      const due = performance.now() + milliseconds;
      return setTimeout(() => {
        if (again && performance.now() - due > LATE) timer = wait(LATE, false);
        else void late();
      }, milliseconds);
    };
    let timer = wait(timeout, true);
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
