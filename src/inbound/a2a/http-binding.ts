import type { AgentGateway } from '../../core/a2a/gateway.js';
import type { ErrorProfile, Version } from '../../protocol/a2a/dialect.js';
import { VERSION_HEADER } from '../../protocol/a2a/version-behavior.js';
import { readVersion } from '../../protocol/a2a/version-detection.js';
import type { StructureLimits } from '../../protocol/jsonrpc/json-depth-limit.js';
import type { RequestContext, Route } from '../http/route.js';
import { type StreamHost, type StreamReply, wantsLines } from './streams.js';

/** The options common to all bindings over HTTP. */
export interface HttpBindingOptions {
  readonly gateway: AgentGateway;
  readonly limits: StructureLimits & { readonly body: number };
  /** The error profile, which decides the statuses of errors in HTTP+JSON. */
  readonly profile: ErrorProfile;
  readonly streams: StreamHost;
  /** Receives every error that a client gets, for the metrics. */
  readonly refused?: (error: unknown) => void;
  /** Called on failures inside the gateway. */
  failed(error: unknown, path: string, requestId: string): void;
}

/** One A2A binding over HTTP. */
export interface HttpBinding {
  /**
   * The binding's routes under a path of `BASES`. `params.agent` names the agent and is absent for the routing agent.
   */
  routes(base: string): Route[];
}

/** The version the client names, by header or in the query (S-10). */
export function namedVersion({
  req,
  query,
}: Pick<RequestContext, 'req' | 'query'>): Version | 'unsupported' | undefined {
  const header = req.header(VERSION_HEADER);
  if (header !== undefined) return readVersion(String(header));
  for (const [key, value] of query) if (key.toLowerCase() === VERSION_HEADER) return readVersion(value);
  return undefined;
}

/** The form of a stream's response: server-sent events, or lines if the client accepts them. */
export const replyTo = ({ req, res, headers }: RequestContext): StreamReply => ({
  res,
  headers,
  lines: wantsLines(req.header('accept')),
});
