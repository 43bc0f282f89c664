/** Classifies the upstream errors that the gateway acts on. Their codes differ between revisions. */
import { ERRORS, UpstreamRpcError } from '../errors.js';
import type { JsonObject } from '../jsonrpc/raw.js';
import { type ClientCapabilities, type InputRequests, isObject, TASKS_EXTENSION } from './model.js';

export type UpstreamRefusal =
  | { readonly reason: 'method_not_found' }
  /** The upstream expects other mirrored headers; it has executed nothing. */
  | { readonly reason: 'header_mismatch' }
  /** The upstream needs a client that declares more; it has executed nothing. */
  | { readonly reason: 'missing_capability'; readonly required: ClientCapabilities }
  /**
   * The user has to visit pages first. The upstream has executed nothing, so the call is repeated after the questions
   * are answered (mcp.md 4.5). `ids` name the pages whose completion the upstream reports.
   */
  | { readonly reason: 'url_elicitation_required'; readonly requests: InputRequests; readonly ids: readonly string[] };

const URL_ELICITATION_REQUIRED = -32042;

/** Undefined for an error that the gateway does not act on; it passes to the caller. */
export function refusalIn(error: unknown): UpstreamRefusal | undefined {
  if (!(error instanceof UpstreamRpcError)) return undefined;
  switch (error.code) {
    case ERRORS.method_not_found.modern:
      return { reason: 'method_not_found' };
    case ERRORS.header_mismatch.modern:
      return { reason: 'header_mismatch' };
    case ERRORS.missing_capability.modern: {
      const required = isObject(error.data) ? error.data['requiredCapabilities'] : undefined;
      return isObject(required) ? { reason: 'missing_capability', required } : undefined;
    }
    case URL_ELICITATION_REQUIRED:
      return urlElicitations(error);
    default:
      return undefined;
  }
}

/** Whether the upstream executes this call only as a task of the extension. */
export const needsTask = (refusal: UpstreamRefusal | undefined): boolean =>
  refusal?.reason === 'missing_capability' &&
  isObject(refusal.required.extensions) &&
  TASKS_EXTENSION in refusal.required.extensions;

function urlElicitations({ data }: UpstreamRpcError): UpstreamRefusal | undefined {
  const listed = isObject(data) ? data['elicitations'] : undefined;
  if (!Array.isArray(listed) || listed.length === 0) return undefined;
  const requests: InputRequests = {};
  const ids: string[] = [];
  for (const [index, item] of listed.entries()) {
    if (!isObject(item)) return undefined;
    const { elicitationId, ...params } = item;
    if (typeof elicitationId === 'string') ids.push(elicitationId);
    requests[`elicitation/create-${index + 1}`] = {
      method: 'elicitation/create',
      params: { ...params, mode: 'url' } as JsonObject,
    };
  }
  return { reason: 'url_elicitation_required', requests, ids };
}

/** Whether the upstream failed, rather than refused the request. */
export const isInternalError = ({ code, status = 200 }: UpstreamRpcError): boolean =>
  code === ERRORS.internal.modern || status >= 500;

/** The error of the gateway's built-in upstreams for an unknown method. */
export const methodNotFound = (method: string): UpstreamRpcError =>
  new UpstreamRpcError(ERRORS.method_not_found.modern, `Method not found: ${method}`, undefined);
