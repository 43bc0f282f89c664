import { isUtf8 } from 'node:buffer';
import { ProtocolError } from '../../protocol/errors.js';
import { type StructureLimits, structureFault } from '../../protocol/jsonrpc/json-depth-limit.js';
import { type JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';

/**
 * Reads the object in a body, with the same checks as for a JSON-RPC body. An empty body or `null` is an empty object
 * (S-74).
 */
export function readObject(source: Buffer, limits: StructureLimits): RawObject {
  if (!isUtf8(source)) throw new ProtocolError('parse_error', 'The body is not valid UTF-8');
  const fault = structureFault(source, limits);
  if (fault !== undefined) throw new ProtocolError('parse_error', `The body ${fault}`);
  const text = source.toString('utf8');
  if (text.trim() === '') return RawObject.from({});
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch {
    throw new ProtocolError('parse_error', 'The body is not valid JSON');
  }
  if (value === null) return RawObject.from({});
  if (typeof value !== 'object' || Array.isArray(value))
    throw new ProtocolError('invalid_request', 'The body must be a JSON object');
  const object = RawObject.at(source).withValue(value);
  const twice = object.duplicateKey();
  if (twice !== undefined)
    throw new ProtocolError('invalid_request', `The member ${JSON.stringify(twice)} appears twice`);
  return object;
}

/** The members of a request that the gateway bases decisions on. */
const DECISIVE = ['message', 'configuration', 'metadata'];

/**
 * The text of a request, if it may be passed on unchanged. Undefined if a checked member appears twice, because the
 * agent might read the other value.
 */
export function passableText(params: RawObject): string | undefined {
  for (const key of DECISIVE) if (params.object(key)?.duplicateKey() !== undefined) return undefined;
  return params.bytes().toString('utf8');
}
