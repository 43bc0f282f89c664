import type { Upstream } from '../upstream.js';

/** One of several equivalent servers behind one name. */
export interface Replica {
  /** Derived from the URL of the replica, so it is the same in every process of the gateway and after a restart. */
  readonly id: string;
  /** The position of the replica in the configuration, from 1. */
  readonly position: number;
  /** The URL of the replica without secrets, for operators. */
  readonly place: string;
  readonly upstream: Upstream;
}
