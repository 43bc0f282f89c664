import type { Load } from './replica-chooser.js';

/** One choice among equivalent upstreams that no affinity decided, and its outcome. Used to compare policies. */
export interface RecordedChoice {
  /** The time of the choice, in milliseconds since 1970. */
  readonly at: number;
  /** `server:NAME` for the replicas of a server, `skill:ID` for agents with equal skills. */
  readonly pool: string;
  readonly requestClass: string;
  readonly among: readonly Load[];
  readonly chosen: string;
  readonly propensity: number;
  readonly success: boolean;
  /** The latency of the call, in milliseconds. */
  readonly latency: number;
  readonly reward: number;
}

/** Takes a bounded sample of choices. Never delays a call. */
export interface ChoiceLog {
  /**
   * Whether the next choice of a pool belongs to the sample. Must be asked before the choice, because a sample that
   * depends on outcomes would be biased towards slow calls.
   */
  wants(pool: string): boolean;
  record(choice: RecordedChoice): void;
  /** The latest choices of a pool, oldest first. A new process starts with the observations of an earlier process. */
  latest(pool: string): Promise<readonly RecordedChoice[]>;
}
