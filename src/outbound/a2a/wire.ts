import type { Events, Exchange, Passed } from '../../core/a2a/agent.js';
import type { Credential } from '../../identity/credentials.js';
import type { Version } from '../../protocol/a2a/dialect.js';
import type { Operation, RequestOf, ResultOf, Streaming } from '../../protocol/a2a/model.js';
import type { Egress } from '../egress.js';
import type { HttpClient } from '../http/index.js';
import type { AgentContext } from './context.js';

/**
 * One interface of an agent, in one binding and one version. Both methods throw a `ProtocolError` or an
 * `UpstreamRpcError`; an outcome of `not_executed` on `upstream_unavailable`, or a `Misplaced`, lets the agent try its
 * next interface. Nothing is sent twice in here unless the agent has refused it unread.
 */
export interface Wire {
  call<O extends Operation>(
    operation: O,
    request: Passed<RequestOf<O>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Passed<ResultOf<O>>>;
  /** Resolves when the first event is there. Leaving the events, or cancelling, closes the stream and nothing else. */
  stream(
    operation: Streaming,
    request: Passed<RequestOf<Streaming>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Events>;
  /** No more calls begin; those that run may end. */
  close?(): void;
}

/** Where a wire ends. */
export interface WireOptions {
  readonly context: AgentContext;
  /** The interface's URL; for gRPC it may be a bare `host:port`. */
  readonly url: string;
  readonly version: Version;
  /** Goes with every request where the interface declares one, and never otherwise (C-2). */
  readonly tenant: string | undefined;
  /** The client for this URL: the guarded one, unless the URL is of the configured origin. */
  readonly http: HttpClient;
  /** For wires that dial by themselves; undefined where the URL needs no check. */
  readonly egress: Egress | undefined;
}

export type WireMaker = (options: WireOptions) => Wire;
