import { createHash } from 'node:crypto';
import type { BreakerSettings } from '../../core/circuit-breaker.js';
import type { ChoiceLog } from '../../core/replica-choice/choice-log.js';
import { ReplicatedUpstream } from '../../core/replica-choice/replicated-upstream.js';
import type { QualitySource } from '../../core/replica-choice/reward.js';
import type { Upstream } from '../../core/upstream.js';
import type { OAuthHttp } from '../../identity/upstream/oauth-http.js';
import {
  CONFIGURED,
  type Credentials,
  type CredentialTarget,
  configuredCredential,
  type UpstreamAuth,
} from '../../identity/upstream-credentials.js';
import type { Implementation } from '../../protocol/mcp/model.js';
import { revisionSetting, type Verdict } from '../../protocol/mcp/server-version.js';
import type { Log } from '../../telemetry/log.js';
import { type Guard, HttpClient, proxyRuleOf, type TlsSettings } from '../http/index.js';
import { OAuthRequests } from '../http/oauth-requests.js';
import { OpenApiUpstream } from '../openapi/openapi-upstream.js';
import { shownUrl } from '../shown-url.js';
import { HttpLink } from './http-link.js';
import { McpUpstream, type VerdictMemory } from './mcp-upstream.js';
import { ServerTraffic } from './server-traffic-limits.js';
import { StdioLink } from './stdio-link.js';
import type { UpstreamContext } from './upstream-context.js';

/** The configuration of one server. */
export interface ServerSettings {
  readonly url?: string | undefined;
  /** The path or URL of an OpenAPI document. If set, the server is an HTTP API, and `url` is its base URL. */
  readonly openapi?: string | undefined;
  /** URLs of equivalent servers, besides `url`. */
  readonly replicas?: readonly string[] | undefined;
  /** The latency objective among replicas, in milliseconds, if it differs from that of all servers. */
  readonly objective?: number | undefined;
  readonly command?: string | undefined;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** How the gateway authenticates at the server, in addition to `headers`. */
  readonly auth?: UpstreamAuth | undefined;
  /** Headers of callers that are sent on, with their new names. */
  readonly forwardHeaders?: Readonly<Record<string, string>> | undefined;
  /** Headers that callers may set for this server. */
  readonly callerHeaders?: readonly string[] | undefined;
  /** The URL of a forward proxy, or `none`. If undefined, environment variables name the proxy. */
  readonly proxy?: string | undefined;
  readonly tls: TlsSettings;
  readonly transport: 'auto' | 'http' | 'sse';
  readonly revision: string;
  readonly pool: number;
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
  readonly breaker?: BreakerSettings | undefined;
}

export interface UpstreamBuildOptions {
  readonly limits: { readonly event: number };
  readonly sessionIdle: number;
  readonly clientInfo: Implementation;
  readonly log: Log;
  readonly verdicts: VerdictStore;
  /** Chooses the credential of each request. If absent, requests carry the configured headers. */
  readonly credentials?: Credentials;
  /** Set for a server that a caller registered: the rules for each address that is dialled (S11), and the proxy. */
  readonly guard?: Guard;
  /** Whether callers may read details that are meant for operators. */
  readonly explains: boolean;
  /** The command with which an operator reads the output of a server's process, if there is such a command. */
  readonly showsOutput?: ((server: string) => string) | undefined;
  /** How calls are spread over replicas. */
  readonly routing?: ReplicaRouting | undefined;
}

/** The settings and parts that all servers with replicas share. */
export interface ReplicaRouting {
  /** The latency objective in milliseconds. */
  readonly objective: number;
  /** The scores that evaluators gave to the replicas. */
  readonly quality?: QualitySource | undefined;
  /** Records a sample of the choices, to compare other ways of choosing with them. */
  readonly choices?: ChoiceLog | undefined;
}

/** The detected eras of all servers, by target. */
export interface VerdictStore {
  recall(target: string): Verdict | undefined;
  remember(target: string, verdict: Verdict): void;
}

/** Maximum size of a streamed reply, as a multiple of the maximum size of one message. */
const REPLY_FACTOR = 16;

/** The latency objective if none is configured, in milliseconds. */
const OBJECTIVE = 1_000;

