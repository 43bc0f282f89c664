import type { Events, Exchange, Passed } from '../../core/a2a/agent.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { Binding, Operation, RequestOf, ResultOf, Streaming } from '../../protocol/a2a/model.js';
import { JsonRpcWire } from './jsonrpc-wire.js';
import { RestWire } from './rest-wire.js';
import type { Wire, WireMaker, WireOptions } from './wire.js';

/** The supported bindings for calls to agents. */
export const WIRES: Partial<Record<Binding, WireMaker>> = {
  JSONRPC: (options) => new JsonRpcWire(options),
  'HTTP+JSON': (options) => new RestWire(options),
  GRPC: (options) => new LateGrpcWire(options),
};

/** Loads the gRPC library at the first use, because loading takes memory and time. */
class LateGrpcWire implements Wire {
  private loading: Promise<Wire> | undefined;

  constructor(private readonly options: WireOptions) {}

  private wire(): Promise<Wire> {
    this.loading ??= import('./grpc-wire.js').then(({ GrpcWire }) => new GrpcWire(this.options));
    return this.loading;
  }

  async call<O extends Operation>(
    operation: O,
    request: Passed<RequestOf<O>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Passed<ResultOf<O>>> {
    return (await this.wire()).call(operation, request, exchange, credential);
  }

  async stream(
    operation: Streaming,
    request: Passed<RequestOf<Streaming>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Events> {
    return (await this.wire()).stream(operation, request, exchange, credential);
  }

  close(): void {
    this.loading?.then((wire) => wire.close?.()).catch(() => {});
  }
}
