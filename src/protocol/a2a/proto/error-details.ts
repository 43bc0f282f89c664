/** The details of a gRPC error: translates between `google.rpc.Status` in `grpc-status-details-bin` and JSON. */
import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { ERROR_INFO } from '../wire-errors.js';
import { Codec } from './message-codec.js';

const codec = new Codec({
  enums: {},
  messages: {
    Status: { code: '1 int32', message: '2 string', details: '3 Any[]' },
    Any: { typeUrl: '1 string', value: '2 bytes' },
    ErrorInfo: { reason: '1 string', domain: '2 string', metadata: '3 <string>' },
  },
});

export const STATUS_DETAILS = 'grpc-status-details-bin';

/** Drops details of other types, because their JSON does not determine their binary form. */
export function encodeStatus(code: number, message: string, details: readonly JsonObject[]): Buffer {
  const packed = details
    .filter((detail) => detail['@type'] === ERROR_INFO)
    .map(({ '@type': type, ...info }) => ({
      typeUrl: type as string,
      value: codec.encode('ErrorInfo', info).toString('base64'),
    }));
  return codec.encode('Status', { code, message, details: packed });
}

/** The readable details, each with its `@type`. Empty for bytes that are not a status. */
export function decodeDetails(source: Buffer): JsonObject[] {
  try {
    const { details } = codec.decode('Status', source);
    return (Array.isArray(details) ? details : []).flatMap((each) => detailOf(each as JsonObject));
  } catch {
    return [];
  }
}

function detailOf({ typeUrl, value }: JsonObject): JsonObject[] {
  if (typeUrl !== ERROR_INFO) return [];
  const info = codec.decode('ErrorInfo', Buffer.from(String(value ?? ''), 'base64'));
  return [{ '@type': ERROR_INFO, ...(info as Record<string, JsonValue>) }];
}
