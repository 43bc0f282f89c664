/** Bounds the bytes of requests that stay in memory after their callers got an answer: a question, or a task. */
export interface RequestBytes {
  readonly inAll: number;
  readonly perCaller: number;
}

const MIB = 1024 * 1024;

/** Counts each request once. The process holds up to twice as much: the caller's text, and the one sent to the server. */
export const REQUEST_BYTES: RequestBytes = { inAll: 64 * MIB, perCaller: 16 * MIB };
