import type { ProtocolError } from '../../protocol/errors.js';
import type { ErrorFormat } from '../http/route.js';
import { sendJson } from '../http/send-body.js';

/** The errors of the authorization server, which its clients read as RFC 6749 §5.2 and RFC 7591 §3.2.2 say. */
export const OAUTH_ERRORS: ErrorFormat = {
  name: 'oauth',
  write: ({ res, headers }, error) => {
    if (res.begun) {
      res.end();
      return;
    }
    const body = { error: codeOf(error), error_description: quotable(error.message) };
    sendJson(
      res,
      error.row.http,
      [...headers, 'Cache-Control', 'no-store', ...Object.entries(error.detail.headers ?? {}).flat()],
      [Buffer.from(JSON.stringify(body))],
    );
  },
};

function codeOf({ reason, row }: ProtocolError): string {
  if (reason === 'rate_limited') return 'temporarily_unavailable';
  if (reason === 'forbidden') return 'access_denied';
  return row.http < 500 ? 'invalid_request' : row.http === 503 ? 'temporarily_unavailable' : 'server_error';
}

/** RFC 6749 allows printable ASCII without quotes and backslashes. */
const quotable = (text: string): string => text.replaceAll(/["\\]/g, "'").replaceAll(/[^\x20-\x7e]/g, '?');
