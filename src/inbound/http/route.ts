import type { Principal } from '../../core/caller.js';
import type { Authenticator } from '../../identity/authenticator.js';
import type { ProtocolError } from '../../protocol/errors.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';

/** The values of the parameters in a route's path, decoded. */
export type Params = Readonly<Record<string, string>>;

/** The query of a request. Requests without a query share one empty query, so nothing may write to it. */
export type Query = Omit<URLSearchParams, 'append' | 'delete' | 'set' | 'sort'>;

/** One request, as its route sees it. */
export interface RequestContext {
  readonly req: InboundRequest;
  readonly res: InboundResponse;
  readonly path: string;
  readonly query: Query;
  /** Headers for every response. */
  readonly headers: readonly string[];
  readonly params: Params;
  /** The caller; `ANONYMOUS` for an unknown caller on a public route. */
  readonly principal: Principal;
}

/** The callers that a route serves: everybody, authenticated callers, administrators. */
export type Access = 'public' | 'user' | 'admin';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The error format for the callers of a route. */
export interface ErrorFormat {
  readonly name: string;
  /** Sends an error; ends the response if it has already begun. */
  write(context: RequestContext, error: ProtocolError): void;
}

export type JsonSchema = Readonly<Record<string, unknown>>;

/** The parts of a route that its description for programs needs beside the path: parameters, body, answers. */
export interface RouteApi {
  /** The group of routes that the route belongs to. */
  readonly tag: string;
  readonly query?: Readonly<Record<string, { readonly description: string; readonly schema: JsonSchema }>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: { readonly schema: JsonSchema; readonly type: string; readonly optional?: true };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly schema?: JsonSchema }>>;
}

/**
 * One method at one path. `path` has literal segments and parameters: `{name}` is one non-empty segment,
 * `{name}:cancel` such a segment with an ending, `{name*}` at the end all remaining segments, not decoded. HEAD uses
 * the route of GET; the table itself serves OPTIONS.
 */
export interface Route {
  readonly method: Method;
  readonly path: string;
  readonly access: Access;
  readonly errors: ErrorFormat;
  /** One line that describes the route. */
  readonly description: string;
  /**
   * Authenticates the callers of this path in place of the gateway's authenticator. All methods of the path have the
   * same authenticator.
   */
  readonly authenticator?: Authenticator;
  /** The part of the API's description about this route; undefined for routes of the protocols. */
  readonly api?: RouteApi;
  /** Whether a client may open a WebSocket at this path. The context then has `req.upgrade`. */
  readonly webSocket?: true;
  handle(context: RequestContext): Promise<void> | void;
}

/** The response below a path without a route. */
export interface Fallback {
  /** A path without parameters; the fallback applies to this path and all paths below it. */
  readonly below: string;
  readonly access: Access;
  readonly errors: ErrorFormat;
  missing(path: string): ProtocolError;
}

/**
 * Returns the canonical value of a parameter. Throws or rejects with a `ProtocolError` if the value names nothing that
 * the caller may see. This check comes after the access check and before the check of the method.
 */
export type Parameter = (value: string, path: string, principal: Principal) => string | Promise<string>;
