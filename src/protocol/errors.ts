/**
 * Every error the gateway itself raises, by a stable reason. The number depends on the protocol and its version, the
 * reason does not; it travels in `error.data.reason`.
 */
export interface ErrorRow {
  /** JSON-RPC code for MCP clients of the handshake era (up to 2025-11-25). */
  readonly legacy: number;
  /** JSON-RPC code for MCP clients of 2026-07-28 and later, where -32000..-32019 are not used at all. */
  readonly modern: number;
  /** JSON-RPC code for A2A clients. */
  readonly a2a: number;
  /** HTTP status where the fault is one of the HTTP exchange; 200 where a well-formed request was answered. */
  readonly http: number;
  /** HTTP status for modern MCP, where it differs. */
  readonly httpModern?: number;
}

const row = (legacy: number, modern: number, a2a: number, http: number, httpModern?: number): ErrorRow => ({
  legacy,
  modern,
  a2a,
  http,
  ...(httpModern !== undefined && { httpModern }),
});

export const ERRORS = {
  parse_error: row(-32700, -32700, -32700, 400),
  invalid_request: row(-32600, -32600, -32600, 400),
  batch_not_allowed: row(-32600, -32600, -32600, 400),
  body_too_large: row(-32600, -32600, -32600, 413),
  headers_too_large: row(-32600, -32600, -32600, 431),
  request_timeout: row(-32600, -32600, -32600, 408),
  unsupported_media_type: row(-32600, -32600, -32600, 415),
  not_acceptable: row(-32600, -32600, -32600, 406),
  method_not_found: row(-32601, -32601, -32601, 200, 404),
  http_method_not_allowed: row(-32601, -32601, -32601, 405),
  not_found: row(-32601, -32601, -32601, 404),
  invalid_params: row(-32602, -32602, -32602, 200),
  invalid_envelope: row(-32602, -32602, -32602, 400),
  tool_not_found: row(-32602, -32602, -32602, 200),
  prompt_not_found: row(-32602, -32602, -32602, 200),
  resource_not_found: row(-32002, -32602, -32602, 200),
  ambiguous_name: row(-32602, -32602, -32602, 200),
  invalid_cursor: row(-32602, -32602, -32602, 200),
  invalid_state: row(-32602, -32602, -32602, 200),
  task_not_found: row(-32602, -32602, -32001, 200),
  task_not_cancelable: row(-32602, -32602, -32002, 200),
  header_mismatch: row(-32600, -32020, -32600, 400),
  missing_capability: row(-32603, -32021, -32603, 200, 400),
  unsupported_version: row(-32600, -32022, -32009, 400),
  version_negotiation: row(-32602, -32602, -32602, 200),
  tool_invocation_disabled: row(-32004, -32603, -32000, 200),
  unauthorized: row(-32001, -32603, -32603, 401),
  forbidden: row(-32001, -32603, -32603, 403),
  session_required: row(-32000, -32600, -32600, 400),
  session_not_found: row(-32000, -32600, -32600, 404),
  stream_conflict: row(-32000, -32600, -32600, 409),
  event_not_found: row(-32000, -32600, -32600, 404),
  rate_limited: row(-32000, -32603, -32000, 429),
  overloaded: row(-32000, -32603, -32000, 503),
  upstream_timeout: row(-32603, -32603, -32603, 200),
  upstream_unavailable: row(-32603, -32603, -32603, 200),
  upstream_error: row(-32603, -32603, -32603, 200),
  upstream_invalid: row(-32603, -32603, -32603, 200),
  upstream_unauthorized: row(-32603, -32603, -32603, 200),
  upstream_rate_limited: row(-32603, -32603, -32603, 200),
  not_bridgeable: row(-32603, -32603, -32603, 200),
  not_approved: row(-32603, -32603, -32603, 200),
  cancelled: row(-32603, -32603, -32603, 200),
  internal: row(-32603, -32603, -32603, 500),
} as const satisfies Record<string, ErrorRow>;

export type Reason = keyof typeof ERRORS;

/** Whether a call that failed may have run: the caller decides about repeating it, never the gateway. */
export type CallOutcome = 'not_executed' | 'unknown';

export interface ErrorDetail {
  /** The id of the request, where the fault was found before the request was a request. */
  readonly id?: string | number;
  /** Members of `error.data` beside `reason`. */
  readonly data?: Readonly<Record<string, unknown>>;
  readonly outcome?: CallOutcome;
  /** HTTP headers that belong to the answer, such as `Allow` or `Retry-After`. */
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

/** An error that an upstream answered with: its own code, message and data, which are data to us. */
export class UpstreamRpcError extends Error {
  override readonly name = 'UpstreamRpcError';

  constructor(
    readonly code: number,
    message: string,
    readonly data: unknown,
    /** The HTTP status it came with, where it was not 2xx. */
    readonly status?: number,
  ) {
    super(message);
  }
}
