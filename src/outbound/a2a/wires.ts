import type { Binding } from '../../protocol/a2a/model.js';
import { GrpcWire } from './grpc-wire.js';
import { JsonRpcWire } from './jsonrpc-wire.js';
import { RestWire } from './rest-wire.js';
import type { WireMaker } from './wire.js';

/** The bindings the gateway can call an agent by. */
export const WIRES: Partial<Record<Binding, WireMaker>> = {
  JSONRPC: (seat) => new JsonRpcWire(seat),
  'HTTP+JSON': (seat) => new RestWire(seat),
  GRPC: (seat) => new GrpcWire(seat),
};
