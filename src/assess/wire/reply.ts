import { type HttpHeaders, headerOf } from '../../protocol/http/headers.js';
import { asObject, isObject, type Json } from '../json.js';
import type { Evidence } from '../requirement.js';

export interface StreamEvent {
  readonly event: string;
  readonly id: string | undefined;
  readonly data: string;
}

/** Everything that arrived after one request. */
export interface Received {
  readonly status?: number | undefined;
  readonly headers: HttpHeaders;
  readonly body: string;
  /** False if the bytes were not UTF-8. */
  readonly utf8: boolean;
  /** The JSON values that arrived, in order. */
  readonly messages: readonly unknown[];
  readonly events: readonly StreamEvent[];
  /** Whether the body was an event stream. */
  readonly stream: boolean;
  /** Whether the server ended the reply, and not a limit of ours. */
  readonly ended: boolean;
  /** The reason why there is no complete reply: no answer in time, a broken connection, too many bytes. */
  readonly failure?: string | undefined;
  /** Whether the time of an answer was over. */
  readonly late?: boolean;
  readonly milliseconds: number;
}

export interface Reply extends Received {
  /** The method of the request that this reply belongs to; empty for raw bytes. */
  readonly method: string;
  readonly sent: unknown;
  /** The JSON-RPC response: with the id of the request, or an error without an id. */
  readonly response: Json | undefined;
  readonly result: Json | undefined;
  readonly error: Json | undefined;
  /** The code of the error; undefined if there is no error with a number. */
  readonly code: number | undefined;
  readonly evidence: Evidence;
}

export const NOTHING: Received = {
  headers: [],
  body: '',
  utf8: true,
  messages: [],
  events: [],
  stream: false,
  ended: false,
  milliseconds: 0,
};

/** Finds the response among the received messages. */
export function replyOf(method: string, sent: unknown, received: Received, evidence: Evidence): Reply {
  const id = asObject(sent)['id'];
  const flat = received.messages.flatMap((each) => (Array.isArray(each) ? each : [each])).filter(isObject);
  const responses = flat.filter((each) => !('method' in each) && ('result' in each || 'error' in each));
  const response =
    responses.find((each) => each['id'] === id) ??
    responses.find((each) => each['id'] === undefined || each['id'] === null) ??
    responses[0];
  const result = isObject(response?.['result']) ? response['result'] : undefined;
  const error = isObject(response?.['error']) ? response['error'] : undefined;
  const code = typeof error?.['code'] === 'number' ? error['code'] : undefined;
  return { ...received, method, sent, response, result, error, code, evidence };
}

export const contentType = (received: Pick<Received, 'headers'>): string =>
  (headerOf(received.headers, 'content-type') ?? '').toLowerCase();

export const isAccepted = ({ status }: Pick<Received, 'status'>): boolean =>
  status !== undefined && status >= 200 && status < 300;

export const isRefused = ({ status }: Pick<Received, 'status'>): boolean =>
  status !== undefined && status >= 400 && status < 500;
