/** Checks the Host and Origin of a request, and builds the CORS headers (HM-02, HM-03, S8). */
export interface OriginPolicy {
  /** Whether the gateway listens on the loopback address only, so that it accepts only local names and pages. */
  readonly loopback: boolean;
  /** Host names accepted besides those of the loopback address. */
  readonly hosts: readonly string[];
  /** Origins accepted besides those of this machine. */
  readonly origins: readonly string[];
  readonly corsOrigins: readonly string[];
  readonly credentials: boolean;
}

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** The name without the port. A value of another form, such as `localhost:80@elsewhere`, matches no name. */
function hostName(host: string): string {
  return (/^(\[[\da-f:.]+\]|[^\s:@/\\?#[\]]+)(?::\d{1,5})?$/i.exec(host)?.[1] ?? '').toLowerCase();
}

export class Origins {
  private readonly hosts: ReadonlySet<string>;
  private readonly origins: ReadonlySet<string>;
  private readonly anyCors: boolean;
  /** The last accepted Host. It is cached, because most clients use one name. */
  private lastAllowed: string | undefined;
  /** The headers for callers other than web pages, which are nearly all callers. */
  private readonly plain: readonly string[];

  constructor(private readonly policy: OriginPolicy) {
    this.hosts = new Set(policy.hosts.map((host) => hostName(host)));
    this.anyCors = policy.corsOrigins.includes('*');
    this.origins = new Set(
      [...policy.origins, ...policy.corsOrigins.filter((origin) => origin !== '*')].map((origin) =>
        origin.toLowerCase(),
      ),
    );
    this.plain = this.headersOf(undefined);
  }

  allowsHost(host: string | undefined): boolean {
    if (host === undefined) return false;
    if (host === this.lastAllowed) return true;
    const name = hostName(host);
    const known = LOOPBACK.has(name) || this.hosts.has(name);
    // If the gateway listens on another address than loopback, the Host can only be compared with configured names.
    // Callers must authenticate there.
    if (!known && (this.policy.loopback || this.hosts.size > 0)) return false;
    this.lastAllowed = host;
    return true;
  }

  /** A request without Origin does not come from a web page. */
  allowsOrigin(origin: string | undefined): boolean {
    if (origin === undefined) return true;
    const given = origin.toLowerCase();
    if (this.origins.has(given)) return true;
    if (this.policy.loopback) return isLoopbackOrigin(given);
    return this.anyCors;
  }

  /** Headers for every response, as flat pairs. */
  headersFor(origin: string | undefined): readonly string[] {
    return origin === undefined ? this.plain : this.headersOf(origin);
  }

  private headersOf(origin: string | undefined): string[] {
    const { credentials } = this.policy;
    const allowed = this.anyCors && !credentials ? '*' : origin;
    const headers = ['Access-Control-Expose-Headers', EXPOSED];
    if (allowed !== undefined) headers.push('Access-Control-Allow-Origin', allowed);
    if (allowed !== '*') headers.push('Vary', 'Origin');
    if (credentials) headers.push('Access-Control-Allow-Credentials', 'true');
    return headers;
  }
}

function isLoopbackOrigin(origin: string): boolean {
  const match = /^https?:\/\/([^/]+)$/.exec(origin);
  return match !== null && LOOPBACK.has(hostName(match[1]!));
}

const EXPOSED =
  'Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, ETag, A2A-Extensions, X-A2A-Extensions, X-Request-Id';

const CORS_HEADERS =
  'Content-Type, Authorization, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID, Accept, ' +
  'A2A-Version, A2A-Extensions, X-A2A-Extensions, Traceparent, Tracestate';

/** The response headers for a preflight, in addition to those of every response. */
export const preflight = (methods: string): readonly string[] => [
  'Access-Control-Allow-Methods',
  methods,
  'Access-Control-Allow-Headers',
  CORS_HEADERS,
  'Access-Control-Max-Age',
  '600',
];
