import type { Principal } from '../../core/caller.js';
import type { Authenticator } from '../../identity/authenticator.js';
import type { ProtocolError } from '../../protocol/errors.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';

/** The values of the parameters in a route's path, decoded. */
export type Params = Readonly<Record<string, string>>;

/** One request, as its route sees it. */
export interface RequestContext {
  readonly req: InboundRequest;
  readonly res: InboundResponse;
  readonly path: string;
  readonly query: URLSearchParams;
  /** Headers that belong on every answer. */
  readonly headers: readonly string[];
  readonly params: Params;
  /** The caller; `ANONYMOUS` where a public route is asked by an unknown caller. */
  readonly principal: Principal;
}

/** Callers that a route serves: everybody, callers that are known, administrators. */
export type Access = 'public' | 'user' | 'admin';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** How errors are written to the callers of a route. */
export interface ErrorFormat {
  readonly name: string;
  /** Answers with an error; ends the response where it has begun already. */
  write(context: RequestContext, error: ProtocolError): void;
}

/**
 * One method at one path. `path` holds literal segments and parameters: `{name}` is one segment that is not empty, and
 * `{name}:cancel` such a segment with an ending. HEAD is served by the route of GET, OPTIONS by the table itself.
 */
export interface Route {
  readonly method: Method;
  readonly path: string;
  readonly access: Access;
  readonly errors: ErrorFormat;
  /** One line for readers of the table. */
  readonly description: string;
  /** Establishes the callers of this path, where they are not the callers of the gateway; the same for all its methods. */
  readonly authenticator?: Authenticator;
  handle(context: RequestContext): Promise<void> | void;
}

/** The answer below a path where no route is. */
export interface Fallback {
  /** A path without parameters; the answer is for this path and everything beneath it. */
  readonly below: string;
  readonly access: Access;
  readonly errors: ErrorFormat;
  missing(path: string): ProtocolError;
}

/**
 * Returns the canonical value of a parameter. Throws, or rejects with, a `ProtocolError` where the value names nothing
 * that the caller may know of: that is answered before the method is looked at, and only to callers that may use the route.
 */
export type Parameter = (value: string, path: string, principal: Principal) => string | Promise<string>;
