import type { SpanReference } from '../trace-context.js';

/** A finished call, as an evaluator gets it. */
export interface EvaluatedCall {
  readonly requestId: string;
  /** The key of the caller. The queue limits the calls of each caller. */
  readonly caller: string;
  readonly protocol: 'mcp' | 'a2a';
  /** The server or agent. */
  readonly upstream: string;
  /** The tool, with the name that its server gives it, or the agent. */
  readonly target: string;
  /** The outcome of the call: `ok` or `error`. */
  readonly outcome: string;
  readonly ms: number;
  /**
   * The call as JSON: names, outcome and times. For evaluators that read contents, also the arguments and the result.
   */
  readonly json: Buffer;
  /** The span of the call, for the span of the evaluation. */
  readonly span?: SpanReference | undefined;
}

/** The opinion of an evaluator about a call. */
export interface Evaluation {
  /** The score, from 0 (worthless) to 1 (as good as possible); null if the evaluator has no opinion about this call. */
  readonly score: number | null;
  /** A word that explains the score, such as `missing`. */
  readonly label?: string;
}

/** Scores finished calls. It gets copies, and its failures do not affect calls. */
export interface Evaluator {
  evaluate(call: EvaluatedCall): Evaluation | Promise<Evaluation>;
  close?(): Promise<void>;
}

/** The reason why an evaluator gave no evaluation. The message contains no words of the call or of the evaluator. */
export class EvaluationFailure extends Error {
  override readonly name = 'EvaluationFailure';
}

const MOST_LABEL = 64;

/** Reads the answer of an evaluator: a number, null, or an object with `score` and `label`. */
export function evaluationOf(given: unknown): Evaluation {
  if (given === null || given === undefined) return { score: null };
  const { score, label } =
    typeof given === 'object' ? (given as { score?: unknown; label?: unknown }) : { score: given };
  if (score !== null && !(typeof score === 'number' && score >= 0 && score <= 1))
    throw new EvaluationFailure('the score is not a number from 0 to 1, or null');
  return { score, ...(typeof label === 'string' && label !== '' && { label: label.slice(0, MOST_LABEL) }) };
}
