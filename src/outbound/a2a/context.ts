import type { SignatureVerdict } from '../../core/a2a/agent.js';
import type { Caller } from '../../core/caller.js';
import type { Credential } from '../../identity/credentials.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { Log } from '../../telemetry/log.js';
import { connectionProblem } from '../mcp/context.js';

/** What every exchange with one configured agent shares. */
export interface AgentContext {
  readonly name: string;
  /** The credential of a caller's requests to this agent. */
  credential(caller: Caller): Credential | Promise<Credential>;
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
  /** Bytes of one event or whole reply, and of what of a stream waits to be read. */
  readonly limits: { readonly event: number; readonly waiting: number };
  readonly log: Log;
}

/** JSON that nests deeper than this stalls the parser before it says anything. */
export const DEPTH = 256;

/** Nobody there, or nobody that may be reached: nothing was done. */
export const unavailable = (name: string, why: string): ProtocolError =>
  new ProtocolError('upstream_unavailable', `Agent "${name}" cannot be reached: ${why}`, {
    outcome: 'not_executed',
    data: { agent: name },
  });

/** The credential of a caller's next request: at once, where it is at hand. Nothing is sent where there is none. */
export function credentialOf(context: AgentContext, caller: Caller): Credential | Promise<Credential> {
  try {
    const given = context.credential(caller);
    return given instanceof Promise
      ? given.catch((error: unknown) => Promise.reject(withoutCredential(context.name, error)))
      : given;
  } catch (error) {
    throw withoutCredential(context.name, error);
  }
}

const withoutCredential = (name: string, error: unknown): ProtocolError =>
  error instanceof ProtocolError
    ? error
    : new ProtocolError('upstream_unauthorized', `Agent "${name}" was not called: no credential could be obtained`, {
        outcome: 'not_executed',
        data: { agent: name },
      });

/** It was there when the request left, and then no more. */
export const lost = (name: string, why: string): ProtocolError =>
  new ProtocolError('upstream_unavailable', `Agent "${name}" did not finish its answer: ${why}`, {
    outcome: 'unknown',
    data: { agent: name },
  });

export const timedOut = (name: string, milliseconds: number): ProtocolError =>
  new ProtocolError('upstream_timeout', `Agent "${name}" did not answer within ${milliseconds / 1000} s`, {
    outcome: 'unknown',
    data: { agent: name },
  });

export const invalidReply = (name: string, why: string): ProtocolError =>
  new ProtocolError('invalid_agent_response', `Agent "${name}" ${why}`, { outcome: 'unknown', data: { agent: name } });

export const untrusted = (name: string, verdict: SignatureVerdict, why: string | undefined): ProtocolError =>
  new ProtocolError(
    'upstream_unavailable',
    `Agent "${name}" is refused: its card must be signed, and is ${verdict}${why === undefined ? '' : ` (${why})`}`,
    { outcome: 'not_executed', data: { agent: name } },
  );

/** Why a connection failed, without addresses or paths. */
export const problemOf = (error: Error): string =>
  error.name === 'EgressRefused' ? `its address ${error.message}` : connectionProblem(error);

/**
 * The endpoint is not where, or not what, the card says: nothing was done, and another interface or a newer card may
 * help (C-4, C-5).
 */
export class Misplaced extends ProtocolError {}
