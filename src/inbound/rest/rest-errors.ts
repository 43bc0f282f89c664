import type { ProtocolError, Reason } from '../../protocol/errors.js';
import type { ErrorFormat } from '../http/route.js';
import { sendJson } from '../http/send-body.js';

/** Names of errors that clients of these routes know, where they differ from the reason. */
const NAMES: Partial<Record<Reason, string>> = {
  parse_error: 'invalid_json',
  invalid_params: 'invalid_request',
  forbidden: 'access_denied',
  policy_denied: 'access_denied',
  internal: 'internal_error',
  invalid_settings: 'invalid_request',
  audit_unavailable: 'audit_log_unavailable',
};

/** Statuses that clients of these routes know, where they differ from those of other REST bindings. */
const STATUSES: Partial<Record<Reason, number>> = {
  tool_invocation_disabled: 501,
  unsupported_operation: 501,
  already_exists: 400,
  invalid_settings: 400,
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
      [...headers, ...Object.entries(error.detail.headers ?? {}).flat()],
      [Buffer.from(JSON.stringify({ detail }))],
    );
  },
};

function nameOf(error: ProtocolError): string {
  const blocked = problemsIn(error)?.some(({ code }) => code === 'egress');
  return blocked ? 'ssrf_blocked' : (NAMES[error.reason] ?? error.reason);
}

/** The problems of refused settings. */
const problemsIn = ({ detail }: ProtocolError): readonly { readonly code: string }[] | undefined =>
  detail.data?.['problems'] as { code: string }[] | undefined;

/**
 * Whether a failed call may have run, so that the client decides whether to repeat it; the problems of refused
 * settings.
 */
function aboutCall(error: ProtocolError): object {
  const { outcome } = error.detail;
  const problems = problemsIn(error);
  return { ...(outcome && { outcome }), ...(problems && { problems }) };
}
