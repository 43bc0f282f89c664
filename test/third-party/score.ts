/** Prints one line per test, and the total. */
export class Score {
  private passed = 0;
  private failed = 0;

  pass(what: string, note?: string): void {
    this.passed++;
    console.log(`ok   ${what}${note === undefined ? '' : `: ${note}`}`);
  }

  fail(what: string, problem: string): void {
    this.failed++;
    console.log(`FAIL ${what}: ${problem}`);
  }

  async test(what: string, body: () => Promise<{ problem?: string | undefined; note?: string }>): Promise<void> {
    try {
      const { problem, note } = await body();
      if (problem === undefined) this.pass(what, note);
      else this.fail(what, problem);
    } catch (error) {
      this.fail(what, (error as Error).message);
    }
  }

  /** Prints the total. A run without any test fails. */
  conclude(): void {
    console.log(`${this.passed} passed, ${this.failed} failed`);
    process.exitCode = this.failed === 0 && this.passed > 0 ? 0 : 1;
  }
}
