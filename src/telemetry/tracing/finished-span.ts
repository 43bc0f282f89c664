import { randomFillSync } from 'node:crypto';

/** A span that has ended. Times are those of `performance.now()`. */
export interface FinishedSpan {
  readonly name: string;
  readonly kind: 'server' | 'client' | 'internal';
  readonly traceId: string;
  readonly spanId: string;
  readonly state: string | undefined;
  readonly parent: string | undefined;
  /** Whether the parent is a span of another process. */
  readonly remoteParent: boolean;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly began: number;
  readonly ended: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** The error type of a failed span. */
  readonly error: string | undefined;
}

/** Receives the spans of calls. */
export interface Tracing {
  /** Whether a trace is exported that begins here (`parentSampled` undefined) or at a parent with this decision. */
  sampled(traceId: string, parentSampled: boolean | undefined): boolean;
  /** Whether the spans of a failed call are exported although its trace is not sampled. */
  readonly exportErrors: boolean;
  finished(span: FinishedSpan): void;
}

/**
 * The pool of digits is small, because an id is a slice of the pool's text. While an id is in use, the whole text stays
 * in memory.
 */
const POOL = Buffer.alloc(1_024);
let digits = '';
let at = 0;

/** Random hexadecimal digits, cut out of a longer text: this costs less than one conversion per id. */
function randomDigits(count: number): string {
  if (at + count > digits.length) {
    digits = randomFillSync(POOL).toString('hex');
    at = 0;
  }
  at += count;
  return digits.slice(at - count, at);
}

export const newTraceId = (): string => randomDigits(32);
export const newSpanId = (): string => randomDigits(16);
