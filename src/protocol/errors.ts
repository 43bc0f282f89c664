/**
 * Every error that the gateway itself raises, by a stable reason. The code depends on the protocol, its version and its
 * binding; the reason does not. The reason is in `error.data.reason`, for A2A 1.0 in `ErrorInfo.reason`.
 */
export interface ErrorRow {
  /** JSON-RPC code for MCP clients of the legacy era (up to 2025-11-25). */
  readonly legacy: number;
  /** JSON-RPC code for MCP clients of 2026-07-28 and later, which do not use -32000..-32019. */
  readonly modern: number;
  /** JSON-RPC code for A2A clients. */
  readonly a2a: number;
  /**
   * HTTP status: an error status if the HTTP exchange itself failed, 200 if a well-formed request got an error
   * response.
   */
  readonly http: number;
  /** HTTP status for modern MCP, if it differs. */
  readonly httpModern?: number;
  /** HTTP status in A2A's HTTP+JSON binding. */
  readonly rest: number;
  /** Status in A2A's gRPC binding. */
  readonly grpc: GrpcStatus;
  /** REST and gRPC status in A2A 1.0.0, if A2A 1.0.1 changed them. */
  readonly rest100?: number;
  readonly grpc100?: GrpcStatus;
}

/** gRPC's status codes; the index is the number. */
export const GRPC_STATUSES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const;
export type GrpcStatus = (typeof GRPC_STATUSES)[number];

const row = (
  legacy: number,
  modern: number,
  a2a: number,
  http: number,
  rest: number,
  grpc: GrpcStatus,
  differing: Pick<ErrorRow, 'httpModern' | 'rest100' | 'grpc100'> = {},
): ErrorRow => ({ legacy, modern, a2a, http, rest, grpc, ...differing });

