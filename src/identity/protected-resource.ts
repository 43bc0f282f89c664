import { BoundedCache } from '../core/bounded-cache.js';
import type { AuthenticationRequest } from './authenticator.js';

/** The path of RFC 9728 metadata; the path of an endpoint follows it. */
export const RESOURCE_METADATA = '/.well-known/oauth-protected-resource';

export interface ProtectedResourceOptions {
  /** The URLs under which clients reach the gateway, without a slash at the end; the first is the main URL. */
  readonly bases: () => readonly string[];
  /** The issuers whose tokens the gateway accepts. If the list is empty, no metadata is served. */
  readonly authorizationServers: readonly string[];
  /** The scopes that every request needs. */
  readonly requiredScopes: readonly string[];
  /** Every scope that has a meaning for the gateway. */
  readonly supportedScopes: readonly string[];
  /** Segments below `/a2a` that are not names of agents. */
  readonly reservedAgents: ReadonlySet<string>;
}

/** A refresh token is a matter between client and issuer, so no resource demands it (AUR-07). */
const NEVER_DEMANDED = 'offline_access';
const MOST_DECISIONS = 1_000;

/** The endpoints of the gateway as resources of OAuth (RFC 8707, RFC 9728): their names, metadata and audiences. */
export class ProtectedResources {
  readonly requiredScopes: readonly string[];
  private readonly supportedScopes: readonly string[];
  private readonly decisions = new BoundedCache<string, boolean>(MOST_DECISIONS);

  constructor(private readonly options: ProtectedResourceOptions) {
    const demanded = (scopes: readonly string[]): string[] => [
      ...new Set(scopes.filter((scope) => scope !== NEVER_DEMANDED)),
    ];
    this.requiredScopes = demanded(options.requiredScopes);
    this.supportedScopes = demanded([...options.requiredScopes, ...options.supportedScopes]);
  }

  /** Whether clients can get tokens from an authorization server. */
  get published(): boolean {
    return this.options.authorizationServers.length > 0;
  }

  get authorizationServers(): readonly string[] {
    return this.options.authorizationServers;
  }

  /**
   * Whether a token for this audience may be used for the request: for the endpoint, or for a part that contains it.
   */
  covers(audience: string, request: Pick<AuthenticationRequest, 'url'>): boolean {
    const endpoint = this.endpointOf(request.url);
    const question = `${audience} ${endpoint}`;
    let answer = this.decisions.get(question);
    if (answer === undefined) {
      answer = this.contains(audience, endpoint);
      this.decisions.set(question, answer);
    }
    return answer;
  }

  private contains(audience: string, endpoint: string): boolean {
    const wanted = withoutSlash(canonical(audience));
    return this.options.bases().some((base) => {
      const own = withoutSlash(canonical(base));
      if (wanted === own) return true;
      const part = wanted.startsWith(`${own}/`) ? wanted.slice(own.length) : undefined;
      return part !== undefined && (endpoint === part || endpoint.startsWith(`${part}/`));
    });
  }

  /** The metadata document of the endpoint at a path (RFC 9728 §2). */
  metadata(endpoint: string, request: AuthenticationRequest): object {
    return {
      resource: `${this.baseFor(request)}${endpoint}`,
      authorization_servers: this.options.authorizationServers,
      ...(this.supportedScopes.length > 0 && { scopes_supported: this.supportedScopes }),
      bearer_methods_supported: ['header'],
      resource_name: 'Parley',
    };
  }

  /** The URL of the metadata for the endpoint that a request is sent to. */
  metadataUrl(request: AuthenticationRequest | undefined): string {
    return `${this.baseFor(request)}${RESOURCE_METADATA}${request ? this.endpointOf(request.url) : ''}`;
  }

  /** The base URL that the client used, if it is a URL of the gateway; otherwise the main URL. */
  private baseFor(request: AuthenticationRequest | undefined): string {
    const bases = this.options.bases();
    const host = request?.header('host')?.toLowerCase();
    return bases.find((base) => base.slice(base.indexOf('//') + 2) === host) ?? bases[0] ?? '';
  }

  /**
   * The path of the endpoint that a request belongs to. The two paths of HTTP+SSE are one endpoint, and so are all
   * paths of an agent. Paths outside of both protocols belong to the gateway as a whole, whose path is empty.
   */
  endpointOf(url: string): string {
    const mark = url.indexOf('?');
    const path = withoutSlash(mark < 0 ? url : url.slice(0, mark));
    const [, first = '', second, third] = path.split('/', 5);
    if (first === 'mcp') {
      if (second === undefined) return '/mcp';
      if (second === 'sse' || second === 'messages') return '/mcp/sse';
      return third === 'sse' || third === 'messages' ? `/mcp/${second}/sse` : `/mcp/${second}`;
    }
    if (first === 'sse' || first === 'messages') return '/sse';
    if (first === 'a2a') return this.agentOf('/a2a', second);
    if (first === 'v1' && second === 'a2a') return this.agentOf('/v1/a2a', third);
    // A gRPC path is `/package.Service/Method`.
    if (/^[\w.]+\.A2AService$/.test(first)) return '/a2a';
    return second === 'mcp' && third === undefined ? `/${first}/mcp` : '';
  }

  private agentOf(root: string, name: string | undefined): string {
    const named = name !== undefined && /^[\w-]+$/.test(name) && !this.options.reservedAgents.has(name.toLowerCase());
    return named ? `${root}/${name}` : root;
  }
}

const withoutSlash = (url: string): string => (url.endsWith('/') ? url.slice(0, -1) : url);

/** Scheme and host in lower case, without the default port (RFC 3986 §6.2). Text that is not a URL stays as it is. */
function canonical(url: string): string {
  return URL.canParse(url) ? new URL(url).href : url;
}
