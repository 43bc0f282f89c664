/** How an answered call continues: a call of a task is sent again, and a final outcome is passed to its call. */
import type { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Caller } from '../caller.js';
import type { Call, Outcome, ParkedCall } from '../gateway.js';
import type { Upstream } from '../upstream.js';
import type { CallState } from './call-state.js';
import { refuseDeclined } from './question-checks.js';

/** Sends the call of a task again. */
export type SendAgain = (
  params: RawObject,
  state: CallState | undefined,
  from: Pick<Call, 'notify' | 'cancellation'>,
) => Promise<Outcome>;

/** The same parked call, but its final outcome goes through `finished` of the call. */
export function finishing(parked: ParkedCall, call: Pick<Call, 'finished'>): ParkedCall {
  const { finished } = call;
  if (!finished) return parked;
  return {
    over: parked.over,
    abandon: (reason) => parked.abandon(reason),
    resume: async (from, answers) => {
      const outcome = await parked.resume(from, answers);
      if (outcome.kind !== 'input_required') return finished(outcome);
      return outcome.parked ? { ...outcome, parked: finishing(outcome.parked, call) } : outcome;
    },
    ...(parked.portable && { portable: () => parked.portable?.() }),
  };
}

/**
 * A parked call for a question that a modern server asks inside a task. The answer sends the call again with the
 * server's `requestState`.
 */
export function parkedUntilAnswered(
  state: string | undefined,
  params: RawObject,
  server: string,
  again: SendAgain,
  upstream: Upstream,
  caller: Caller,
): ParkedCall {
  return {
    over: Promise.resolve(),
    abandon: () => {
      if (state !== undefined) upstream.abandon?.(caller, state);
    },
    resume: (from, answers) =>
      again(
        params.edit({ inputResponses: JSON.stringify(answers) }),
        { kind: 'relay', server, ...(state !== undefined && { state }) },
        from,
      ),
  };
}

/**
 * A parked call for URLs that the user must visit before a call inside a task. Once the user agrees, the call starts
 * again.
 */
export function parkedUntilVisited(
  after: readonly string[],
  params: RawObject,
  server: string,
  again: SendAgain,
): ParkedCall {
  return {
    over: Promise.resolve(),
    abandon: () => {},
    resume: async (from, answers) => {
      refuseDeclined(server, answers);
      return again(params, { kind: 'again', server, after }, from);
    },
  };
}
