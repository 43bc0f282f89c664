/**
 * Memory for what is large and soon gone. The collector lets dozens of megabytes of it lie before it looks, so whoever
 * writes an answer out lends the memory its text is read into, and has it back once the text has left.
 */

/** Lends memory to a call for its answer; whether it ever comes back is the lender's business alone. */
export interface Lender {
  /** Exactly so many bytes, or nothing: then whoever asks finds memory of its own. */
  room?(length: number): Buffer | undefined;
}

export interface LoanLimits {
  /** Answers below and above these are not worth it. */
  readonly least: number;
  readonly most: number;
  /** What may lie here unused, in bytes, and for how many milliseconds. */
  readonly kept: number;
  readonly idle: number;
}

export const LOAN_LIMITS: LoanLimits = {
  least: 64 * 1024,
  most: 4 * 1024 * 1024,
  kept: 16 * 1024 * 1024,
  idle: 10_000,
};

/** One piece of memory, lent to one answer. It is given back by whoever knows that nobody looks at it any more, or never. */
export class Loan {
  readonly room: Buffer;
  private out = true;

  constructor(
    private readonly loans: Loans,
    private readonly whole: Buffer,
    length: number,
  ) {
    this.room = whole.subarray(0, length);
  }

  /**
   * Whether some of this lies in the memory lent. Only a text that was read to its end has parts, so that nobody writes
   * there any more.
   */
  carries(parts: readonly Buffer[]): boolean {
    for (const part of parts) if (part.buffer === this.whole.buffer) return true;
    return false;
  }

  giveBack(): void {
    if (!this.out) return;
    this.out = false;
    this.loans.take(this.whole);
  }
}

interface Free {
  readonly memory: Buffer;
  readonly since: number;
}

export class Loans {
  /** What was given back last stands last, and is lent first. */
  private readonly free: Free[] = [];
  private bytes = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly limits: LoanLimits = LOAN_LIMITS) {}

  /** What lies here unused. */
  get unused(): number {
    return this.bytes;
  }

  lend(length: number): Loan | undefined {
    const { least, most } = this.limits;
    if (length < least || length > most) return undefined;
    const size = sizeFor(length);
    for (let i = this.free.length - 1; i >= 0; i--) {
      const { memory } = this.free[i]!;
      if (memory.length !== size) continue;
      this.free.splice(i, 1);
      this.bytes -= size;
      return new Loan(this, memory, length);
    }
    return new Loan(this, Buffer.allocUnsafeSlow(size), length);
  }

  /** For `Loan` alone, which calls it once. */
  take(memory: Buffer): void {
    this.free.push({ memory, since: performance.now() });
    this.bytes += memory.length;
    while (this.bytes > this.limits.kept) this.dropOldest();
    this.watch();
  }

  private dropOldest(): void {
    this.bytes -= this.free.shift()!.memory.length;
  }

  private watch(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      const before = performance.now() - this.limits.idle;
      while (this.free.length > 0 && this.free[0]!.since <= before) this.dropOldest();
      if (this.free.length > 0) this.watch();
    }, this.limits.idle).unref();
  }
}

/** Sizes come in four steps from one power of two to the next, so that answers of about a length share their memory. */
function sizeFor(length: number): number {
  const step = 2 ** (Math.floor(Math.log2(length)) - 2);
  return Math.ceil(length / step) * step;
}