export const ERRORS = {
  parse_error: row(-32700, -32700, -32700, 400, 400, 'INVALID_ARGUMENT'),
  invalid_request: row(-32600, -32600, -32600, 400, 400, 'INVALID_ARGUMENT'),
  batch_not_allowed: row(-32600, -32600, -32600, 400, 400, 'INVALID_ARGUMENT'),
  body_too_large: row(-32600, -32600, -32600, 413, 413, 'RESOURCE_EXHAUSTED'),
  headers_too_large: row(-32600, -32600, -32600, 431, 431, 'RESOURCE_EXHAUSTED'),
  request_timeout: row(-32600, -32600, -32600, 408, 408, 'DEADLINE_EXCEEDED'),
  unsupported_media_type: row(-32600, -32600, -32600, 415, 415, 'INVALID_ARGUMENT'),
  upgrade_required: row(-32600, -32600, -32600, 426, 426, 'FAILED_PRECONDITION'),
  not_acceptable: row(-32600, -32600, -32600, 406, 406, 'INVALID_ARGUMENT'),
  method_not_found: row(-32601, -32601, -32601, 200, 404, 'UNIMPLEMENTED', { httpModern: 404 }),
  http_method_not_allowed: row(-32601, -32601, -32601, 405, 405, 'UNIMPLEMENTED'),
  not_found: row(-32601, -32601, -32601, 404, 404, 'NOT_FOUND'),
  already_exists: row(-32602, -32602, -32602, 409, 409, 'ALREADY_EXISTS'),
  invalid_settings: row(-32602, -32602, -32602, 422, 422, 'INVALID_ARGUMENT'),
  precondition_failed: row(-32602, -32602, -32602, 412, 412, 'FAILED_PRECONDITION'),
  precondition_required: row(-32602, -32602, -32602, 428, 428, 'FAILED_PRECONDITION'),
  server_not_found: row(-32602, -32602, -32602, 404, 404, 'NOT_FOUND'),
  missing_parameter: row(-32602, -32602, -32602, 400, 400, 'INVALID_ARGUMENT'),
  tool_invocation_failed: row(-32603, -32603, -32603, 200, 400, 'INTERNAL'),
  gone: row(-32601, -32601, -32601, 410, 410, 'NOT_FOUND'),
  invalid_params: row(-32602, -32602, -32602, 200, 400, 'INVALID_ARGUMENT'),
  invalid_envelope: row(-32602, -32602, -32602, 400, 400, 'INVALID_ARGUMENT'),
  invalid_arguments: row(-32602, -32602, -32602, 200, 400, 'INVALID_ARGUMENT'),
  tool_not_found: row(-32602, -32602, -32602, 200, 404, 'NOT_FOUND'),
  prompt_not_found: row(-32602, -32602, -32602, 200, 404, 'NOT_FOUND'),
  resource_not_found: row(-32002, -32602, -32602, 200, 404, 'NOT_FOUND'),
  ambiguous_name: row(-32602, -32602, -32602, 200, 400, 'INVALID_ARGUMENT'),
  invalid_cursor: row(-32602, -32602, -32602, 200, 400, 'INVALID_ARGUMENT'),
  invalid_state: row(-32602, -32602, -32602, 200, 400, 'INVALID_ARGUMENT'),
  task_not_found: row(-32602, -32602, -32001, 200, 404, 'NOT_FOUND'),
  task_not_cancelable: row(-32602, -32602, -32002, 200, 400, 'FAILED_PRECONDITION', { rest100: 409 }),
  push_not_supported: row(-32603, -32603, -32003, 200, 400, 'FAILED_PRECONDITION', { grpc100: 'UNIMPLEMENTED' }),
  unsupported_operation: row(-32603, -32603, -32004, 200, 400, 'FAILED_PRECONDITION', { grpc100: 'UNIMPLEMENTED' }),
  content_type_not_supported: row(-32602, -32602, -32005, 200, 400, 'INVALID_ARGUMENT', { rest100: 415 }),
  invalid_agent_response: row(-32603, -32603, -32006, 200, 500, 'INTERNAL', { rest100: 502 }),
  extended_card_not_configured: row(-32603, -32603, -32007, 200, 400, 'FAILED_PRECONDITION'),
  extension_required: row(-32603, -32603, -32008, 200, 400, 'FAILED_PRECONDITION'),
  agent_not_found: row(-32602, -32602, -32601, 404, 404, 'NOT_FOUND'),
  a2a_gateway_disabled: row(-32601, -32601, -32601, 404, 404, 'NOT_FOUND'),
  mcp_gateway_disabled: row(-32601, -32601, -32601, 404, 404, 'NOT_FOUND'),
  sse_transport_disabled: row(-32601, -32601, -32601, 404, 404, 'NOT_FOUND'),
  sse_legacy_mode: row(-32601, -32601, -32601, 404, 404, 'NOT_FOUND'),
  loop_detected: row(-32603, -32603, -32603, 200, 508, 'FAILED_PRECONDITION'),
  header_mismatch: row(-32600, -32020, -32600, 400, 400, 'INVALID_ARGUMENT'),
  missing_capability: row(-32603, -32021, -32603, 200, 400, 'FAILED_PRECONDITION', { httpModern: 400 }),
  unsupported_version: row(-32600, -32022, -32009, 400, 400, 'FAILED_PRECONDITION', { grpc100: 'UNIMPLEMENTED' }),
  version_negotiation: row(-32602, -32602, -32602, 200, 400, 'FAILED_PRECONDITION'),
  tool_invocation_disabled: row(-32004, -32603, -32000, 200, 403, 'PERMISSION_DENIED'),
  unauthorized: row(-32001, -32603, -32603, 401, 401, 'UNAUTHENTICATED'),
  forbidden: row(-32001, -32603, -32603, 403, 403, 'PERMISSION_DENIED'),
  session_required: row(-32000, -32600, -32600, 400, 400, 'FAILED_PRECONDITION'),
  session_not_found: row(-32000, -32600, -32600, 404, 404, 'NOT_FOUND'),
  stream_conflict: row(-32000, -32600, -32600, 409, 409, 'ABORTED'),
  // Not 404: on a request with a session id, 404 makes clients open a new session (HLC-02).
  event_not_found: row(-32000, -32600, -32600, 400, 400, 'INVALID_ARGUMENT'),
  rate_limited: row(-32000, -32603, -32603, 429, 429, 'RESOURCE_EXHAUSTED'),
  overloaded: row(-32000, -32603, -32603, 503, 503, 'UNAVAILABLE'),
  audit_unavailable: row(-32000, -32603, -32603, 503, 503, 'UNAVAILABLE'),
  upstream_timeout: row(-32603, -32603, -32603, 200, 504, 'DEADLINE_EXCEEDED'),
  upstream_unavailable: row(-32603, -32603, -32603, 200, 503, 'UNAVAILABLE'),
  upstream_error: row(-32603, -32603, -32603, 200, 502, 'INTERNAL'),
  upstream_invalid: row(-32603, -32603, -32603, 200, 502, 'INTERNAL'),
  upstream_unauthorized: row(-32603, -32603, -32603, 200, 502, 'INTERNAL'),
  login_required: row(-32603, -32603, -32603, 200, 403, 'FAILED_PRECONDITION'),
  upstream_rate_limited: row(-32603, -32603, -32603, 200, 503, 'UNAVAILABLE'),
  not_bridgeable: row(-32603, -32603, -32603, 200, 400, 'FAILED_PRECONDITION'),
  not_approved: row(-32603, -32603, -32603, 200, 403, 'PERMISSION_DENIED'),
  policy_denied: row(-32603, -32603, -32603, 200, 403, 'PERMISSION_DENIED'),
  plugin_denied: row(-32603, -32603, -32603, 200, 403, 'PERMISSION_DENIED'),
  plugin_failed: row(-32603, -32603, -32603, 200, 503, 'UNAVAILABLE'),
  cancelled: row(-32603, -32603, -32603, 200, 499, 'CANCELLED'),
  internal: row(-32603, -32603, -32603, 500, 500, 'INTERNAL'),
} as const satisfies Record<string, ErrorRow>;

