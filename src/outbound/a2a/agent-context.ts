/** The settings and services that all exchanges with one configured agent share. */
import type { Caller } from '../../core/caller.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { Log } from '../../telemetry/log.js';

export interface AgentContext {
  readonly name: string;
  /** The configured URL without secrets. Absent if callers must not see the URL (S25). */
  readonly place?: string | undefined;
  /** The credential of a caller's requests to this agent. */
  credential(caller: Caller): Credential | Promise<Credential>;
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
  /**
   * `event`: maximum bytes of one event or of one whole reply. `waiting`: maximum bytes of a stream that the reader has
   * not read yet.
   */
  readonly limits: { readonly event: number; readonly waiting: number };
  readonly log: Log;
}
