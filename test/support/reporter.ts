import { writeSync } from 'node:fs';
import type { Reporter, TestModule, TestRunEndReason, Vitest } from 'vitest/node';

/**
 * Ends the output with a line `N passed, M failed`. Skipped tests, unwritten tests (`todo`), unreadable files and
 * errors outside of tests count as failed.
 */
export default class TotalReporter implements Reporter {
  private vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.vitest = vitest;
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[], reason: TestRunEndReason): void {
    // Tests that do not match the name pattern of the command line do not count as skipped.
    const chosen = this.vitest?.config.testNamePattern !== undefined;
    const total = count(modules, chosen);
    const failed = total.failed + unhandled.length + (reason === 'interrupted' ? 1 : 0);
    for (const name of total.notRun) write(`not run, so it counts as failed: ${name}\n`);
    const conclude = (): void => {
      if (failed > 0 || total.passed === 0) process.exitCode = 1;
      write(`${total.passed} passed, ${failed} failed\n`);
    };
    // Written at the exit, so that it is the last line. A run in watch mode does not exit.
    if (this.vitest?.config.watch === true) conclude();
    else process.once('exit', conclude);
  }
}

interface Total {
  passed: number;
  failed: number;
  notRun: string[];
}

export function count(modules: readonly TestModule[], chosen: boolean): Total {
  const total: Total = { passed: 0, failed: 0, notRun: [] };
  for (const module of modules) {
    total.failed += module.errors().length;
    for (const suite of module.children.allSuites()) total.failed += suite.errors().length;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state === 'passed') total.passed++;
      else if (state === 'failed') total.failed++;
      else if (!chosen) {
        total.failed++;
        total.notRun.push(`${module.relativeModuleId} > ${test.fullName}`);
      }
    }
  }
  return total;
}

/** Writes synchronously: at the exit, the stream may not be flushed any more. */
function write(text: string): void {
  try {
    writeSync(1, text);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    process.stdout.write(text);
  }
}
