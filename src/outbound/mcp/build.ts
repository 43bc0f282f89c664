import { createHash } from 'node:crypto';
import type { BreakerSettings } from '../../core/circuit-breaker.js';
import type { Upstream } from '../../core/upstream.js';
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
import { HttpClient, proxyRule, type TlsSettings } from '../http/index.js';
import type { SafeHttp } from '../safe-http.js';
import { shownUrl, type UpstreamContext } from './context.js';
import { HttpLink } from './http-link.js';
import { ServerTraffic } from './server-traffic.js';
import { StdioLink } from './stdio-link.js';
import { McpUpstream, type VerdictMemory } from './upstream.js';

/** The configuration of one server. */
export interface ServerSettings {
  readonly url?: string | undefined;
  readonly command?: string | undefined;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** How the gateway authenticates, beside `headers`. */
  readonly auth?: UpstreamAuth | undefined;
  /** Headers of callers that are sent on, with their new names. */
  readonly forwardHeaders?: Readonly<Record<string, string>> | undefined;
  /** Headers that callers may set for this server. */
  readonly callerHeaders?: readonly string[] | undefined;
  /** The URL of a forward proxy, or `none`. Where undefined, environment variables decide. */
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
  /** Chooses the credential of each request. Without it, requests carry the configured headers. */
  readonly credentials?: Credentials;
  /** For a server that a caller registered: the rules for each address that is dialled (S11), and the proxy. */
  readonly guard?: Pick<SafeHttp, 'egress' | 'proxy'>;
  /** Whether callers may read details that are meant for operators. */
  readonly explains: boolean;
  /** The command with which an operator reads the output of a server's process, where there is one. */
  readonly showsOutput?: ((server: string) => string) | undefined;
}

/** The detected eras of all servers, by target. */
export interface VerdictStore {
  recall(target: string): Verdict | undefined;
  remember(target: string, verdict: Verdict): void;
}

/** Maximum size of a streamed reply, as a multiple of the maximum size of one message. */
const REPLY_FACTOR = 16;

export function buildUpstream(name: string, settings: ServerSettings, around: UpstreamBuildOptions): Upstream {
  const { limits, log, clientInfo, verdicts, sessionIdle, explains, showsOutput, credentials = CONFIGURED } = around;
  const { guard } = around;
  const target: CredentialTarget = {
    kind: 'server',
    name,
    url: settings.url ?? '',
    configured: configuredCredential(settings.headers),
    auth: settings.auth,
    forwardHeaders: { ...settings.forwardHeaders, ...setByCallers(name, settings.callerHeaders ?? []) },
  };
  if (settings.url !== undefined) credentials.prepare?.(target);
  const context: UpstreamContext = {
    name,
    place: explains && settings.url !== undefined ? shownUrl(settings.url) : undefined,
    http: new HttpClient({
      connectTimeout: settings.timeouts.connect,
      proxy: guard && settings.proxy === undefined ? guard.proxy : proxyRule(settings.proxy),
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

/** The headers of callers for this server only, with the names under which the server gets them. */
const setByCallers = (server: string, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [`x-mcp-${server}-${name.toLowerCase()}`, name]));

/** The key of a verdict. The same name at another address is another server. The hash reveals no secrets. */
function targetOf(name: string, { url, command, args, env, cwd }: ServerSettings): string {
  return `${name}:${createHash('sha256')
    .update(JSON.stringify([url, command, args, env, cwd]))
    .digest('base64url')
    .slice(0, 22)}`;
}
