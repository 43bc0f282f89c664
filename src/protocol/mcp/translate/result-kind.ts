import type { RawObject } from '../../jsonrpc/raw.js';
import { type InputRequests, isObject } from '../model.js';
import { resultType } from './result.js';

/** A result, distinguished by its `resultType`. */
export type DecodedOutcome =
  | { readonly kind: 'complete'; readonly result: RawObject }
  | {
      readonly kind: 'input_required';
      readonly inputRequests: InputRequests | undefined;
      readonly requestState: string | undefined;
    }
  | { readonly kind: 'task'; readonly result: RawObject };

/**
 * A question must not give this server the context of other servers, even if the server requests it (mcp.md 4.10, 13).
 */
function withoutContext(requests: InputRequests): InputRequests {
  return Object.fromEntries(
    Object.entries(requests).map(([key, request]) => {
      if (request?.method !== 'sampling/createMessage' || !isObject(request.params)) return [key, request];
      const { includeContext: _, ...params } = request.params;
      return [key, { ...request, params }];
    }),
  );
}

/** Undefined for an unknown `resultType`: such a result is invalid (BASE-13). */
export function decodeOutcome(result: RawObject): DecodedOutcome | undefined {
  switch (resultType(result)) {
    case 'complete':
      return { kind: 'complete', result };
    case 'input_required': {
      const requests = result.get('inputRequests');
      const state = result.get('requestState');
      return {
        kind: 'input_required',
        inputRequests: isObject(requests) ? withoutContext(requests as InputRequests) : undefined,
        requestState: typeof state === 'string' ? state : undefined,
      };
    }
    case 'task':
      return { kind: 'task', result };
    default:
      return undefined;
  }
}
