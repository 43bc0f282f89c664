import type { Agent } from '../../core/a2a/agent.js';
import {
  CONFIGURED,
  type Credentials,
  type CredentialTarget,
  configuredCredential,
  type UpstreamAuth,
} from '../../identity/upstream-credentials.js';
import type { Binding } from '../../protocol/a2a/model.js';
import type { Log } from '../../telemetry/log.js';
import type { Egress } from '../egress.js';
import { type Guard, HttpClient, proxyRuleOf, type TlsSettings } from '../http/index.js';
import { guardedRequests } from '../mcp/build-upstream.js';
import { shownUrl } from '../shown-url.js';
import type { AgentContext } from './agent-context.js';
import { assumedCard } from './assumed-card.js';
import { CardCache, type SignaturePolicy } from './card-cache.js';
import { CardSource } from './card-discovery.js';
import { loginServerOf } from './card-login.js';
import { SecurityMatch } from './card-security.js';
import { type KeySetting, Signatures } from './card-signature-check.js';
import type { BindingSetting, Choice, VersionSetting } from './interface-choice.js';
import { RemoteAgent } from './remote-agent.js';
import { WIRES } from './wire-per-binding.js';

/** The configuration of one agent. */
export interface AgentSettings {
  /** The base URL of the agent, or the URL of its card. */
  readonly url: string;
  readonly version: VersionSetting;
  readonly binding: BindingSetting;
  /** Headers with the gateway's credentials for the agent. */
  readonly headers: Readonly<Record<string, string>>;
  /** How the gateway authenticates at the agent, in addition to `headers`. */
  readonly auth?: UpstreamAuth | undefined;
  /** Headers of callers that are sent on, with their new names. */
  readonly forwardHeaders?: Readonly<Record<string, string>> | undefined;
  /** The URL of a forward proxy, or `none`. If undefined, environment variables name the proxy. */
  readonly proxy?: string | undefined;
  /** TLS settings for the configured origin. They are not used for other origins that the card names. */
  readonly tls: TlsSettings;
  readonly signatures: SignaturePolicy;
  /** A JSON Web Key Set: inline, a file, or a URL. */
  readonly keys?: KeySetting | undefined;
  /** Allowed hosts of the card's interfaces, besides the host of `url` (S30). */
  readonly hosts?: readonly string[] | undefined;
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
}

export interface AgentBuildOptions {
  /** The HTTP client for URLs of a card. It checks the addresses that it dials. */
  readonly guarded: HttpClient;
  readonly egress: Egress;
  /** Set for an agent that a caller registered: the rules for each address that is dialled (S11), and the proxy. */
  readonly guard?: Guard;
  /** Chooses the credential of each request. If absent, requests carry the configured headers. */
  readonly credentials?: Credentials;
  readonly limits: { readonly event: number };
  /** Whether errors for callers contain the URL of the agent. */
  readonly explains: boolean;
  readonly log: Log;
}

/** Maximum size of the unread part of a stream, as a multiple of the maximum size of an event. */
const WAITING_EVENTS = 2;

/** Maximum number of log lines about refused interfaces of one agent. */
const MOST_REFUSED = 20;

export function buildAgent(name: string, settings: AgentSettings, around: AgentBuildOptions): Agent {
  const { guarded, egress, guard, limits, explains, log, credentials = CONFIGURED } = around;
  const http = new HttpClient({
    connectTimeout: settings.timeouts.connect,
    proxy: proxyRuleOf(settings.proxy, guard),
    egress: guard?.egress,
    tls: settings.tls,
  });
  const { url, version, binding, keys, signatures: policy } = settings;
  const { auth, forwardHeaders, headers, tls } = settings;
  const security = new SecurityMatch(name, { auth, headers, tls });
  const target: CredentialTarget = {
    kind: 'agent',
    name,
    url,
    configured: configuredCredential(headers),
    auth,
    guarded: guard && guardedRequests(guard, settings.timeouts.connect),
    forwardHeaders,
    apiKeyPlace: () => cards.current && security.of(cards.current.facts.card).apiKeyPlace,
    loginServer: async () => loginServerOf((await cards.get()).facts.card),
  };
  credentials.prepare?.(target);
  const context: AgentContext = {
    name,
    place: explains ? shownUrl(url) : undefined,
    credential: (caller) => credentials.for(caller, target),
    timeouts: settings.timeouts,
    limits: { event: limits.event, waiting: limits.event * WAITING_EVENTS },
    log,
  };
  const said = new Set<string>();
  const refused = (place: string): void => {
    if (said.has(place) || said.size >= MOST_REFUSED) return;
    said.add(place);
    log.warn(
      { agent: name, url: shownUrl(place) },
      'the card names an interface at a host that is not registered; it is not used (agents.<name>.hosts allows it)',
    );
  };
  const bindings = Object.keys(WIRES) as Binding[];
  const choice: Choice = { url, version, binding, egress, hosts: settings.hosts, refused, bindings };
  const cards = new CardCache({
    context,
    source: new CardSource(context, http, url),
    signatures: new Signatures({
      agent: name,
      origin: new URL(url).origin,
      keys,
      strict: policy === 'require',
      trusted: http,
      guarded,
      egress,
    }),
    policy,
    assumed: assumedCard(name, choice),
  });
  return new RemoteAgent({
    name,
    context,
    cards,
    choice,
    security,
    wire: (candidate) =>
      WIRES[candidate.binding]!({
        context,
        url: candidate.url,
        version: candidate.version,
        tenant: candidate.tenant,
        http: candidate.trusted ? http : guarded,
        egress: candidate.trusted ? guard?.egress : egress,
      }),
    close: () => http.close(),
  });
}
