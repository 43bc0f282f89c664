import type { ProtocolError } from '../../protocol/errors.js';
import { writeError } from '../../protocol/jsonrpc/message.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { HEADER } from '../../protocol/mcp/mirrored-headers.js';
import { NEWEST, type Revision, revisionOf, soundsModern } from '../../protocol/mcp/revisions/index.js';
import type { InboundRequest } from '../http/request.js';
import type { InboundResponse } from '../http/response.js';
import type { ErrorFormat } from '../http/route.js';
import { sendJson } from '../http/send-body.js';

/** The version that a request's header names. */
export function versionOf(req: InboundRequest): string | undefined {
  return req.header(HEADER.version)?.trim();
}

export const withVersion = (base: readonly string[], revision: Revision): readonly string[] => [
  ...base,
  'Mcp-Protocol-Version',
  revision.date,
];

/** The response to an exchange that failed before its revision was known. */
export function refuse(
  res: InboundResponse,
  base: readonly string[],
  error: ProtocolError,
  version: string | undefined,
  id?: string | number,
): void {
  if (res.begun) {
    res.end();
    return;
  }
  const { row } = error;
  const modern = version !== undefined && soundsModern(version);
  const code =
    modern ||
    (error.reason === 'unsupported_version' &&
      error.detail.data?.['requested'] !== undefined &&
      soundsModern(String(error.detail.data['requested'])))
      ? row.modern
      : row.legacy;
  const body = writeError(error.detail.id ?? id ?? null, {
    code,
    message: error.message,
    data: error.data as JsonObject,
  });
  const status = (modern ? row.httpModern : undefined) ?? row.http;
  sendJson(
    res,
    status,
    [...withVersion(base, revisionOf(version) ?? NEWEST), ...Object.entries(error.detail.headers ?? {}).flat()],
    [body],
  );
}

/** JSON-RPC errors of MCP without an id: a failure before the message is read belongs to no request. */
export const MCP_ERRORS: ErrorFormat = {
  name: 'mcp',
  write: ({ req, res, headers }, error) => refuse(res, headers, error, versionOf(req)),
};
