import type { Caller } from '../core/caller.js';

/** The proof of identity that requests to an upstream carry. */
export interface Credential {
  /**
   * Tells the credentials of one upstream apart: a session or a connection that was opened with one is never used with
   * another. The headers may change under one key, such as when a token is renewed. Empty for the configured headers.
   */
  readonly key: string;
  /** Headers, as flat pairs. */
  readonly headers: readonly string[];
}

/** An upstream that is called over a network. */
export interface CredentialTarget {
  readonly kind: 'server' | 'agent';
  readonly name: string;
  readonly url: string;
  /** The headers of the configuration. */
  readonly configured: Credential;
}

/**
 * Chooses the credential of every request to an upstream. `GATEWAY` is the caller of requests that the gateway makes by
 * itself. The answer is a promise only where one is needed. A `ProtocolError` that is thrown reaches the caller.
 */
export interface Credentials {
  for(caller: Caller, upstream: CredentialTarget): Credential | Promise<Credential>;
}

/** The credential of headers as they are configured. */
export const configuredCredential = (headers: Readonly<Record<string, string>>): Credential => ({
  key: '',
  headers: Object.entries(headers).flat(),
});

/** Every caller uses the headers of the configuration. */
export const CONFIGURED: Credentials = { for: (_, { configured }) => configured };