export type Reason = keyof typeof ERRORS;

/** Whether a failed call may have run. The caller decides whether to repeat it; the gateway never does. */
export type CallOutcome = 'not_executed' | 'unknown';

export interface ErrorDetail {
  /** The id of the request, if the error was raised before the message became a request. */
  readonly id?: string | number;
  /** Members of `error.data` besides `reason`. */
  readonly data?: Readonly<Record<string, unknown>>;
  readonly outcome?: CallOutcome;
  /** The `data` of the peer that raised the error. It is passed on if the caller's protocol can carry it. */
  readonly foreign?: unknown;
  /** False if a tool's caller gets a protocol error, although other errors of this reason become a tool result. */
  readonly forTheModel?: false;
  /** HTTP headers of the response, such as `Allow` or `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>>;
}

export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';

  constructor(
    readonly reason: Reason,
    message: string,
    readonly detail: ErrorDetail = {},
  ) {
    super(message);
  }

  get row(): ErrorRow {
    return ERRORS[this.reason];
  }

  get data(): Record<string, unknown> {
    const { data, outcome } = this.detail;
    return { reason: this.reason, ...(outcome && { outcome }), ...data };
  }
}

/**
 * An error response of an upstream, with the upstream's own code, message and data. The gateway treats them as data.
 */
export class UpstreamRpcError extends Error {
  override readonly name = 'UpstreamRpcError';

  constructor(
    readonly code: number,
    message: string,
    readonly data: unknown,
    /** The HTTP status of the response, if it was not 2xx. */
    readonly status?: number,
  ) {
    super(message);
  }
}

/** An error that the caller of a request gets, in contrast to a fault of the gateway. */
export const isErrorOfCall = (error: unknown): error is ProtocolError | UpstreamRpcError =>
  error instanceof ProtocolError || error instanceof UpstreamRpcError;
