import type { Caller } from '../../core/caller.js';
import type { RawRequest } from '../../core/upstream.js';
import { ProtocolError } from '../../protocol/errors.js';
import { connectionProblem } from '../http/connection-problem.js';
import { type Abortable, type HttpTarget, httpTarget, inLane } from '../http/index.js';
import { Deadline } from './deadline.js';
import { credentialOf } from './server-credential.js';
import { broken, invalidReply, timedOut, unconnected, withoutCredential } from './server-errors.js';
import type { UpstreamContext } from './upstream-context.js';

/** Passes an HTTP request on to a server, and its reply back. Time and size have the limits of a call. */
export async function sendRaw(
  context: UpstreamContext,
  url: string,
  caller: Caller,
  request: RawRequest,
): Promise<void> {
  const target = targetBelow(url, request);
  let credential: Awaited<ReturnType<typeof credentialOf>>;
  try {
    credential = await credentialOf(context, caller);
  } catch (error) {
    throw withoutCredential(context, error);
  }
  const { key, headers } = credential;
  await exchange(context, inLane(target, key), [...withoutNames(request.headers, headers), ...headers], request);
}

/** The URL of a path below the URL of the server. Throws if the path leads to a place outside of that URL. */
export function targetBelow(url: string, { path, query }: Pick<RawRequest, 'path' | 'query'>): HttpTarget {
  const base = new URL(url);
  const root = base.pathname.replace(/\/+$/, '');
  const within = path === '' ? base.pathname : `${root}/${path}`;
  const search = [base.search.slice(1), query].filter((part) => part !== '').join('&');
  const target = new URL(`${base.origin}${within}${search === '' ? '' : `?${search}`}`);
  // `URL` resolves dots in the path, including percent-encoded dots.
  if (target.origin !== base.origin || target.pathname !== within || /%2f|%5c|\\/i.test(path))
    throw new ProtocolError('invalid_request', 'The path must lead to a place below the URL of the server', {
      outcome: 'not_executed',
    });
  return httpTarget(target);
}

/** The headers of the caller, without those that the credential sets. */
function withoutNames(headers: readonly string[], taken: readonly string[]): string[] {
  const names = new Set(taken.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase()));
  return headers.filter((_, index) => !names.has(headers[index - (index % 2)]!.toLowerCase()));
}

function exchange(
  context: UpstreamContext,
  target: HttpTarget,
  headers: readonly string[],
  request: RawRequest,
): Promise<void> {
  const { method, body, cancellation } = request;
  const cancelled = (outcome: 'not_executed' | 'unknown'): ProtocolError =>
    new ProtocolError('cancelled', 'The request was cancelled', { outcome });
  if (cancellation.cancelled) return Promise.reject(cancelled('not_executed'));
  return new Promise((resolve, reject) => {
    let size = 0;
    let running: Abortable | undefined;
    const settle = (finish: () => void): void => {
      deadline.clear();
      stopListening();
      finish();
    };
    const stop = (error: ProtocolError): void => {
      running?.abort();
      settle(() => reject(error));
    };
    const { call, callMax } = context.timeouts;
    const deadline = new Deadline(call, callMax, () => stop(timedOut(context, call)));
    const stopListening = cancellation.onCancel(() => stop(cancelled('unknown')));
    const flow = { pause: () => running?.pause?.(), resume: () => running?.resume?.() };
    running = context.http.request(
      target,
      { method, headers, ...(body && { body }) },
      {
        start: (status, replied) => {
          deadline.extend();
          request.start(status, replied, flow);
        },
        data: (chunk) => {
          deadline.extend();
          size += chunk.length;
          if (size > context.limits.reply) {
            stop(invalidReply(context, `sent a reply of more than ${context.limits.reply} bytes`));
            return;
          }
          request.data(chunk);
        },
        end: () => settle(resolve),
        fail: ({ sent, error }) => {
          const problem = (): ProtocolError =>
            sent ? broken(context, connectionProblem(error)) : unconnected(context, error);
          settle(() => reject(error instanceof ProtocolError ? error : problem()));
        },
      },
    );
  });
}
