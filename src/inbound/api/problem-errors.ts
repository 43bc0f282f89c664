import type { ErrorFormat } from '../http/route.js';

/** Errors of the management API: problem details (RFC 9457), with the reason of the table of errors. */
export const PROBLEM_ERRORS: ErrorFormat = {
  name: 'problem',
  write: ({ req, res, headers }, { reason, message, row, detail }) => {
    if (res.begun) {
      res.end();
      return;
    }
    const title = reason[0]!.toUpperCase() + reason.slice(1).replaceAll('_', ' ');
    const body = {
      type: `urn:parley:error:${reason}`,
      title,
      status: row.rest,
      detail: message,
      reason,
      requestId: req.id,
      ...detail.data,
    };
    const own = ['Content-Type', 'application/problem+json', 'Cache-Control', 'no-store'];
    res.sendText(row.rest, [...headers, ...own, ...Object.entries(detail.headers ?? {}).flat()], JSON.stringify(body));
  },
};
