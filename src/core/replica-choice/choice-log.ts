import type { Load } from './replica-chooser.js';

/** One free choice among equivalent upstreams and its outcome, for the judgement of other policies. */
export interface RecordedChoice {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** `server:NAME` for the replicas of a server, `skill:ID` for agents with equal skills. */
  readonly pool: string;
  readonly requestClass: string;
  readonly among: readonly Load[];
  readonly chosen: string;
  readonly propensity: number;
  readonly success: boolean;
  /** Milliseconds. */
  readonly latency: number;
  readonly reward: number;
}

/** Takes a bounded sample of choices. Never delays a call. */
export interface ChoiceLog {
  /**
   * Whether the next choice of a pool belongs to the sample. Asked before the choice: a sample that depends on outcomes
   * would show slow calls too often.
   */
  wants(pool: string): boolean;
  record(choice: RecordedChoice): void;
  /**
   * The latest choices of a pool, the oldest first, so that a new process starts with the observations of an earlier
   * one.
   */
  latest(pool: string): Promise<readonly RecordedChoice[]>;
}
