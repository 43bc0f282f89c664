/** How a call at a replica ended. */
export interface ReplicaOutcome {
  readonly success: boolean;
  /** Milliseconds. */
  readonly latency: number;
  /** The score of an evaluator from 0 to 1, if there is one. */
  readonly quality?: number;
  /** The failure is an answer of the replica, such as the error of a tool: it opens no circuit breaker. */
  readonly answered?: boolean;
}

/**
 * Scores of evaluators for equivalent upstreams: the name of a server or agent, and for a server with replicas the
 * position of the replica, from 1. From 0 to 1; undefined without a score.
 */
export type QualitySource = (upstream: string, replica?: number) => number | undefined;

/** The worth of an outcome, from 0 to 1: a failure is worth nothing, however fast; a call at the objective half. */
export function rewardOf({ success, latency, quality = 1 }: ReplicaOutcome, objective: number): number {
  if (!success) return 0;
  const ratio = Math.max(0, latency) / objective;
  return Math.min(1, Math.max(0, quality)) / (1 + ratio * ratio);
}
