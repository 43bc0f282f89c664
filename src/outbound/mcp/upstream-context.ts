/** The settings and services that all connections to one configured server share. */
import type { Caller } from '../../core/caller.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { Implementation } from '../../protocol/mcp/model.js';
import type { Log } from '../../telemetry/log.js';
import type { HttpClient } from '../http/index.js';
import type { ServerTraffic } from './server-traffic-limits.js';

export interface UpstreamContext {
  readonly name: string;
  /** The server's URL without secrets. Absent if callers must not see the URL (S25). */
  readonly place?: string | undefined;
  readonly http: HttpClient;
  /** The credential of a caller's requests to this server. */
  credential(caller: Caller): Credential | Promise<Credential>;
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
  readonly limits: { readonly event: number; readonly reply: number };
  /** Limits on messages that the server sends on its own. */
  readonly traffic: ServerTraffic;
  /** The gateway's own `clientInfo`. */
  readonly clientInfo: Implementation;
  /** Whether callers may read details for operators: commands, paths and the output of the server's process. */
  readonly explains: boolean;
  /** The command with which an operator reads the output of the server's process. */
  readonly showsOutput?: string | undefined;
  readonly log: Log;
}
