import { ProtocolError } from '../../protocol/errors.js';
import type { Fallback, Parameter, Route, Visit } from '../http/route.js';
import { JsonRpcBinding } from './jsonrpc.js';
import { BASES, EXTENDED_CARD_PATHS, ROOTS, RPC_PATHS, RPC_STREAM_PATH, restPaths } from './paths.js';
import { A2A_RPC_ERRORS, restErrors } from './refusals.js';
import { RestBinding } from './rest.js';
import { StreamHost, type StreamTimes } from './streams.js';
import type { HttpParts } from './visit.js';

export interface A2aDoorOptions extends Omit<HttpParts, 'streams'> {
  /** Says which agents there are. */
  readonly agents: { get(name: string): unknown };
  readonly times?: StreamTimes;
}

/** The agents over HTTP: each at `/a2a/<name>`, and at `/a2a` the one that stands in front of them all. */
export class A2aDoor {
  private readonly streams: StreamHost;
  private readonly rpc: JsonRpcBinding;
  private readonly rest: RestBinding;
  private calls = 0;

  constructor(private readonly options: A2aDoorOptions) {
    this.streams = new StreamHost(options.times);
    const parts: HttpParts = { ...options, streams: this.streams };
    this.rpc = new JsonRpcBinding(parts);
    this.rest = new RestBinding(parts);
  }

  /** Requests that are under way, streams among them. */
  get busy(): number {
    return this.calls;
  }

  /** Lets go of all streams; their tasks go on, and their clients may subscribe again. */
  endStreams(): void {
    this.streams.endAll();
  }

  routes(): Route[] {
    return BASES.flatMap((base) => [...this.rpcRoutes(base), ...this.restRoutes(base)]);
  }

  private rpcRoutes(base: string): Route[] {
    const route = { access: 'user', errors: A2A_RPC_ERRORS } as const;
    const post = (path: string, streams: boolean): Route => ({
      ...route,
      method: 'POST',
      path: base + path,
      description: streams ? 'A2A over JSON-RPC, answered by a stream' : 'A2A over JSON-RPC',
      handle: this.counted((visit) => this.rpc.post(visit, streams)),
    });
    return [...RPC_PATHS.map((path) => post(path, false)), post(RPC_STREAM_PATH, true)];
  }

  private restRoutes(base: string): Route[] {
    const { profile } = this.options;
    const [errors, olderErrors] = [restErrors(profile), restErrors(profile, true)];
    return [
      ...restPaths(base).map(
        ({ method, path, operation, v1 }): Route => ({
          method,
          path,
          access: 'user',
          errors: v1 ? olderErrors : errors,
          description: `A2A over HTTP+JSON: ${operation}`,
          handle: this.counted((visit) => this.rest.handle(visit, operation, v1)),
        }),
      ),
      ...EXTENDED_CARD_PATHS.map(
        (path): Route => ({
          method: 'GET',
          path: base + path,
          access: 'user',
          errors,
          description: 'A2A up to 0.2: the extended card',
          handle: this.counted((visit) => this.rest.extendedCard(visit)),
        }),
      ),
    ];
  }

  private counted(handle: (visit: Visit) => Promise<void>): Route['handle'] {
    return async (visit) => {
      this.calls++;
      try {
        await handle(visit);
      } finally {
        this.calls--;
      }
    };
  }

  /** The parameter `agent`: names are written as they are registered, or in any case. */
  readonly agent: Parameter = (name, path) => {
    const known = this.named(name);
    if (known === undefined) throw noAgent(path);
    return known;
  };

  private named(name: string): string | undefined {
    return [name, name.toLowerCase()].find((each) => this.options.agents.get(each) !== undefined);
  }

  /** Paths beneath an agent that mean nothing, and paths beneath none. */
  fallbacks(): Fallback[] {
    const missing = (root: string, path: string): ProtocolError => {
      const [name = ''] = path.slice(root.length + 1).split('/');
      return name === '' || this.named(name) !== undefined
        ? new ProtocolError('not_found', `Nothing is served at ${path}`)
        : noAgent(path);
    };
    const errors = restErrors(this.options.profile);
    return ROOTS.map((below) => ({ below, access: 'user', errors, missing: (path) => missing(below, path) }));
  }
}

const noAgent = (path: string): ProtocolError => new ProtocolError('agent_not_found', `There is no agent at ${path}`);
