/**
 * The questions that a server asks during a forwarded call: the parked calls that wait for answers, and the checks of
 * questions and answers.
 */

import { ProtocolError } from '../../protocol/errors.js';
import type { RawObject } from '../../protocol/jsonrpc/raw.js';
import { type ClientCapabilities, INPUT_FAILURE, type InputResponses, isObject } from '../../protocol/mcp/model.js';
import { declares, lacksCapability, requiredCapability } from '../../protocol/mcp/translate/questions.js';
import type { Caller } from '../caller.js';
import type { Call, Outcome, ParkedCall } from '../gateway.js';
import type { Upstream } from '../upstream.js';
import type { CallState } from './call-state.js';

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

/**
 * MRTR-03: a client gets only questions of a kind that it declared. A parked call with any other question is abandoned.
 */
export function refuseUndeclared(
  capabilities: ClientCapabilities,
  server: string,
  { inputRequests, parked }: Outcome & { kind: 'input_required' },
): void {
  const lacking = Object.values(inputRequests ?? {}).find(
    (request) => !declares(capabilities, requiredCapability(request)),
  );
  if (!lacking) return;
  parked?.abandon('The client did not declare the capability');
  throw lacksCapability(server, requiredCapability(lacking));
}

export function readAnswers(call: Call): InputResponses {
  const answers = call.params.get('inputResponses') ?? {};
  if (isObject(answers) && Object.values(answers).every(isObject)) return answers as InputResponses;
  throw new ProtocolError('invalid_params', '"inputResponses" must be an object whose members are answer objects');
}

/** A modern server has no message for a question that failed, so the call fails (mcp.md 4.3, 5). */
export function refuseFailures(call: Call): void {
  for (const answer of Object.values(readAnswers(call))) {
    const failure = answer[INPUT_FAILURE];
    if (isObject(failure))
      throw new ProtocolError(
        'not_bridgeable',
        `The client could not answer the server's question: ${String(failure['message'])}`,
      );
  }
}

/** The call is repeated only if the user agreed to visit every URL that the server asked for. */
export function refuseDeclined(server: string, responses: InputResponses): void {
  const answers = Object.values(responses);
  if (answers.length > 0 && answers.every((answer) => answer['action'] === 'accept')) return;
  throw new ProtocolError(
    'not_approved',
    `Server "${server}" requires the user to visit a URL, and the user declined`,
    {
      outcome: 'not_executed',
    },
  );
}
