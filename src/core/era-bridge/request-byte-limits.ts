/** Limits for the bytes of requests that stay in memory after their callers got a question or a task as the answer. */
export interface RequestBytes {
  readonly inAll: number;
  readonly perCaller: number;
}

const MIB = 1024 * 1024;

/**
 * The limits count each request once. The process holds up to twice as much: the text from the caller and the text sent
 * to the server.
 */
export const REQUEST_BYTES: RequestBytes = { inAll: 64 * MIB, perCaller: 16 * MIB };
