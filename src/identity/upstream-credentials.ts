import type { Caller } from '../core/caller.js';

/** The credential in requests to an upstream. */
export interface Credential {
  /**
   * Identifies the credential among those of one upstream: a session or a connection that was opened with one is never
   * used with another. The headers may change under one key, for example when a token is renewed. Empty for the
   * configured headers.
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
  /** The configured headers. */
  readonly configured: Credential;
}

/**
 * Chooses the credential for every request to an upstream. `GATEWAY` is the caller of requests that the gateway makes
 * by itself. The result is a promise only if one is needed. A thrown `ProtocolError` reaches the caller.
 */
export interface Credentials {
  for(caller: Caller, upstream: CredentialTarget): Credential | Promise<Credential>;
}

/** The credential for configured headers. */
export const configuredCredential = (headers: Readonly<Record<string, string>>): Credential => ({
  key: '',
  headers: Object.entries(headers).flat(),
});

/** Every caller uses the configured headers. */
export const CONFIGURED: Credentials = { for: (_, { configured }) => configured };
