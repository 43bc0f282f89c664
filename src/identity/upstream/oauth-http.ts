import { isObject, type JsonObject } from '../../protocol/jsonrpc/raw.js';

/** One HTTP request to an authorization server that the operator named. `outbound/http` implements it. */
export interface OAuthRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  /** Headers, as flat pairs. */
  readonly headers: readonly string[];
  readonly body?: string;
}

export interface OAuthReply {
  readonly status: number;
  readonly body: string;
}

export interface OAuthHttp {
  /** Follows no redirect, and limits time and size. Rejects if no complete answer arrives. */
  send(request: OAuthRequest): Promise<OAuthReply>;
}

/** The JSON object in the body of a reply; undefined if the body is not one. */
export function jsonObjectIn(body: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
