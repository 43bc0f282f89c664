/** The checks of the questions that a server asks during a call, and of the client's answers. */
import { ProtocolError } from '../../protocol/errors.js';
import { type ClientCapabilities, INPUT_FAILURE, type InputResponses, isObject } from '../../protocol/mcp/model.js';
import { declares, lacksCapability, requiredCapability } from '../../protocol/mcp/translate/questions.js';
import type { Call, Outcome } from '../gateway.js';

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
