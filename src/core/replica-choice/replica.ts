import type { Upstream } from '../upstream.js';

/** One of several equivalent servers behind one name. */
export interface Replica {
  /** Made of its URL: the same in every process of the gateway, and after a restart. */
  readonly id: string;
  /** Its place in the configuration, from 1. */
  readonly position: number;
  /** Its URL without secrets, for operators. */
  readonly place: string;
  readonly upstream: Upstream;
}
