/**
 * Errors on A2A's wires. The reason identifies an error; without a reason the code, and without a code the status
 * (C-9).
 */

import {
  ERRORS,
  type ErrorRow,
  GRPC_STATUSES,
  type GrpcStatus,
  ProtocolError,
  type Reason,
  UpstreamRpcError,
} from '../errors.js';
import { isObject, type JsonObject, type JsonValue } from '../jsonrpc/raw.js';
import type { DialectId, ErrorProfile, Version } from './dialect.js';
import { PARLEY } from './model.js';

export const ERROR_INFO = 'type.googleapis.com/google.rpc.ErrorInfo';
const STRUCT = 'type.googleapis.com/google.protobuf.Struct';
const VALUE = 'type.googleapis.com/google.protobuf.Value';
const A2A_DOMAIN = 'a2a-protocol.org';
const OWN_DOMAIN = new URL(PARLEY).hostname;

/** The reasons that A2A itself defines, with A2A's names for them. */
const A2A_NAMES: { readonly [R in Reason]?: string } = {
  task_not_found: 'TASK_NOT_FOUND',
  task_not_cancelable: 'TASK_NOT_CANCELABLE',
  push_not_supported: 'PUSH_NOTIFICATION_NOT_SUPPORTED',
  unsupported_operation: 'UNSUPPORTED_OPERATION',
  content_type_not_supported: 'CONTENT_TYPE_NOT_SUPPORTED',
  invalid_agent_response: 'INVALID_AGENT_RESPONSE',
  extended_card_not_configured: 'EXTENDED_AGENT_CARD_NOT_CONFIGURED',
  extension_required: 'EXTENSION_SUPPORT_REQUIRED',
  unsupported_version: 'VERSION_NOT_SUPPORTED',
  invalid_params: 'INVALID_PARAMS',
  invalid_request: 'INVALID_REQUEST',
  method_not_found: 'METHOD_NOT_FOUND',
  parse_error: 'PARSE_ERROR',
};
const REASONS = new Map(Object.entries(A2A_NAMES).map(([reason, name]) => [name, reason as Reason]));
/** Cards before 1.0 used this name. */
REASONS.set('AUTHENTICATED_EXTENDED_CARD_NOT_CONFIGURED', 'extended_card_not_configured');
REASONS.set('PUSH_NOTIFICATIONS_NOT_SUPPORTED', 'push_not_supported');

/** The reason for each JSON-RPC code of peers of 0.2 and later. */
const CODES = new Map<number, Reason>([
  [-32700, 'parse_error'],
  [-32600, 'invalid_request'],
  [-32601, 'method_not_found'],
  [-32602, 'invalid_params'],
  [-32001, 'task_not_found'],
  [-32002, 'task_not_cancelable'],
  [-32003, 'push_not_supported'],
  [-32004, 'unsupported_operation'],
  [-32005, 'content_type_not_supported'],
  [-32006, 'invalid_agent_response'],
  [-32007, 'extended_card_not_configured'],
  [-32008, 'extension_required'],
  [-32009, 'unsupported_version'],
]);

/** The reason for each code of 0.1, whose -32006 to -32011 have other meanings (§3.10). */
const CODES_0_1 = new Map<number, Reason>([
  ...[...CODES].filter(([code]) => code > -32006 || code <= -32600),
  [-32006, 'unsupported_operation'],
  [-32007, 'upstream_unauthorized'],
  [-32008, 'upstream_unauthorized'],
  [-32009, 'unsupported_operation'],
  [-32010, 'upstream_rate_limited'],
  [-32011, 'upstream_unavailable'],
]);

/** The codes of 0.1 for reasons whose usual code has another meaning in 0.1, or none. */
const CODES_TO_0_1: { readonly [R in Reason]?: number } = {
  invalid_agent_response: -32603,
  extended_card_not_configured: -32004,
  extension_required: -32004,
  unsupported_version: -32004,
  unauthorized: -32007,
  forbidden: -32008,
  rate_limited: -32010,
  upstream_rate_limited: -32010,
  overloaded: -32011,
  upstream_unavailable: -32011,
};

export interface WireError {
  code: number;
  message: string;
  data?: JsonValue;
}

