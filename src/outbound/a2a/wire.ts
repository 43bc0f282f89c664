import type { Events, Exchange, Passed } from '../../core/a2a/agent.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { Version } from '../../protocol/a2a/dialect.js';
import type { Operation, RequestOf, ResultOf, Streaming } from '../../protocol/a2a/model.js';
import type { Egress } from '../egress.js';
import type { HttpClient } from '../http/index.js';
import type { AgentContext } from './agent-context.js';

/**
 * One interface of an agent, in one binding and one version. Both methods throw a `ProtocolError` or an
 * `UpstreamRpcError`. After `upstream_unavailable` with the outcome `not_executed`, or an `EndpointNotFound`, the
 * gateway may try the next interface. A wire sends a request twice only if the agent refused the first request without
 * executing it.
 */
export interface Wire {
  call<O extends Operation>(
    operation: O,
    request: Passed<RequestOf<O>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Passed<ResultOf<O>>>;
  /**
   * Resolves at the first event. Ending the iteration, or cancelling, closes the stream but does not cancel the task.
   */
  stream(
    operation: Streaming,
    request: Passed<RequestOf<Streaming>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Events>;
  /** Accepts no more calls. Running calls may finish. */
  close?(): void;
}

export interface WireOptions {
  readonly context: AgentContext;
  /** The interface's URL. For gRPC it may be `host:port`. */
  readonly url: string;
  readonly version: Version;
  /** The tenant that the interface declares. All requests carry it, and no other tenant (C-2). */
  readonly tenant: string | undefined;
  /**
   * The HTTP client for this URL. It checks the addresses that it dials, unless the URL is at the configured origin.
   */
  readonly http: HttpClient;
  /** The egress policy for wires that open connections without the HTTP client. Undefined if the URL needs no check. */
  readonly egress: Egress | undefined;
}

export type WireMaker = (options: WireOptions) => Wire;
