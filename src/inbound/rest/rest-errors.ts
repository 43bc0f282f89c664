import type { ProtocolError, Reason } from '../../protocol/errors.js';
import { sendJson } from '../http/reply.js';
import type { ErrorFormat } from '../http/route.js';

/** Names of errors that clients of these routes know, where they differ from the reason. */
const NAMES: Partial<Record<Reason, string>> = {
  parse_error: 'invalid_json',
  invalid_params: 'invalid_request',
  forbidden: 'access_denied',
  policy_denied: 'access_denied',
  internal: 'internal_error',
};

/** Statuses that clients of these routes know, where they differ from those of other REST bindings. */
const STATUSES: Partial<Record<Reason, number>> = {
  tool_invocation_disabled: 501,
  unsupported_operation: 501,
};

/** The errors of the REST routes: `{"detail": {"error", "message", "request_id"}}`. */
export const REST_ERRORS: ErrorFormat = {
  name: 'rest',
  write: ({ req, res, headers }, error) => {
    if (res.begun) {
      res.end();
      return;
    }
    const detail = { error: nameOf(error), message: error.message, request_id: req.id, ...aboutCall(error) };
    sendJson(
      res,
      STATUSES[error.reason] ?? error.row.rest,
      [...headers, 'X-Request-Id', req.id, ...Object.entries(withoutId(error)).flat()],
      [Buffer.from(JSON.stringify({ detail }))],
    );
  },
};

const nameOf = ({ reason }: ProtocolError): string => NAMES[reason] ?? reason;

/** Whether a failed call may have run: the client decides whether to repeat it. */
const aboutCall = ({ detail: { outcome } }: ProtocolError): object => (outcome ? { outcome } : {});

const withoutId = ({ detail }: ProtocolError): Record<string, string> => {
  const { 'X-Request-Id': _, ...rest } = detail.headers ?? {};
  return rest;
};
