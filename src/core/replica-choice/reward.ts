/** The outcome of a call at a replica. */
export interface ReplicaOutcome {
  readonly success: boolean;
  /** The latency of the call, in milliseconds. */
  readonly latency: number;
  /** The score of an evaluator from 0 to 1, if there is one. */
  readonly quality?: number;
  /**
   * Whether the failure is an answer of the replica, such as the error of a tool. Such a failure opens no circuit
   * breaker.
   */
  readonly answered?: boolean;
}

/**
 * Returns the score of evaluators for one of several equivalent upstreams, from 0 to 1; undefined if there is no score.
 * `upstream` is the name of the server or agent. `replica` is the position of the replica, from 1, for a server with
 * replicas.
 */
export type QualitySource = (upstream: string, replica?: number) => number | undefined;

/**
 * The reward of an outcome, from 0 to 1. A failure has reward 0, however fast. A success with a latency at the
 * objective has half the reward.
 */
export function rewardOf({ success, latency, quality = 1 }: ReplicaOutcome, objective: number): number {
  if (!success) return 0;
  const ratio = Math.max(0, latency) / objective;
  return Math.min(1, Math.max(0, quality)) / (1 + ratio * ratio);
}
