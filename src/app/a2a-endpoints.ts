import { formatListen } from '../config/address-fields.js';
import { CallbackEndpoint } from '../inbound/a2a/callback-endpoint.js';
import { CardEndpoint } from '../inbound/a2a/card-endpoint.js';
import { DeadLetterEndpoint } from '../inbound/a2a/dead-letter-endpoint.js';
import { restErrors } from '../inbound/a2a/error-response.js';
import type { GrpcEndpoint } from '../inbound/a2a/grpc-endpoint.js';
import { A2aHttpEndpoint } from '../inbound/a2a/http-endpoint.js';
import type { AgentEndpoints } from '../inbound/http/routes.js';
import { DIALECTS } from '../protocol/a2a/index.js';
import type { Runtime } from './runtime.js';

export interface A2aEndpointsOptions {
  readonly runtime: Runtime;
  /** Called when the gateway itself fails while it handles a request. */
  failed(error: unknown, path: string, requestId?: string): void;
}

/** The inbound adapters of A2A, over HTTP and gRPC. */
export class A2aEndpoints {
  readonly endpoints: AgentEndpoints;
  private readonly http: A2aHttpEndpoint;
  private grpc: GrpcEndpoint | undefined;

  constructor(private readonly options: A2aEndpointsOptions) {
    const { runtime, failed } = options;
    const { authenticator, state, a2a } = runtime;
    const { limits, a2a: settings } = runtime.config;
    const { dispatcher, directory, cards, keys, callbacks, records, deadLetters } = a2a;
    const { errorProfile: profile, publicCards } = settings;
    const { refused } = this;
    this.http = new A2aHttpEndpoint({ gateway: dispatcher, agents: directory, limits, profile, failed, refused });
    const card = new CardEndpoint({
      cards,
      gateway: dispatcher,
      keys,
      publicCards,
      identified: authenticator.enabled,
      profile,
    });
    const dead = new DeadLetterEndpoint(deadLetters);
    const push = new CallbackEndpoint({ callbacks, records, dispatcher, dialects: DIALECTS, bus: state.bus, limits });
    this.endpoints = {
      routes: [...card.routes(), ...dead.routes(restErrors(profile)), ...push.routes(), ...this.http.routes()],
      fallbacks: this.http.fallbacks(),
      agent: this.http.agent(runtime.mcp.admission),
    };
  }

  private readonly refused = (error: unknown): void => this.options.runtime.telemetry.refused(error, 'a2a');

  /** Opens the gRPC port if one is configured; returns its address. */
  async listen(): Promise<string | undefined> {
    const { runtime, failed } = this.options;
    const { grpc, limits, a2a } = runtime.config;
    if (!grpc.listen) return undefined;
    const { host, port } = grpc.listen;
    // Loaded on demand: the gRPC library is the largest dependency.
    const { GrpcEndpoint } = await import('../inbound/a2a/grpc-endpoint.js');
    this.grpc = new GrpcEndpoint({
      gateway: runtime.a2a.dispatcher,
      authenticator: runtime.authenticator,
      recheck: runtime.authentication.recheck,
      refusals: runtime.refusals,
      profile: a2a.errorProfile,
      limits,
      failed,
      refused: this.refused,
    });
    const bound = await this.grpc.listen(host, port);
    return formatListen({ host, port: bound.port });
  }

  /** The number of HTTP calls under way. */
  get busy(): number {
    return this.http.busy;
  }

  /** Ends streams that wait for events, so that clients reopen them at another replica. */
  endStreams(): void {
    this.http.endStreams();
  }

  /** Closes the gRPC port once its calls have ended, or when `force` resolves. */
  async close(force: Promise<unknown>): Promise<void> {
    await this.grpc?.close(force);
  }
}
