import type { Caller } from '../core/caller.js';
import type { OAuthHttp } from './upstream/oauth-http.js';
import type { LoginServer, LoginSettings } from './upstream-login/login-settings.js';

/** The credential in requests to an upstream. */
export interface Credential {
  /**
   * Identifies the credential among those of one upstream. A session or connection that was opened with one credential
   * is never used with another. The headers of a credential may change while its key stays, for example when a token is
   * renewed. Empty for the configured headers.
   */
  readonly key: string;
  /** Headers, as flat pairs. */
  readonly headers: readonly string[];
  /** An encoded `name=value` for the query of the URL, where an agent's card asks for it there. */
  readonly query?: string | undefined;
  /**
   * Called if the upstream refuses the credential, which happens before the upstream runs the call. Returns true if the
   * source now has another credential; the request is then sent once more. A thrown `ProtocolError` reaches the caller.
   */
  refused?(refusal: CredentialRefusal): boolean | Promise<boolean>;
}

/** How an upstream refused a credential. */
export interface CredentialRefusal {
  /** 401, or 403 if the challenge asks for more scope. */
  readonly status: number;
  /** The `WWW-Authenticate` header. */
  readonly challenge: string | undefined;
}

/** An upstream that is called over a network. */
export interface CredentialTarget {
  readonly kind: 'server' | 'agent';
  readonly name: string;
  readonly url: string;
  /** The configured headers. */
  readonly configured: Credential;
  /** How the gateway authenticates at the upstream, beside the configured headers. */
  readonly auth?: UpstreamAuth | undefined;
  /**
   * Sends requests to the authorization servers that the settings name, for an upstream that a caller registered or
   * tries. Each dialled address is checked (S11). Undefined for an upstream of the configuration file.
   */
  readonly guarded?: OAuthHttp | undefined;
  /** The authorization server that the card of an agent names. */
  loginServer?(): Promise<LoginServer | undefined>;
  /** Where the card of the agent asks for an API key, if it is known. */
  apiKeyPlace?(): ApiKeyPlace | undefined;
  /** Headers of the caller's request that are sent on: keys are their names in the request, values their new names. */
  readonly forwardHeaders?: Readonly<Record<string, string>> | undefined;
}

/** Where an upstream expects an API key. */
export interface ApiKeyPlace {
  readonly in: 'header' | 'query' | 'cookie';
  readonly name: string;
  readonly prefix: string;
}

/** A client of an authorization server, for grants that the gateway itself uses. */
export interface OAuthClientSettings {
  readonly tokenUrl?: string | undefined;
  /** The issuer whose metadata names the token endpoint. */
  readonly issuer?: string | undefined;
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  /** A private key for `private_key_jwt` (RFC 7523): PEM, or the path of a PEM file. */
  readonly privateKey?: string | undefined;
  readonly keyId?: string | undefined;
  readonly algorithm?: string | undefined;
  readonly clientAuthentication?: 'auto' | 'basic' | 'post' | undefined;
  readonly scope?: string | undefined;
  readonly resource?: string | undefined;
  readonly audience?: string | undefined;
}

export interface TokenExchangeSettings extends OAuthClientSettings {
  readonly subjectTokenType?: string | undefined;
  readonly requestedTokenType?: string | undefined;
}

/** The settings `servers.<name>.auth` and `agents.<name>.auth`. */
export interface UpstreamAuth {
  readonly apiKey?: string | undefined;
  readonly header?: string | undefined;
  readonly prefix?: string | undefined;
  /** HTTP Basic authentication, for agents. */
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly clientCredentials: OAuthClientSettings;
  readonly tokenExchange: TokenExchangeSettings;
  /** How users sign in at the upstream; undefined if they do not. */
  readonly oauth?: LoginSettings | undefined;
}

/** Gives the credentials for one upstream. */
export interface CredentialSource {
  /** Whether each caller has its own account at the upstream, and the gateway has none. */
  readonly personal?: boolean;
  for(caller: Caller): Credential | Promise<Credential>;
}

/** Makes the source for an upstream whose settings ask for it; undefined for other upstreams. */
export type CredentialSourceFactory = (upstream: CredentialTarget) => CredentialSource | undefined;

/**
 * Chooses the credential for every request to an upstream. `GATEWAY` is the caller of requests that the gateway makes
 * by itself. The result is a promise only if one is needed. A thrown `ProtocolError` reaches the caller.
 */
export interface Credentials {
  for(caller: Caller, upstream: CredentialTarget): Credential | Promise<Credential>;
  /** Whether each caller has its own account at the upstream, and the gateway has none. */
  isPersonal?(upstream: CredentialTarget): boolean;
  /** Called once for each upstream, before its first request. */
  prepare?(upstream: CredentialTarget): void;
}

/** The credential for configured headers. */
export const configuredCredential = (headers: Readonly<Record<string, string>>): Credential => ({
  key: '',
  headers: Object.entries(headers).flat(),
});

/**
 * Chooses the source of each upstream: the first factory that makes a source decides; without a source, the configured
 * headers are used.
 */
export class CredentialsBySource implements Credentials {
  /**
   * Keyed by target, because a reload of the configuration makes new targets, whose sources then use the new settings.
   */
  private readonly sources = new WeakMap<CredentialTarget, CredentialSource>();
  private readonly personal = new WeakSet<CredentialTarget>();

  constructor(
    private readonly factories: readonly CredentialSourceFactory[],
    /** Wraps the chosen source. */
    private readonly around: (source: CredentialSource, upstream: CredentialTarget) => CredentialSource = (each) =>
      each,
  ) {}

  for(caller: Caller, upstream: CredentialTarget): Credential | Promise<Credential> {
    return this.source(upstream).for(caller);
  }

  isPersonal(upstream: CredentialTarget): boolean {
    this.source(upstream);
    return this.personal.has(upstream);
  }

  prepare(upstream: CredentialTarget): void {
    this.source(upstream);
  }

  private source(upstream: CredentialTarget): CredentialSource {
    let source = this.sources.get(upstream);
    if (!source) {
      const made = this.make(upstream);
      if (made.personal) this.personal.add(upstream);
      source = this.around(made, upstream);
      this.sources.set(upstream, source);
    }
    return source;
  }

  private make(upstream: CredentialTarget): CredentialSource {
    for (const factory of this.factories) {
      const source = factory(upstream);
      if (source) return source;
    }
    return { for: () => upstream.configured };
  }
}

/** Every caller uses the configured headers. */
export const CONFIGURED: Credentials = { for: (_, { configured }) => configured };