/** The reason, the table row and the message of any error. An unexpected error gets the reason `internal`. */
function summaryOf(error: unknown): { reason: Reason | undefined; row: ErrorRow; message: string } {
  if (error instanceof ProtocolError) return { reason: error.reason, row: error.row, message: error.message };
  if (error instanceof UpstreamRpcError) {
    return { reason: undefined, row: ERRORS.upstream_error, message: error.message };
  }
  return { reason: 'internal', row: ERRORS.internal, message: 'internal error' };
}

/** `ErrorInfo` and all further details, each with its `@type`. */
export function errorDetails(error: unknown): JsonObject[] {
  const foreign = foreignOf(error);
  if (isTyped(foreign) && foreign.some(isErrorInfo)) return foreign;
  const { reason } = summaryOf(error);
  const name = (reason && A2A_NAMES[reason]) ?? (reason ?? 'agent_error').toUpperCase();
  const own: Record<string, unknown> = error instanceof ProtocolError ? error.data : {};
  const { reason: _reason, ...metadata } = own;
  const info = {
    '@type': ERROR_INFO,
    reason: name,
    domain: reason && A2A_NAMES[reason] ? A2A_DOMAIN : OWN_DOMAIN,
    // The proto defines the metadata as a map of strings.
    metadata: Object.fromEntries(Object.entries(metadata).map(([key, value]) => [key, asText(value)])),
  };
  if (foreign === undefined || foreign === null) return [info];
  return [info, ...(isTyped(foreign) ? foreign : [wrapped(foreign)])];
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));

function foreignOf(error: unknown): JsonValue | undefined {
  if (error instanceof ProtocolError) return error.detail.foreign as JsonValue | undefined;
  if (error instanceof UpstreamRpcError) return error.data as JsonValue | undefined;
  return undefined;
}