export function buildUpstream(name: string, settings: ServerSettings, around: UpstreamBuildOptions): Upstream {
  const { guard, credentials = CONFIGURED, log, routing } = around;
  const { url, replicas = [] } = settings;
  // The replicas of a server share one credential. The credential is that of the first URL.
  const target: CredentialTarget = {
    kind: 'server',
    name,
    url: url ?? '',
    configured: configuredCredential(settings.headers),
    auth: settings.auth,
    guarded: guard && guardedRequests(guard, settings.timeouts.connect),
    forwardHeaders: { ...settings.forwardHeaders, ...setByCallers(name, settings.callerHeaders ?? []) },
  };
  if (url !== undefined) credentials.prepare?.(target);
  if (url === undefined || replicas.length === 0) return buildOne(name, settings, around, target);
  return new ReplicatedUpstream({
    name,
    replicas: [url, ...replicas].map((each, index) => ({
      id: replicaId(each),
      position: index + 1,
      place: shownUrl(each),
      upstream: buildOne(name, { ...settings, url: each }, around, target),
    })),
    objective: settings.objective ?? routing?.objective ?? OBJECTIVE,
    quality: routing?.quality,
    choices: routing?.choices,
    log,
  });
}

const replicaId = (url: string): string => createHash('sha256').update(url).digest('base64url').slice(0, 10);

/** Builds the upstream of one URL or one command. */
function buildOne(
  name: string,
  settings: ServerSettings,
  around: UpstreamBuildOptions,
  target: CredentialTarget,
): Upstream {
  const { limits, log, clientInfo, verdicts, sessionIdle, explains, showsOutput, credentials = CONFIGURED } = around;
  const { guard } = around;
  const context: UpstreamContext = {
    name,
    place: explains && settings.url !== undefined ? shownUrl(settings.url) : undefined,
    http: new HttpClient({
      connectTimeout: settings.timeouts.connect,
      proxy: proxyRuleOf(settings.proxy, guard),
      egress: guard?.egress,
      tls: settings.tls,
    }),
    credential: (caller) => credentials.for(caller, target),
    timeouts: settings.timeouts,
    limits: { event: limits.event, reply: limits.event * REPLY_FACTOR },
    traffic: new ServerTraffic(),
    clientInfo,
    explains,
    showsOutput: showsOutput?.(name),
    log,
  };
  if (settings.openapi !== undefined)
    return new OpenApiUpstream({
      ...{ context, document: settings.openapi, url: settings.url, breaker: settings.breaker, log },
    });
  const setting = revisionSetting(settings.revision);
  const about = targetOf(name, settings);
  const memory: VerdictMemory = {
    recall: () => verdicts.recall(about),
    remember: (verdict) => {
      if (!setting.fixed) verdicts.remember(about, verdict);
    },
  };
  const link =
    settings.url !== undefined
      ? new HttpLink({
          context,
          url: settings.url,
          transport: settings.transport === 'auto' ? memory.recall()?.transport : settings.transport,
          pool: settings.pool,
          idle: sessionIdle,
          found: (transport) => {
            const verdict = memory.recall();
            if (verdict) memory.remember({ ...verdict, transport });
          },
        })
      : new StdioLink({
          context,
          command: { command: settings.command!, args: settings.args, env: settings.env, cwd: settings.cwd },
          maxLine: limits.event,
          pool: settings.pool,
          idle: sessionIdle,
          legacyOffer: setting.legacyOffer,
          modernOffer: setting.modernOffer,
        });
  const personal = settings.url !== undefined && credentials.isPersonal?.(target) === true;
  return new McpUpstream({ name, link, setting, memory, personal, breaker: settings.breaker, log });
}

/**
 * Requests to authorization servers that a caller named. The TLS settings of the upstream are not used for them. Each
 * request has its own connection: token requests are rare, and no connection is left when the upstream is closed.
 */
export function guardedRequests({ egress, proxy }: Guard, connectTimeout: number): OAuthHttp {
  return {
    async send(request) {
      const client = new HttpClient({ connectTimeout, egress, proxy });
      try {
        return await new OAuthRequests(client).send(request);
      } finally {
        await client.close();
      }
    },
  };
}

/** The headers of callers that are meant for this server only, with the names that the server gets. */
const setByCallers = (server: string, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [`x-mcp-${server}-${name.toLowerCase()}`, name]));

/**
 * The key of a server's detected era. The key covers the address, because the same name at another address is another
 * server. The hash reveals no secrets.
 */
function targetOf(name: string, { url, command, args, env, cwd }: ServerSettings): string {
  return `${name}:${createHash('sha256')
    .update(JSON.stringify([url, command, args, env, cwd]))
    .digest('base64url')
    .slice(0, 22)}`;
}
