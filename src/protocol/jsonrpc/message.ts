import { isUtf8 } from 'node:buffer';
import { ProtocolError } from '../errors.js';
import { between, type Gap, type GappedText, NO_GAPS } from './gapped-message.js';
import { type StructureLimits, structureFault } from './json-depth-limit.js';
import { gathered, joined, type Piece, quoted } from './json-pieces.js';
import { isObject, type JsonObject, type JsonValue, RawObject } from './raw.js';
import { elements } from './scan.js';

export type Id = string | number;

export interface RpcRequest {
  readonly kind: 'request';
  readonly id: Id;
  readonly method: string;
  readonly params: RawObject;
}

export interface RpcNotification {
  readonly kind: 'notification';
  readonly method: string;
  readonly params: RawObject;
}

export interface RpcErrorObject {
  readonly code: number;
  readonly message: string;
  readonly data?: JsonValue;
}

export interface RpcResponse {
  readonly kind: 'response';
  /** Absent if the peer could not read the id of the request (BASE-05). */
  readonly id: Id | undefined;
  readonly result?: RawObject;
  readonly error?: RpcErrorObject;
}

export type RpcMessage = RpcRequest | RpcNotification | RpcResponse;

const NO_PARAMS = RawObject.from({});

export function isId(value: unknown): value is Id {
  return typeof value === 'string' || (typeof value === 'number' && Number.isSafeInteger(value));
}

function invalid(message: string, id?: unknown): ProtocolError {
  return new ProtocolError('invalid_request', message, isId(id) ? { id } : {});
}

/** The content of one body or line: a message, or a batch in which each item is a message or an error. */
export type Incoming = RpcMessage | { readonly kind: 'batch'; readonly items: (RpcMessage | ProtocolError)[] };

/** Reads a peer's bytes. Throws `parse_error` or `invalid_request`, with the id if it is readable. */
export function readIncoming(source: Buffer, limits: StructureLimits): Incoming {
  if (source.length === 0) throw new ProtocolError('parse_error', 'Empty request body');
  if (!isUtf8(source)) throw new ProtocolError('parse_error', 'The body is not valid UTF-8');
  const fault = structureFault(source, limits);
  if (fault !== undefined) throw new ProtocolError('parse_error', `The body ${fault}`);
  let value: JsonValue;
  try {
    value = JSON.parse(source.toString('utf8')) as JsonValue;
  } catch {
    throw new ProtocolError('parse_error', 'The body is not valid JSON');
  }
  if (!Array.isArray(value)) return toMessage(source, value);
  const parts = elements(source);
  return {
    kind: 'batch',
    items: value.map((item, index) => {
      try {
        return toMessage(parts[index]!, item);
      } catch (error) {
        if (error instanceof ProtocolError) return error;
        throw error;
      }
    }),
  };
}

/** The objects inside a message that the gateway inspects. */
const IN_REQUEST = ['params', '_meta'];
const IN_REPLY = ['result', '_meta'];

function toMessage(source: Buffer, value: JsonValue): RpcMessage {
  if (!isObject(value)) throw invalid('A message must be a JSON object');
  const raw = RawObject.at(source, 0, IN_REQUEST);
  const twice = raw.duplicateKey();
  if (twice !== undefined) throw invalid(`The member ${JSON.stringify(twice)} appears twice`);
  const { id, method, params, jsonrpc } = value;
  if (jsonrpc !== '2.0') throw invalid('"jsonrpc" must be "2.0"', id);
  if (method === undefined) return toResponse(raw, value);
  if (typeof method !== 'string') throw invalid('"method" must be a string', id);
  if (raw.has('result') || raw.has('error')) throw invalid('A request must not have "result" or "error"', id);
  if (params !== undefined && !isObject(params)) throw invalid('"params" must be an object', id);
  const rawParams = params === undefined ? NO_PARAMS : raw.object('params')!.withValue(params);
  const twiceInParams = rawParams.duplicateKey();
  if (twiceInParams !== undefined) throw invalid(`The parameter ${JSON.stringify(twiceInParams)} appears twice`, id);
  // `_meta` decides the revision of a message, so a duplicate key in `_meta` would be ambiguous too.
  const twiceInMeta = rawParams.object('_meta')?.duplicateKey();
  if (twiceInMeta !== undefined) throw invalid(`The _meta key ${JSON.stringify(twiceInMeta)} appears twice`, id);
  if (!raw.has('id')) return { kind: 'notification', method, params: rawParams };
  if (!isId(id)) throw invalid('"id" must be a string or an integer');
  return { kind: 'request', id, method, params: rawParams };
}