const isTyped = (value: JsonValue | undefined): value is JsonObject[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every((item) => isObject(item) && typeof item['@type'] === 'string');

const isErrorInfo = (item: JsonValue | undefined): item is JsonObject =>
  isObject(item) && item['@type'] === ERROR_INFO && typeof item['reason'] === 'string';

const wrapped = (data: JsonValue): JsonObject => ({ '@type': isObject(data) ? STRUCT : VALUE, value: data });

/** An error in JSON-RPC. */
export function writeRpcError(error: unknown, version: Version): WireError {
  const { reason, row, message } = summaryOf(error);
  if (version === '1.0') {
    return { code: error instanceof UpstreamRpcError ? error.code : row.a2a, message, data: errorDetails(error) };
  }
  const known = version === '0.1' && reason ? CODES_TO_0_1[reason] : undefined;
  const code = known ?? (error instanceof UpstreamRpcError ? codeFor(error.code, version) : row.a2a);
  const data = plainData(error);
  return { code, message, ...(data !== undefined && { data }) };
}

/** Passes on the peer's own code, unless that code has another meaning in this version. */
function codeFor(code: number, version: Version): number {
  if (version === '0.1' && code <= -32006 && code >= -32011) return -32603;
  return code === -32010 ? -32004 : code;
}

/** `data` for 0.x versions, which allow any JSON value: the peer's own data if present, otherwise the gateway's. */
function plainData(error: unknown): JsonValue | undefined {
  const foreign = foreignOf(error);
  if (isTyped(foreign)) {
    const struct = foreign.find((item) => item['@type'] === STRUCT || item['@type'] === VALUE);
    if (struct) return struct['value'];
    const info = foreign.find(isErrorInfo);
    if (isObject(info?.['metadata']) && Object.keys(info['metadata']).length > 0) return info['metadata'];
    return info ? { reason: info['reason'] } : undefined;
  }
  if (foreign !== undefined && foreign !== null) return foreign;
  return error instanceof ProtocolError ? (error.data as JsonObject) : undefined;
}

/** An error in HTTP+JSON, with its HTTP headers. */
export function restError(
  error: unknown,
  dialect: DialectId,
  profile: ErrorProfile,
): { status: number; body: JsonObject; headers: Readonly<Record<string, string>> } {
  const { row, message } = summaryOf(error);
  const status = (profile === '1.0.0' ? row.rest100 : undefined) ?? row.rest;
  const headers = error instanceof ProtocolError ? (error.detail.headers ?? {}) : {};
  if (dialect !== '1.0') return { status, body: { ...writeRpcError(error, '0.3') }, headers };
  const body = { code: status, status: grpcStatus(row, profile), message, details: errorDetails(error) };
  return { status, body: { error: body }, headers };
}

/** An error in gRPC: its status number, and the details for `grpc-status-details-bin`. */
export function grpcError(
  error: unknown,
  profile: ErrorProfile,
): { code: number; message: string; details: JsonObject[] } {
  const { row, message } = summaryOf(error);
  return { code: GRPC_STATUSES.indexOf(grpcStatus(row, profile)), message, details: errorDetails(error) };
}

const grpcStatus = (row: ErrorRow, profile: ErrorProfile): GrpcStatus =>
  (profile === '1.0.0' ? row.grpc100 : undefined) ?? row.grpc;

/**
 * Translates an agent's error of any form: a JSON-RPC error, `{error: google.rpc.Status}`, problem+json, a bare `{code,
 * message}`, FastAPI's `{detail}`, or a status without a body.
 */
export function readError(wire: JsonValue, version: Version, status?: number): Error {
  const found = unfolded(wire);
  const { code, message, data } = found;
  const text = message ?? (status === undefined ? 'the agent answered with an error' : `the agent answered ${status}`);
  const info = Array.isArray(data) ? data.find(isErrorInfo) : undefined;
  const named = info ? REASONS.get(String(info['reason'])) : reasonOf(found.type);
  const byCode = code === undefined ? undefined : (version === '0.1' ? CODES_0_1 : CODES).get(code);
  // An error with its own code or reason is not classified by its status.
  const own = info !== undefined || (code !== undefined && code < 0);
  const reason = named ?? byCode ?? (own ? undefined : byStatus(status ?? httpStatus(code), text, found.status));
  const foreign = data === undefined ? {} : { foreign: data };
  if (reason) return new ProtocolError(reason, text, foreign);
  return new UpstreamRpcError(code !== undefined && code < 0 ? code : -32603, text, data, status);
}

interface Found {
  readonly code?: number;
  readonly message?: string;
  readonly data?: JsonValue;
  /** An error name outside of a code or an `ErrorInfo`. */
  readonly type?: string;
  /** The gRPC status by name. */
  readonly status?: string;
}

function unfolded(wire: JsonValue): Found {
  if (typeof wire === 'string') return wire === '' ? {} : { message: wire.slice(0, 1000) };
  if (!isObject(wire)) return {};
  const inner = wire['error'];
  if (isObject(inner)) return unfolded(inner);
  const { code, message, msg, data, details, detail, title, type, status, reason } = wire;
  const said = [message, msg, detail, title, inner, reason].find((text) => typeof text === 'string' && text !== '');
  const more = data ?? (Array.isArray(details) && details.length > 0 ? details : undefined);
  const problems = detail !== undefined && typeof detail !== 'string' ? detail : undefined;
  return {
    ...(typeof code === 'number' && { code }),
    ...(typeof said === 'string' && { message: said }),
    ...((more ?? problems) !== undefined && { data: more ?? problems }),
    ...(typeof type === 'string' && { type }),
    ...(typeof status === 'string' && { status }),
    ...(typeof inner === 'string' && typeof message === 'string' && { type: inner }),
  };
}

/** The last segment of a problem type: `…/errors/task-not-found`, `TaskNotFoundError`. */
function reasonOf(type: string | undefined): Reason | undefined {
  const last = type?.split(/[/#:]/).at(-1);
  if (!last) return undefined;
  const name = last
    .replace(/Error$/, '')
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .replaceAll('-', '_')
    .toUpperCase();
  return REASONS.get(name);
}

const httpStatus = (code: number | undefined): number | undefined =>
  code !== undefined && code >= 400 && code < 600 ? code : undefined;

/** The last resort: a status identifies the kind of failure, but not always the exact reason. */
function byStatus(status: number | undefined, text: string, name: string | undefined): Reason | undefined {
  if (status === 404 || name === 'NOT_FOUND') return /task/i.test(text) ? 'task_not_found' : undefined;
  if (status === 401 || status === 403) return 'upstream_unauthorized';
  if (status === 429) return 'upstream_rate_limited';
  if (status === 409) return 'task_not_cancelable';
  if (status === 415) return 'content_type_not_supported';
  if (status === 501) return 'unsupported_operation';
  if (status === 502 || status === 503) return 'upstream_unavailable';
  if (status === 504) return 'upstream_timeout';
  if (status === 400 || status === 422) return 'invalid_params';
  return undefined;
}
