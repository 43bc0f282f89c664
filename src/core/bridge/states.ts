import { createHash } from 'node:crypto';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';
import { isObject } from '../../protocol/mcp/model.js';
import type { Caller } from '../caller.js';
import { type Seal, SealBroken } from '../seal.js';
import type { Ticket } from './parking.js';

/** What a `requestState` handed to a caller stands for. */
export type State =
  /** A modern server's own state, to be given back to it byte for byte; absent stays absent (BR-25). */
  | { readonly kind: 'relay'; readonly server: string; readonly state?: string }
  /** A call that waits at a server of the handshake era. */
  | { readonly kind: 'parked'; readonly server: string; readonly ticket: Ticket }
  /** Nothing was executed yet: the call is made again from the start. */
  | { readonly kind: 'again'; readonly server: string; readonly after: readonly string[] }
  /** The gateway itself asked for approval, and goes on from what it was given before. */
  | { readonly kind: 'approval'; readonly nonce: string };

/** Seals states to the caller and to the very request they belong to (MRTR-05). */
export class States {
  constructor(
    private readonly seal: Seal,
    /** How long a state is good, in milliseconds. */
    readonly ttl: number,
  ) {}

  close(caller: Caller, method: string, params: RawObject, state: State): string {
    return this.seal.close('state', caller.principal.name, [digest(method, params), state], this.ttl);
  }

  open(caller: Caller, method: string, params: RawObject, sealed: string): State {
    let opened: [string, State];
    try {
      opened = this.seal.open('state', caller.principal.name, sealed) as [string, State];
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      throw new ProtocolError('invalid_state', `The request state cannot be used: ${error.message}`);
    }
    if (opened[0] !== digest(method, params)) {
      throw new ProtocolError('invalid_state', 'The request state belongs to another request');
    }
    return opened[1];
  }
}

/** Of what identifies a request across its rounds: the method, the target and the arguments, however they are written. */
function digest(method: string, params: RawObject): string {
  const { name, uri, arguments: args } = params.value();
  return createHash('sha256')
    .update(JSON.stringify([method, name ?? null, uri ?? null, canonical(args ?? null)]))
    .digest('base64url');
}

function canonical(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(canonical);
  if (!isObject(value)) return value;
  return Object.keys(value)
    .sort()
    .map((key) => [key, canonical(value[key] ?? null)]);
}
