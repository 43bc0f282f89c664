/** Encodes outcomes for messages between replicas. */
import { ProtocolError, type Reason, UpstreamRpcError } from '../../protocol/errors.js';
import { type JsonObject, type JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';
import type { InputRequests } from '../../protocol/mcp/model.js';
import { failed, type Outcome } from '../gateway.js';

/**
 * Encodes an outcome. A parked call cannot be encoded: it stays with its owner, and `parked` is the id of the call
 * there.
 */
export function writeOutcome(outcome: Outcome, parked?: string): JsonObject {
  switch (outcome.kind) {
    case 'complete':
    case 'task':
      return { kind: outcome.kind, result: outcome.result.bytes().toString('utf8') };
    case 'input_required':
      return {
        kind: outcome.kind,
        ...(outcome.inputRequests && { inputRequests: outcome.inputRequests }),
        ...(outcome.requestState !== undefined && { requestState: outcome.requestState }),
        ...(parked !== undefined && { parked }),
      };
    case 'error':
      return { kind: 'error', error: writeFault(outcome.error) };
  }
}

export function writeFault(error: ProtocolError | UpstreamRpcError): JsonObject {
  return error instanceof ProtocolError
    ? { reason: error.reason, message: error.message, detail: error.detail as JsonObject }
    : { code: error.code, message: error.message, data: (error.data ?? null) as JsonValue };
}

export function readFault(value: JsonObject): ProtocolError | UpstreamRpcError {
  const { reason, code, message, detail, data } = value;
  if (typeof reason === 'string') return new ProtocolError(reason as Reason, String(message), detail as object);
  return new UpstreamRpcError(Number(code), String(message), data ?? undefined);
}

export function readOutcome(value: JsonObject): { readonly outcome: Outcome; readonly parked: string | undefined } {
  const parked = typeof value['parked'] === 'string' ? value['parked'] : undefined;
  switch (value['kind']) {
    case 'complete':
    case 'task':
      return { outcome: { kind: value['kind'], result: RawObject.at(Buffer.from(String(value['result']))) }, parked };
    case 'input_required':
      return {
        outcome: {
          kind: 'input_required',
          inputRequests: value['inputRequests'] as InputRequests | undefined,
          requestState: value['requestState'] as string | undefined,
        },
        parked,
      };
    default:
      return { outcome: failed(readFault(value['error'] as JsonObject)), parked };
  }
}
