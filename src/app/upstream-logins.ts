/** Composes the sign-ins of users at upstreams. */
import type { Config } from '../config/schema.js';
import type { AuditTrail } from '../core/audit-trail.js';
import type { Principal } from '../core/caller.js';
import type { Cluster } from '../core/cluster.js';
import type { Seal } from '../core/seal.js';
import type { CredentialTarget } from '../identity/upstream-credentials.js';
import { ConnectLinks } from '../identity/upstream-login/connect-links.js';
import { Logins } from '../identity/upstream-login/login-flow.js';
import type { LoginSettings } from '../identity/upstream-login/login-settings.js';
import type { Fetch } from '../identity/upstream-login/oauth-library.js';
import { HttpClient, proxyRuleOf } from '../outbound/http/index.js';
import type { SafeHttp } from '../outbound/safe-http.js';
import { isObject } from '../protocol/jsonrpc/raw.js';
import { type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import type { CredentialServices } from './credential-order.js';

export interface UpstreamLoginsOptions {
  readonly config: Config;
  /** The configuration in effect, with servers that were added at run time. */
  readonly live: () => Config;
  readonly state: State;
  readonly seal: Seal;
  readonly audit: AuditTrail;
  readonly safeHttp: SafeHttp;
  readonly parts: CredentialServices;
  /** Whether the browser of a caller has to repeat a code. */
  needsCode(principal: Principal): boolean;
  readonly cluster: Pick<Cluster, 'tell' | 'onTold'>;
  /** Called when a user signed in or out at a server or agent, at this replica or at another replica. */
  readonly changed: (upstream: string, owner: string) => void;
  readonly log: Log;
}

/** The subject of messages between replicas about sign-ins. */
const CHANGED = 'upstream-login:changed';

/** The part of the running gateway that signs users in at upstreams. */
export class UpstreamLoginRuntime {
  readonly logins: Logins;
  readonly links: ConnectLinks;
  /** The URL of the pages, once they are served. */
  private listener: string | undefined;
  private readonly clients = new Set<HttpClient>();
  private readonly stop: () => void;

  constructor(private readonly options: UpstreamLoginsOptions) {
    const { state, seal, parts, cluster, changed, log } = options;
    this.links = new ConnectLinks({ seal, needsCode: (principal) => options.needsCode(principal), now: wallMs });
    this.logins = new Logins({
      vault: parts.vault,
      refresh: parts.refresh,
      pending: state.upstreamLogins,
      clients: state.upstreamClients,
      links: this.links,
      fetchFor: (target, settings) => {
        const { fetch, client } = upstreamFetch(
          options.safeHttp,
          this.settingsOf(target),
          target.url,
          settings,
          target.guarded !== undefined,
        );
        this.clients.add(client);
        return fetch;
      },
      base: () => this.base,
      audit: options.audit,
      changed: (upstream, owner) => {
        changed(upstream, owner);
        // Clients at other replicas have lists from before the sign-in. If the message to these replicas fails, the
        // clients see the change later.
        cluster.tell(CHANGED, { upstream, owner }).catch((error: unknown) => {
          log.warn({ err: error, upstream }, 'could not notify other replicas of a sign-in');
        });
      },
      log,
    });
    this.stop = cluster.onTold(CHANGED, (told) => {
      const { upstream, owner } = isObject(told) ? told : {};
      if (typeof upstream !== 'string' || typeof owner !== 'string') return;
      this.logins.get(upstream)?.source.forget(owner);
      changed(upstream, owner);
    });
  }

  get base(): string | undefined {
    const { publicUrl } = this.options.config;
    return this.listener === undefined ? undefined : (publicUrl?.replace(/\/+$/, '') ?? this.listener);
  }

  /** Called when the pages are served at this URL. */
  opened(url: string): void {
    this.listener = url;
  }

  async close(): Promise<void> {
    this.stop();
    await Promise.all([...this.clients].map((client) => client.close()));
  }

  private settingsOf({ kind, name }: CredentialTarget): ConnectionSettings | undefined {
    const { servers, agents } = this.options.live();
    return kind === 'server' ? servers[name] : agents[name];
  }
}

type ConnectionSettings = Pick<Config['servers'][string], 'proxy' | 'tls' | 'timeouts'>;

const CONNECT_MS = 5_000;

/**
 * `fetch` for the metadata and tokens of an upstream. The operator wrote the origins of the upstream and of `issuer`,
 * so these may be private. The egress rules apply to every other URL (S11). If the upstream is `guarded`, a caller
 * wrote its settings, and the egress rules apply to all addresses.
 */
export function upstreamFetch(
  safeHttp: SafeHttp,
  connection: ConnectionSettings | undefined,
  url: string,
  { issuer }: Pick<LoginSettings, 'issuer'>,
  guarded = false,
): { readonly fetch: Fetch; readonly client: HttpClient } {
  const client = new HttpClient({
    connectTimeout: connection?.timeouts.connect ?? CONNECT_MS,
    proxy: proxyRuleOf(connection?.proxy, guarded ? safeHttp : undefined),
    egress: guarded ? safeHttp.egress : undefined,
    ...(connection && { tls: connection.tls }),
  });
  const configured = [url, ...(issuer === undefined ? [] : [issuer])].map((each) => new URL(each).origin);
  const byOrigin = new Map(
    configured.map((origin) => [origin, safeHttp.fetchWith({ configured: { origin, client } })]),
  );
  const fetch: Fetch = (input, init) => {
    const { origin } = new URL(input instanceof Request ? input.url : input);
    return (byOrigin.get(origin) ?? safeHttp.fetch)(input, init);
  };
  return { fetch, client };
}
