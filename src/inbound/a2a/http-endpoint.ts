import { type Admission, agentTarget } from '../../core/admission.js';
import { ProtocolError } from '../../protocol/errors.js';
import { namedParameter } from '../http/named-parameter.js';
import type { Fallback, Parameter, Route } from '../http/route.js';
import { restErrors } from './error-response.js';
import type { HttpBinding, HttpBindingOptions } from './http-binding.js';
import { JsonRpcBinding } from './jsonrpc-binding.js';
import { BASES, ROOTS } from './paths.js';
import { RestBinding } from './rest-binding.js';
import { StreamHost, type StreamTimes } from './streams.js';

export interface A2aHttpEndpointOptions extends Omit<HttpBindingOptions, 'streams'> {
  /** Finds agents by their names. */
  readonly agents: { get(name: string): unknown };
  readonly times?: StreamTimes;
}

/** The agents over HTTP: each at `/a2a/<name>`, the routing agent at `/a2a`. */
export class A2aHttpEndpoint {
  private readonly streams: StreamHost;
  private readonly bindings: readonly HttpBinding[];
  private calls = 0;

  constructor(private readonly options: A2aHttpEndpointOptions) {
    this.streams = new StreamHost(options.times);
    const bindingOptions: HttpBindingOptions = { ...options, streams: this.streams };
    this.bindings = [new JsonRpcBinding(bindingOptions), new RestBinding(bindingOptions)];
  }

  /** The number of open requests, including streams. */
  get busy(): number {
    return this.calls;
  }

  /** Ends all streams; their tasks continue, and clients may subscribe again. */
  endStreams(): void {
    this.streams.endAll();
  }

  routes(): Route[] {
    const routes = BASES.flatMap((base) => this.bindings.flatMap((binding) => binding.routes(base)));
    return routes.map((route) => ({ ...route, handle: this.counted((context) => route.handle(context)) }));
  }

  private counted(handle: Route['handle']): Route['handle'] {
    return async (context) => {
      this.calls++;
      try {
        await handle(context);
      } finally {
        this.calls--;
      }
    };
  }

  /** The parameter `agent`: a registered name, or the same name in another case. */
  agent(admission: Pick<Admission, 'sees'>): Parameter {
    return namedParameter({
      find: (name) => [name, name.toLowerCase()].find((each) => this.options.agents.get(each) !== undefined),
      targetOf: agentTarget,
      missing: (path) => new ProtocolError('agent_not_found', `There is no agent at ${path}`),
      admission,
    });
  }

  /** The error formats for unknown paths, under an agent or not. */
  fallbacks(): Fallback[] {
    const missing = (path: string): ProtocolError => new ProtocolError('not_found', `Nothing is served at ${path}`);
    const errors = restErrors(this.options.profile);
    return ROOTS.map((below) => ({ below, access: 'user', errors, missing }));
  }
}
