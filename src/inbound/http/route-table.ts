import type { Principal } from '../../core/caller.js';
import type { Authenticator } from '../../identity/authenticator.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { Access, ErrorFormat, Fallback, Parameter, Params, Route } from './route.js';

export interface RouteTableOptions {
  readonly routes: readonly Route[];
  /** Resolvers for parameters, by their names in the paths. */
  readonly parameters?: Readonly<Record<string, Parameter>>;
  readonly fallbacks?: readonly Fallback[];
  /** The error format for paths without a route or fallback. */
  readonly errors: ErrorFormat;
}

/** All routes at one path. */
export interface Resource {
  readonly path: string;
  /** The routes by method, including HEAD if there is GET. */
  readonly methods: ReadonlyMap<string, Route>;
  /** The value of `Allow`. */
  readonly allow: string;
  /** The methods that a preflight allows. */
  readonly corsMethods: string;
  /** The access required for a method that the resource does not have. */
  readonly access: Access;
  readonly errors: ErrorFormat;
  /** The authenticator of this path; undefined for the gateway's own authenticator. */
  readonly authenticator: Authenticator | undefined;
  /** The error for a path without a route; undefined if there is a route. */
  readonly missing: ((path: string) => ProtocolError) | undefined;
}

export interface Match {
  readonly resource: Resource;
  readonly params: Params;
}

const NO_PARAMS: Params = {};
const STRICTNESS: Readonly<Record<Access, number>> = { public: 0, user: 1, admin: 2 };

/**
 * All routes of the gateway. Access, 404, 405, HEAD, OPTIONS and the error format follow from this table; `server.ts`
 * enforces them.
 */
export class RouteTable {
  readonly routes: readonly Route[];
  /** Paths without parameters, which serve most requests. */
  private readonly exact = new Map<string, Match>();
  private readonly root = new Node();
  private readonly fallbacks: readonly { readonly below: string; readonly match: Match }[];
  private readonly nothing: Match;

  constructor(private readonly options: RouteTableOptions) {
    this.routes = options.routes;
    const paths = new Map<string, Route[]>();
    for (const route of options.routes) {
      const others = paths.get(route.path);
      if (others) others.push(route);
      else paths.set(route.path, [route]);
    }
    for (const [path, routes] of paths) this.add(path, resourceOf(path, routes));
    this.fallbacks = (options.fallbacks ?? [])
      .map((fallback) => ({ below: fallback.below, match: { resource: absent(fallback), params: NO_PARAMS } }))
      .sort((a, b) => b.below.length - a.below.length);
    const missing = (path: string): ProtocolError => new ProtocolError('not_found', `Nothing is served at ${path}`);
    const resource = absent({ below: '/', access: 'user', errors: options.errors, missing });
    this.nothing = { resource, params: NO_PARAMS };
  }

  private add(path: string, resource: Resource): void {
    if (!path.includes('{')) this.exact.set(path, { resource, params: NO_PARAMS });
    let node = this.root;
    for (const segment of segmentsOf(path)) node = node.child(segment);
    if (node.resource) throw new Error(`two resources have the same form: ${node.resource.path} and ${path}`);
    node.resource = resource;
  }

  /** The resource at a path, for any method. A trailing slash is ignored. */
  match(given: string): Match {
    const known = this.exact.get(given);
    if (known) return known;
    const path = given.length > 1 && given.endsWith('/') ? given.slice(0, -1) : given;
    const exact = path === given ? undefined : this.exact.get(path);
    if (exact) return exact;
    const values: string[] = [];
    const found = this.root.find(segmentsOf(path), 0, values);
    if (found) return { resource: found.resource, params: paramsOf(found.names, values) };
    for (const { below, match } of this.fallbacks) if (path === below || path.startsWith(`${below}/`)) return match;
    return this.nothing;
  }

  /** The resolved parameters of a match. Throws or rejects if a parameter is unknown. */
  resolve({ params }: Match, path: string, principal: Principal): Params | Promise<Params> {
    const { parameters } = this.options;
    if (params === NO_PARAMS || !parameters) return params;
    let resolved: Record<string, string> | undefined;
    let waiting: Promise<void>[] | undefined;
    for (const name in params) {
      const canonical = parameters[name]?.(params[name]!, path, principal);
      if (canonical === undefined || canonical === params[name]) continue;
      resolved ??= { ...params };
      const all = resolved;
      if (typeof canonical === 'string') all[name] = canonical;
      else {
        waiting ??= [];
        waiting.push(
          canonical.then((value) => {
            all[name] = value;
          }),
        );
      }
    }
    const known = resolved ?? params;
    return waiting ? Promise.all(waiting).then(() => known) : known;
  }
}