function toResponse(raw: RawObject, value: JsonObject): RpcResponse {
  const { id, result, error } = value;
  if ((result === undefined) === (error === undefined)) {
    throw invalid('A message needs a "method", or exactly one of "result" and "error"', id);
  }
  if (id !== undefined && id !== null && !isId(id)) throw invalid('"id" must be a string or an integer');
  const known = isId(id) ? id : undefined;
  if (error !== undefined) return { kind: 'response', id: known, error: readError(error, id) };
  if (!isObject(result)) throw invalid('"result" must be an object', id);
  return { kind: 'response', id: known, result: raw.object('result')!.withValue(result) };
}

function readError(error: JsonValue, id: unknown): RpcErrorObject {
  if (!isObject(error)) throw invalid('"error" must be an object', id);
  const { code, message, data } = error;
  if (typeof code !== 'number' || !Number.isInteger(code)) throw invalid('"error.code" must be an integer', id);
  return { code, message: typeof message === 'string' ? message : '', ...(data !== undefined && { data }) };
}

/**
 * Reads a message of an upstream from its bytes. A result is located but not parsed; all other messages are small and
 * parsed.
 */
export function readReply(source: Buffer, gaps: readonly Gap[] = NO_GAPS): RpcMessage {
  const raw = RawObject.whole(source, IN_REPLY, gaps);
  if (raw.has('method') || !raw.has('result')) {
    const whole = gaps.length === 0 ? source : raw.bytes();
    return toMessage(whole, JSON.parse(whole.toString('utf8')) as JsonValue);
  }
  const id = raw.get('id');
  const result = raw.object('result');
  if (!result) throw invalid('"result" must be an object', id);
  if (raw.has('error')) throw invalid('A response must not have both "result" and "error"', id);
  return { kind: 'response', id: isId(id) ? id : undefined, result };
}

/**
 * The messages in one event or body of an upstream: one message, or a JSON array of several, which 2025-03-26 servers
 * may send.
 */
export function readReplies(source: Buffer | GappedText): RpcMessage[] {
  const { text, gaps } = Buffer.isBuffer(source) ? { text: source, gaps: NO_GAPS } : source;
  let at = 0;
  while (at < text.length && text[at]! <= 0x20) at++;
  if (text[at] !== 0x5b) return [readReply(text, gaps)];
  const whole = joined(between(text, gaps, 0, text.length));
  return elements(whole, at).map((element) => readReply(element));
}

/** The beginning of a message, up to and including its id. */
const headOf = (id: Id | null): string =>
  `{"jsonrpc":"2.0","id":${typeof id === 'number' ? String(id) : JSON.stringify(id)}`;

export function writeRequest(id: Id, method: string, params: RawObject | undefined): Buffer {
  const head = `${headOf(id)},"method":${quoted(method)}`;
  if (!params) return Buffer.from(`${head}}`);
  return joined([`${head},"params":`, ...params.pieces(), '}']);
}

export function writeNotification(method: string, params?: JsonObject | RawObject): Buffer {
  const head = `{"jsonrpc":"2.0","method":${JSON.stringify(method)}`;
  if (!params) return Buffer.from(`${head}}`);
  const body = params instanceof RawObject ? params.bytes().toString('utf8') : JSON.stringify(params);
  return Buffer.from(`${head},"params":${body}}`);
}

/** The beginning of a response, up to its result. */
export const resultHead = (id: Id): string => `${headOf(id)},"result":`;

/** A response with the given result; long pieces are not copied. */
export function writeResult(id: Id, result: readonly Piece[]): Buffer[] {
  return gathered([resultHead(id), ...result, '}']);
}

export function writeError(id: Id | null, error: RpcErrorObject): Buffer {
  return Buffer.from(`${headOf(id)},"error":${JSON.stringify(error)}}`);
}
