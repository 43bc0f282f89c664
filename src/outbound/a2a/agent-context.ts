/** The settings and services that all exchanges with one configured agent share. */
import type { Caller } from '../../core/caller.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { Log } from '../../telemetry/log.js';

export interface AgentContext {
  readonly name: string;
  /** The configured URL without secrets, where callers may see it (S25). */
  readonly place?: string | undefined;
  /** The credential of a caller's requests to this agent. */
  credential(caller: Caller): Credential | Promise<Credential>;
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
  /** Maximum bytes of one event or whole reply, and of the buffer of a stream. */
  readonly limits: { readonly event: number; readonly waiting: number };
  readonly log: Log;
}
