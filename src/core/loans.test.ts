import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LOAN_LIMITS, type LoanLimits, Loans } from './loans.js';

const KIB = 1024;
const MIB = 1024 * KIB;

const pool = (limits: Partial<LoanLimits> = {}): Loans => new Loans({ ...LOAN_LIMITS, ...limits });

describe('loans', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('lends exactly as many bytes as were asked for', () => {
    const loans = pool();
    for (const length of [64 * KIB, 64 * KIB + 1, 100_000, 131_071, MIB, 1_000_003, 4 * MIB])
      expect(loans.lend(length)!.room.length).toBe(length);
  });

  it('lends nothing for what is too small or too large', () => {
    const loans = pool();
    expect(loans.lend(64 * KIB - 1)).toBeUndefined();
    expect(loans.lend(4 * MIB + 1)).toBeUndefined();
  });

  it('never lends the same memory to two', () => {
    const loans = pool();
    const lent = Array.from({ length: 50 }, () => loans.lend(100_000)!);
    expect(new Set(lent.map(({ room }) => room.buffer)).size).toBe(50);
    for (const loan of lent) loan.giveBack();
    const again = Array.from({ length: 60 }, () => loans.lend(100_000)!);
    expect(new Set(again.map(({ room }) => room.buffer)).size).toBe(60);
  });

  it('lends again what came back, to a text of about that length', () => {
    const loans = pool();
    const first = loans.lend(100_000)!;
    const memory = first.room.buffer;
    first.giveBack();
    expect(loans.unused).toBe(memory.byteLength);
    expect(loans.lend(400_000)!.room.buffer).not.toBe(memory);
    expect(loans.lend(100_500)!.room.buffer).toBe(memory);
    expect(loans.unused).toBe(0);
  });

  it('wastes a quarter at most', () => {
    const loans = pool();
    for (let length = 64 * KIB; length < 4 * MIB; length = Math.ceil(length * 1.01)) {
      const { room } = loans.lend(length)!;
      expect(room.buffer.byteLength).toBeGreaterThanOrEqual(length);
      expect(room.buffer.byteLength).toBeLessThanOrEqual(length * 1.25 + 1);
    }
  });

  it('takes a loan back once: a second time would lend it to two', () => {
    const loans = pool();
    const loan = loans.lend(100_000)!;
    loan.giveBack();
    loan.giveBack();
    const memory = loans.lend(100_000)!.room.buffer;
    expect(loans.lend(100_000)!.room.buffer).not.toBe(memory);
    loan.giveBack();
    expect(loans.unused).toBe(0);
  });

  it('tells whether a text lies in what was lent', () => {
    const loans = pool();
    const loan = loans.lend(100_000)!;
    const other = loans.lend(100_000)!;
    expect(loan.carries([Buffer.from('head'), loan.room.subarray(50, 60), Buffer.from('tail')])).toBe(true);
    expect(loan.carries([Buffer.from('head'), other.room])).toBe(false);
    expect(loan.carries([Buffer.from(loan.room)])).toBe(false);
    expect(loan.carries([])).toBe(false);
  });

  it('keeps no more than its bound, and lets the oldest go first', () => {
    const loans = pool({ kept: MIB });
    const lent = Array.from({ length: 20 }, () => loans.lend(128 * KIB)!);
    const memories = lent.map(({ room }) => room.buffer);
    for (const loan of lent) {
      loan.giveBack();
      expect(loans.unused).toBeLessThanOrEqual(MIB);
    }
    const again = Array.from({ length: 8 }, () => loans.lend(128 * KIB)!.room.buffer);
    expect(again).toEqual(memories.slice(-8).reverse());
  });

  it('keeps nothing that is larger than its bound alone', () => {
    const loans = pool({ kept: MIB });
    loans.lend(2 * MIB)!.giveBack();
    expect(loans.unused).toBe(0);
  });

  it('lets go of what nobody wanted for a while, and keeps what is in use', () => {
    const loans = pool({ idle: 1_000 });
    loans.lend(100_000)!.giveBack();
    loans.lend(400_000)!.giveBack();
    for (let turn = 0; turn < 10; turn++) {
      vi.advanceTimersByTime(500);
      loans.lend(100_000)!.giveBack();
    }
    expect(loans.unused).toBe(loans.lend(100_000)!.room.buffer.byteLength);
    expect(loans.unused).toBe(0);
    loans.lend(100_000)!.giveBack();
    vi.advanceTimersByTime(2_500);
    expect(loans.unused).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});