function segmentsOf(path: string): string[] {
  const segments = path.split('/');
  segments.shift();
  return segments;
}

/** A resource and the names of its parameters, in the order of the path. */
interface Leaf {
  readonly resource: Resource;
  readonly names: readonly string[];
}

interface Edge {
  readonly name: string;
  /** The literal end of the segment after the parameter. */
  readonly ending: string;
  readonly node: Node;
}

/**
 * A tree of path segments. A literal has priority over a parameter, a parameter with an ending over a parameter without
 * an ending, and both over a parameter for all remaining segments.
 */
class Node {
  resource: Resource | undefined;
  private readonly literals = new Map<string, Node>();
  private readonly edges: Edge[] = [];
  /** Takes all remaining segments, if nothing else matches them. */
  private tail: Node | undefined;

  constructor(private readonly names: readonly string[] = []) {}

  child(segment: string): Node {
    const rest = /^\{(\w+)\*\}$/.exec(segment)?.[1];
    if (rest !== undefined) {
      this.tail ??= new Node([...this.names, rest]);
      return this.tail;
    }
    const parameter = /^\{(\w+)\}(.*)$/.exec(segment);
    if (!parameter) {
      if (/[{}]/.test(segment)) throw new Error(`a parameter must begin its segment: ${segment}`);
      const known = this.literals.get(segment);
      if (known) return known;
      const node = new Node(this.names);
      this.literals.set(segment, node);
      return node;
    }
    const [, name = '', ending = ''] = parameter;
    const known = this.edges.find((edge) => edge.name === name && edge.ending === ending);
    if (known) return known.node;
    const node = new Node([...this.names, name]);
    this.edges.push({ name, ending, node });
    this.edges.sort((a, b) => b.ending.length - a.ending.length);
    return node;
  }

  find(segments: readonly string[], at: number, values: string[]): Leaf | undefined {
    if (at === segments.length) return this.resource && { resource: this.resource, names: this.names };
    const segment = segments[at]!;
    const text = decoded(segment);
    const literal = text === undefined ? undefined : this.literals.get(text)?.find(segments, at + 1, values);
    if (literal) return literal;
    for (const { ending, node } of this.edges) {
      if (segment.length <= ending.length || !segment.endsWith(ending)) continue;
      const value = ending === '' ? text : decoded(segment.slice(0, -ending.length));
      if (value === undefined) continue;
      values.push(value);
      const found = node.find(segments, at + 1, values);
      if (found) return found;
      values.pop();
    }
    if (!this.tail?.resource) return undefined;
    values.push(segments.slice(at).join('/'));
    return { resource: this.tail.resource, names: this.tail.names };
  }
}

function paramsOf(names: readonly string[], values: readonly string[]): Params {
  if (names.length === 0) return NO_PARAMS;
  const params: Record<string, string> = {};
  for (let i = 0; i < names.length; i++) params[names[i]!] = values[i]!;
  return params;
}

/** The decoded segment; undefined if the segment is not validly encoded. */
function decoded(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

function resourceOf(path: string, routes: readonly Route[]): Resource {
  const methods = new Map<string, Route>();
  const allowed: string[] = [];
  for (const route of routes) {
    if (methods.has(route.method)) throw new Error(`${route.method} ${path} is in the table twice`);
    methods.set(route.method, route);
    allowed.push(route.method);
    if (route.method !== 'GET') continue;
    methods.set('HEAD', route);
    allowed.push('HEAD');
  }
  const { errors } = routes[0]!;
  if (routes.some((route) => route.errors.name !== errors.name))
    throw new Error(`the routes of ${path} write errors in different formats`);
  if (routes.some((route) => route.authenticator !== routes[0]!.authenticator))
    throw new Error(`the routes of ${path} have different authenticators`);
  const [access] = routes.map((route) => route.access).sort((a, b) => STRICTNESS[a] - STRICTNESS[b]);
  return {
    path,
    methods,
    allow: [...allowed, 'OPTIONS'].join(', '),
    // HEAD needs no permission (Fetch: CORS-safelisted methods).
    corsMethods: [...allowed.filter((method) => method !== 'HEAD'), 'OPTIONS'].join(', '),
    access: access!,
    errors,
    authenticator: routes[0]!.authenticator,
    missing: undefined,
  };
}

const absent = ({ below, access, errors, missing }: Fallback): Resource => ({
  path: below,
  methods: new Map(),
  allow: '',
  corsMethods: '',
  access,
  errors,
  authenticator: undefined,
  missing,
});
