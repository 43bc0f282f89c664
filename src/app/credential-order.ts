import { CallerRequests } from '../identity/caller-request.js';
import { ClientCredentials } from '../identity/upstream/client-credentials.js';
import { apiKeySource, basicSource } from '../identity/upstream/configured-key.js';
import { ForwardedHeaders } from '../identity/upstream/forwarded-headers.js';
import type { OAuthHttp } from '../identity/upstream/oauth-http.js';
import { TokenExchange } from '../identity/upstream/token-exchange.js';
import {
  type CredentialSource,
  type CredentialSourceFactory,
  type Credentials,
  CredentialsBySource,
  type CredentialTarget,
} from '../identity/upstream-credentials.js';
import { SingleFlightRefresh } from '../identity/vault/single-flight-refresh.js';
import { Vault } from '../identity/vault/vault.js';
import { HttpClient, proxyRule } from '../outbound/http/index.js';
import { OAuthRequests } from '../outbound/http/oauth-requests.js';
import { newId, type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';

/** The parts that credential sources share. */
export interface CredentialServices {
  readonly vault: Vault;
  readonly refresh: SingleFlightRefresh;
  /** Tokens and headers of callers, for sources that need them. */
  readonly requests: CallerRequests;
  /** Requests to authorization servers that the operator named. */
  readonly http: OAuthHttp;
  close(): Promise<void>;
}

const CONNECT_MS = 5_000;

export function credentialServices(state: State, log: Log): CredentialServices {
  const vault = new Vault({ rows: state.vault, now: wallMs });
  const client = new HttpClient({ connectTimeout: CONNECT_MS, proxy: proxyRule(undefined) });
  return {
    vault,
    refresh: new SingleFlightRefresh({ vault, bus: state.bus, self: newId(), log }),
    requests: new CallerRequests(),
    http: new OAuthRequests(client),
    close: () => client.close(),
  };
}

/**
 * Chooses the source of credentials for requests to a server or agent: the first source that the settings of the
 * upstream ask for.
 */
export function credentialsOf(parts: CredentialServices, ofUsers: readonly CredentialSourceFactory[]): Credentials {
  const ofGateway = [clientCredentials(parts), basicSource, apiKeySource];
  const sources = [...ofUsers, tokenExchange(parts, ofGateway), ...ofGateway];
  return new CredentialsBySource(sources, (source, { forwardHeaders = {} }) =>
    Object.keys(forwardHeaders).length === 0 ? source : new ForwardedHeaders(source, forwardHeaders, parts.requests),
  );
}

const clientCredentials =
  (parts: CredentialServices): CredentialSourceFactory =>
  (target) => {
    const settings = target.auth?.clientCredentials;
    return settings?.clientId === undefined
      ? undefined
      : new ClientCredentials(target, settings, partsFor(target, parts));
  };

const tokenExchange =
  (parts: CredentialServices, ofGateway: readonly CredentialSourceFactory[]): CredentialSourceFactory =>
  (target) => {
    const settings = target.auth?.tokenExchange;
    if (settings?.clientId === undefined) return undefined;
    const own = ofGateway.reduce<CredentialSource | undefined>((found, make) => found ?? make(target), undefined);
    return new TokenExchange(target, settings, { ...partsFor(target, parts), own });
  };

/**
 * The settings of a guarded upstream come from a caller, and so does the name of its authorization server. Requests to
 * that authorization server therefore use the client that checks each address.
 */
const partsFor = ({ guarded }: CredentialTarget, parts: CredentialServices): CredentialServices =>
  guarded ? { ...parts, http: guarded } : parts;
