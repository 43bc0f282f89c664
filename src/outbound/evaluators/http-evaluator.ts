import {
  type EvaluatedCall,
  type Evaluation,
  EvaluationFailure,
  type Evaluator,
  evaluationOf,
} from '../../core/evaluation/evaluator.js';
import { bufferedRequest, type HttpClient } from '../http/index.js';

export interface HttpEvaluatorOptions {
  readonly client: HttpClient;
  /** The configured URL. */
  readonly url: string;
  /** A bearer token for the evaluator. */
  readonly token: string | undefined;
  /** Milliseconds for one evaluation. */
  readonly timeout: number;
}

const MOST_REPLY = 64 * 1024;

/** An evaluator behind a URL: it gets the call as JSON and answers with `{"score": 0.8, "label": "…"}`. */
export class HttpEvaluator implements Evaluator {
  constructor(private readonly options: HttpEvaluatorOptions) {}

  async evaluate({ json, requestId }: EvaluatedCall): Promise<Evaluation> {
    const { client, url, token, timeout } = this.options;
    const headers = ['content-type', 'application/json', 'accept', 'application/json', 'x-request-id', requestId];
    if (token !== undefined) headers.push('authorization', `Bearer ${token}`);
    const reply = await bufferedRequest(
      client,
      url,
      { method: 'POST', headers, body: json },
      { time: timeout, size: MOST_REPLY },
    ).catch((error: unknown) => {
      throw new EvaluationFailure(reason(error as NodeJS.ErrnoException));
    });
    if (reply.status === 204) return { score: null };
    if (reply.status !== 200) throw new EvaluationFailure(`status ${reply.status}`);
    let given: unknown;
    try {
      given = JSON.parse(reply.body.toString('utf8'));
    } catch {
      throw new EvaluationFailure('the answer is not JSON');
    }
    return evaluationOf(given);
  }
}

const reason = ({ code }: NodeJS.ErrnoException): string =>
  code === 'REPLY_TIMEOUT' ? 'no answer in time' : (code ?? 'the request failed');
