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
