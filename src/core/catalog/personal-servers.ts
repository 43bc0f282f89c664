import { ProtocolError } from '../../protocol/errors.js';
import { type JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';
import {
  type ClientCapabilities,
  isListMethod,
  LIST_KINDS,
  LIST_MEMBER,
  type ListKind,
  type ServerDescription,
} from '../../protocol/mcp/model.js';
import { type Caller, GATEWAY, type Principal } from '../caller.js';
import { complete, type Outcome } from '../gateway.js';
import type { ListNews, Upstream, UpstreamCall, UpstreamHealth, Watch } from '../upstream.js';
import { CatalogServer, type CatalogServerOptions } from './catalog-server.js';

/**
 * The only tool of a personal server for a caller that is not signed in. A call of this tool asks the user to sign in.
 */
export const SIGN_IN_TOOL = 'sign_in';
/** Distinguishes that tool from a tool of the server that has the same name. */
export const SIGN_IN_MARK = 'parley/signIn';

/** Maximum number of callers whose lists of one server are kept. */
const MOST_CALLERS = 1_000;

/** The capabilities before the sign-in: lists of every kind may appear after it. */
const SIGNED_OUT: ServerDescription = {
  capabilities: {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true },
  },
};

export interface PersonalServersOptions extends Omit<CatalogServerOptions, 'announce'> {
  /** Reports changed lists of one caller. */
  announce(kind: ListKind, owner: string): void;
}

/** The parts of the catalog that belong to a server at which each caller has its own account (S27). */
export class PersonalServers {
  private readonly callers = new Map<string, { readonly server: CatalogServer; readonly upstream: CallersUpstream }>();

  constructor(private readonly options: PersonalServersOptions) {}

  /** The server as this caller sees it. */
  for({ principal }: Caller): CatalogServer {
    return this.entry(principal).server;
  }

  /** Whether the server was found to refuse this caller because it is not signed in. */
  isSignedOut({ principal }: Caller): boolean {
    return this.callers.get(principal.key)?.upstream.signedIn === false;
  }

  /** Called when the caller signed in or out. The lists of the caller are read again. */
  reset(owner: string): void {
    this.callers.get(owner)?.server.close();
    this.callers.delete(owner);
    for (const kind of LIST_KINDS) this.options.announce(kind, owner);
  }

  close(): void {
    for (const { server } of this.callers.values()) server.close();
    this.callers.clear();
  }

  private entry(principal: Principal): { readonly server: CatalogServer; readonly upstream: CallersUpstream } {
    const { key } = principal;
    const known = this.callers.get(key);
    if (known) {
      known.upstream.use(principal);
      // The map is ordered by last use: its first entry is dropped first.
      this.callers.delete(key);
      this.callers.set(key, known);
      return known;
    }
    const upstream = new CallersUpstream(this.options.upstream, principal, () => {
      if (this.callers.get(key)?.upstream === upstream) this.reset(key);
    });
    const announce = (kind: ListKind): void => this.options.announce(kind, key);
    const entry = { server: new CatalogServer({ ...this.options, upstream, announce }), upstream };
    this.callers.set(key, entry);
    if (this.callers.size > MOST_CALLERS) {
      const [[oldest, { server }]] = this.callers as unknown as [[string, { server: CatalogServer }]];
      server.close();
      this.callers.delete(oldest);
    }
    return entry;
  }
}

/** A personal server as one caller reaches it: the requests of the catalog carry the credential of this caller. */
class CallersUpstream implements Upstream {
  readonly name: string;
  /** Undefined until the server has answered. */
  signedIn: boolean | undefined;
  private caller: Caller;

  constructor(
    private readonly upstream: Upstream,
    principal: Principal,
    private readonly changed: () => void,
  ) {
    this.name = upstream.name;
    this.caller = { ...GATEWAY, principal };
  }

  /**
   * Called for each request of the caller. Its token replaces the token of the earlier request, which may have expired.
   */
  use(principal: Principal): void {
    if (principal !== this.caller.principal) this.caller = { ...GATEWAY, principal };
  }

  async describe(): Promise<ServerDescription> {
    try {
      const description = await this.upstream.describe(this.caller);
      this.found(true);
      return description;
    } catch (error) {
      if (!needsLogin(error)) throw error;
      this.found(false);
      return SIGNED_OUT;
    }
  }

  async request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const outcome = await this.upstream.request({ ...caller, principal: this.caller.principal }, call);
    if (outcome.kind !== 'error') this.found(true);
    else if (needsLogin(outcome.error) && isListMethod(call.method)) {
      this.found(false);
      const items: JsonValue[] = call.method === 'tools/list' ? [signInTool(this.name)] : [];
      return complete(RawObject.from({ [LIST_MEMBER[call.method]]: items, ttlMs: 0, cacheScope: 'private' }));
    }
    return outcome;
  }

  private found(signedIn: boolean): void {
    const before = this.signedIn;
    this.signedIn = signedIn;
    if (before !== undefined && before !== signedIn) this.changed();
  }

  watch(...given: Parameters<Upstream['watch']>): Promise<Watch> {
    const [filter, deliver] = given;
    return this.upstream.watch(filter, deliver, this.caller);
  }

  keepWatching(): Promise<unknown> {
    return Promise.resolve();
  }

  listNews(kind: ListKind, capabilities: ClientCapabilities): ListNews {
    return this.upstream.listNews(kind, capabilities);
  }

  rootsChanged(session: string): void {
    this.upstream.rootsChanged(session);
  }

  release(session: string): void {
    this.upstream.release(session);
  }

  health(): UpstreamHealth {
    return this.upstream.health();
  }

  async close(): Promise<void> {}
}

export const needsLogin = (error: unknown): boolean =>
  error instanceof ProtocolError && error.reason === 'login_required';

const signInTool = (server: string) => ({
  name: SIGN_IN_TOOL,
  title: `Sign in to ${server}`,
  description: `You are not signed in at the server "${server}" yet. Call this tool to get a link; open it in a browser to sign in. Then list the tools again.`,
  inputSchema: { type: 'object', properties: {} },
  annotations: { readOnlyHint: true, openWorldHint: true },
  _meta: { [SIGN_IN_MARK]: true },
});
