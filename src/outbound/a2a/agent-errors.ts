/** The errors of calls to an agent: cannot be reached, no credential, too late, broken, invalid reply. */
import type { SignatureVerdict } from '../../core/a2a/agent.js';
import { ProtocolError } from '../../protocol/errors.js';
import { connectionProblem } from '../http/connection-problem.js';
import type { AgentContext } from './agent-context.js';

/** The agent that an error names. */
export type AgentRef = Pick<AgentContext, 'name' | 'place'>;

/** The agent as the subject of a sentence. */
export const subject = ({ name, place }: AgentRef): string =>
  `Agent "${name}"${place === undefined ? '' : ` at ${place}`}`;

/** The agent cannot be reached. Nothing was executed. */
export const unavailable = (agent: AgentRef, why: string): ProtocolError =>
  new ProtocolError('upstream_unavailable', `${subject(agent)} cannot be reached: ${why}`, {
    outcome: 'not_executed',
    data: { agent: agent.name },
  });

/** The connection broke after the request was sent. */
export const lost = (agent: AgentRef, why: string): ProtocolError =>
  new ProtocolError('upstream_unavailable', `${subject(agent)} did not finish its answer: ${why}`, {
    outcome: 'unknown',
    data: { agent: agent.name },
  });

export const timedOut = (agent: AgentRef, milliseconds: number): ProtocolError =>
  new ProtocolError(
    'upstream_timeout',
    `${subject(agent)} did not answer within ${milliseconds / 1000} s; it may be busy or stuck`,
    { outcome: 'unknown', data: { agent: agent.name } },
  );

export const invalidReply = (agent: AgentRef, why: string): ProtocolError =>
  new ProtocolError('invalid_agent_response', `${subject(agent)} ${why}`, {
    outcome: 'unknown',
    data: { agent: agent.name },
  });

export const untrusted = (agent: AgentRef, verdict: SignatureVerdict, why: string | undefined): ProtocolError =>
  new ProtocolError(
    'upstream_unavailable',
    `${subject(agent)} is refused: its card must have a valid signature, but the card is ${verdict}${why === undefined ? '' : ` (${why})`}`,
    { outcome: 'not_executed', data: { agent: agent.name } },
  );

/** Why a connection failed, without addresses or paths. */
export const problemOf = (error: Error): string =>
  error.name === 'EgressRefused' ? `its address ${error.message}` : connectionProblem(error);

/**
 * The URL that the card names serves no A2A endpoint, or an endpoint of another binding. The agent executed nothing.
 * Another interface or a newer card may work (C-4, C-5).
 */
export class EndpointNotFound extends ProtocolError {}

/** The request was not sent: no credential could be obtained. */
export const withoutCredential = (name: string, error: unknown): ProtocolError =>
  error instanceof ProtocolError
    ? error
    : new ProtocolError('upstream_unauthorized', `Agent "${name}" was not called: no credential could be obtained`, {
        outcome: 'not_executed',
        data: { agent: name },
      });
