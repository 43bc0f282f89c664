import type { Value } from '../db.js';

export interface WorkerOptions {
  path: string;
  busyTimeoutMs: number;
}

/**
 * The text of a statement is sent once and later referenced by a number, because a message copies its content and the
 * texts are long.
 */
export type NumberedStatement = readonly [text: number, params: readonly Value[]];

export interface Request {
  id: number;
  kind: 'read' | 'write';
  statements: readonly NumberedStatement[];
  /** Monotonic time of the request; a write that waits too long for the lock fails. */
  at: number;
}

export interface ToWorker {
  requests: Request[];
  /** The texts that these requests use for the first time. */
  texts?: [number: number, sql: string][];
  backup?: { id: number; path: string };
  close?: true;
}

export interface Failure {
  code: 'unavailable' | 'constraint' | 'internal';
  message: string;
}

export interface Reply {
  id: number;
  results?: unknown[][];
  failure?: Failure;
}

export interface FromWorker {
  replies: Reply[];
  /** The number of transactions in each commit since the last message. */
  commits?: number[];
  opened?: true;
  openFailure?: Failure;
  closed?: true;
}
