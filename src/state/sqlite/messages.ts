import type { Value } from '../db.js';

export interface WorkerOptions {
  path: string;
  busyTimeoutMs: number;
}

/** A statement's text is sent once and then meant by its number: texts are long, and copied with every message. */
export type NumberedStatement = readonly [text: number, params: readonly Value[]];

export interface Request {
  id: number;
  kind: 'read' | 'write';
  statements: readonly NumberedStatement[];
  /** Monotonic time of asking; a write that could not get the lock for too long is given up. */
  at: number;
}

export interface ToWorker {
  requests: Request[];
  /** Texts these requests are the first to use. */
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
  opened?: true;
  openFailure?: Failure;
  closed?: true;
}
