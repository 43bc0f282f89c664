import { randomFillSync } from 'node:crypto';

/** A span that has ended. Times are those of `performance.now()`. */
export interface FinishedSpan {
  readonly name: string;
  readonly kind: 'server' | 'client';
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

/** Takes the spans of calls. */
export interface Tracing {
  /** Whether a trace that begins here is exported, or one with this parent. */
  sampled(traceId: string, parentSampled: boolean | undefined): boolean;
  /** Whether the spans of a failed call are exported although its trace is not sampled. */
  readonly exportErrors: boolean;
  finished(span: FinishedSpan): void;
}

const POOL = Buffer.alloc(4_096);
let at = POOL.length;

/** Random hexadecimal digits. Filling a pool costs less than one system call per id. */
function digits(bytes: number): string {
  if (at + bytes > POOL.length) {
    randomFillSync(POOL);
    at = 0;
  }
  const text = POOL.toString('hex', at, at + bytes);
  at += bytes;
  return text;
}

export const newTraceId = (): string => digits(16);
export const newSpanId = (): string => digits(8);
