import { type Admission, serverTarget, visible } from '../../core/admission.js';
import { isAdmin } from '../../core/caller.js';
import type { Catalog } from '../../core/catalog/catalog.js';
import { type ServerGateway, View } from '../../core/gateway.js';
import type { UpstreamStatus } from '../../core/upstream.js';
import { isObject, type JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { RequestContext } from '../http/route.js';
import { NO_PARAMS, restCall, restCaller } from './rest-request.js';
import { selectedView } from './selected-view.js';
import { noServer } from './server-lookup.js';

/** A server as it was configured or registered. */
export interface ServerEntry {
  readonly name: string;
  /** Settings in the form of the configuration file. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Fields of other gateways that were registered with the server. */
  readonly meta: Readonly<Record<string, unknown>>;
  readonly createdAt?: number;
  readonly createdBy?: string;
  readonly updatedAt?: number;
  readonly updatedBy?: string;
}

export interface ServerFactsOptions {
  readonly gateway: Pick<ServerGateway, 'listByServer'>;
  readonly catalog: Pick<Catalog, 'has' | 'inView' | 'groupsOf' | 'upstream'>;
  readonly admission: Pick<Admission, 'sees'>;
  entries(): readonly ServerEntry[];
  entry(name: string): ServerEntry | undefined;
}

/** The tools or resources of servers, by the names of the servers. */
type Lists = ReadonlyMap<string, readonly JsonObject[]>;

export type Transport = 'http' | 'sse' | 'stdio';

/** One server as a caller sees it. It contains no secrets. */
export interface ServerFacts extends ServerEntry {
  /** The URL without its query, for administrators only. */
  readonly url: string | null;
  readonly transport: Transport;
  readonly authType: string;
  readonly groups: readonly string[];
  readonly tools: readonly JsonObject[];
  readonly resources: readonly JsonObject[];
  readonly status: Status;
  /** The problem of a server that is not healthy, in a text that callers may read. */
  readonly problem: string | undefined;
  /** The time of the last probe; undefined if the server was not probed yet. */
  readonly probedAt: number | undefined;
  /** The duration of the last probe in milliseconds; null if the server is not healthy or was not probed yet. */
  readonly latency: number | null;
}

export type Status = 'healthy' | 'unhealthy' | 'unknown';

const STATUS: Readonly<Record<UpstreamStatus, Status>> = {
  up: 'healthy',
  down: 'unhealthy',
  unknown: 'unknown',
  // The server answers only to callers that signed in at it, so its health is not known.
  login_required: 'unknown',
};

/** Reads the facts about servers for the routes of other gateways. */
export class ServerFactsReader {
  constructor(private readonly options: ServerFactsOptions) {}

  /**
   * The servers that the caller sees, within the selection of the request. Administrators also see servers that are
   * switched off.
   */
  async entries(context: RequestContext): Promise<readonly ServerEntry[]> {
    return this.seen(context, this.options.entries());
  }

  /** The server of a request, if the caller sees the server. Throws `server_not_found`. */
  async entry(context: RequestContext, id: string): Promise<ServerEntry> {
    const entry = this.options.entry(id.toLowerCase());
    const [found] = entry ? await this.seen(context, [entry]) : [];
    if (!found) throw noServer(id);
    return found;
  }

  private seen(
    context: RequestContext,
    entries: readonly ServerEntry[],
  ): readonly ServerEntry[] | Promise<readonly ServerEntry[]> {
    const { catalog, admission } = this.options;
    const view = selectedView(context.req);
    const all = isAdmin(context.principal) && view.selection.servers === undefined;
    const selected = entries.filter(({ name }) => all || catalog.inView(view, name));
    return visible(admission, restCaller(context), selected, ({ name }) => serverTarget(name));
  }

  /** The servers with their tools and resources. */
  async read(context: RequestContext, entries: readonly ServerEntry[]): Promise<ServerFacts[]> {
    const [tools, resources] = await Promise.all([
      this.listed(context, entries, 'tools/list'),
      this.listed(context, entries, 'resources/list'),
    ]);
    return entries.map((entry) => this.describe(context, entry, tools, resources));
  }

  /** A server without its tools and resources, which may not be known yet. */
  describeAlone(context: RequestContext, entry: ServerEntry): ServerFacts {
    return this.describe(context, entry, new Map(), new Map());
  }

  /** The names of the groups of these servers. */
  groups(entries: readonly ServerEntry[]): string[] {
    return [...new Set(entries.flatMap(({ name }) => this.options.catalog.groupsOf(name)))].sort();
  }

  groupsOf({ name }: ServerEntry): readonly string[] {
    return this.options.catalog.groupsOf(name);
  }

  status({ name }: ServerEntry): Pick<ServerFacts, 'status' | 'problem' | 'probedAt' | 'latency'> {
    const health = this.options.catalog.upstream(name)?.health();
    const status = STATUS[health?.status ?? 'unknown'];
    const healthy = status === 'healthy';
    // For a server that answers, `detail` is no problem but the state of its process.
    const problem = healthy ? undefined : health?.detail;
    return { status, problem, probedAt: health?.probed?.at, latency: healthy ? (health?.probed?.took ?? null) : null };
  }

  private async listed(context: RequestContext, entries: readonly ServerEntry[], method: string): Promise<Lists> {
    if (entries.length === 0) return new Map();
    const view = new View({ servers: entries.map(({ name }) => name) });
    const call = restCall(context, method, NO_PARAMS, view);
    const { lists } = await this.options.gateway.listByServer(restCaller(context), call);
    return new Map(lists.map(({ server, items }) => [server, items]));
  }

  private describe({ principal }: RequestContext, entry: ServerEntry, tools: Lists, resources: Lists): ServerFacts {
    const { name, settings } = entry;
    return {
      ...entry,
      url: isAdmin(principal) ? shownUrl(settings['url']) : null,
      transport: transportOf(settings),
      authType: authTypeOf(settings),
      groups: this.groupsOf(entry),
      tools: tools.get(name) ?? [],
      resources: resources.get(name) ?? [],
      ...this.status(entry),
    };
  }
}

/** A URL without its query, user and fragment, which may hold secrets. */
function shownUrl(url: unknown): string | null {
  if (typeof url !== 'string' || !URL.canParse(url)) return null;
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

export function transportOf(settings: ServerEntry['settings']): Transport {
  if (settings['command'] !== undefined) return 'stdio';
  return settings['transport'] === 'sse' ? 'sse' : 'http';
}

/** How the gateway authenticates at the server, in the words of other gateways. */
export function authTypeOf({ auth, headers }: ServerEntry['settings']): string {
  const settings = isObject(auth) ? auth : {};
  const grants = ['oauth', 'clientCredentials', 'tokenExchange'];
  if (grants.some((grant) => isObject(settings[grant]) && uses(settings[grant]))) return 'oauth2';
  if (settings['apiKey'] !== undefined) {
    const header = settings['header'] ?? 'Authorization';
    return typeof header === 'string' && header.toLowerCase() === 'authorization' ? 'bearer_token' : 'api_key';
  }
  const named = isObject(headers) ? Object.keys(headers) : [];
  return named.some((name) => name.toLowerCase() === 'authorization') ? 'authorization' : 'none';
}

/** Whether a grant is in use, which its keys decide: the group of the configuration always exists, with defaults. */
const uses = (grant: JsonObject): boolean =>
  Object.values(grant).some((value) => value !== undefined && !(Array.isArray(value) && value.length === 0));
