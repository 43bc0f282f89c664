/**
 * The headers of HTTP requests to MCP servers. The headers of `src/identity/upstream-credentials.ts` (configured
 * headers, tokens, forwarded headers of the caller) are part of each request.
 */
import type { UpstreamCall } from '../../core/upstream.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { RawObject } from '../../protocol/jsonrpc/raw.js';
import { encodeHeaderValue, nameParameter, paramHeaders } from '../../protocol/mcp/mirrored-headers.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';

const JSON_TYPE = 'application/json';
const SENDS_JSON = ['content-type', JSON_TYPE];
/** Each POST over Streamable HTTP. */
export const POST_HEADERS: readonly string[] = [...SENDS_JSON, 'accept', `${JSON_TYPE}, text/event-stream`];

/** A request to a modern server, with the headers that mirror its body. */
export function modernHeaders(revision: Revision, method: string, params: RawObject, credential: Credential): string[] {
  const headers = mirrorHeaders(revision, method, params);
  headers.push(...credential.headers);
  return headers;
}

/**
 * A call to a modern server. The headers also contain its trace, and the arguments that the tool expects in headers.
 */
export function modernCallHeaders(
  revision: Revision,
  { method, params, trace, mirrored }: Pick<UpstreamCall, 'method' | 'params' | 'trace' | 'mirrored'>,
  credential: Credential,
): string[] {
  const headers = mirrorHeaders(revision, method, params);
  if (trace) {
    headers.push('traceparent', trace.traceparent);
    if (trace.tracestate !== undefined) headers.push('tracestate', trace.tracestate);
  }
  if (mirrored.length > 0) headers.push(...paramHeaders(mirrored, params.get('arguments')));
  headers.push(...credential.headers);
  return headers;
}

function mirrorHeaders(revision: Revision, method: string, params: RawObject): string[] {
  const headers = [...POST_HEADERS, 'MCP-Protocol-Version', revision.date, 'Mcp-Method', encodeHeaderValue(method)];
  const parameter = nameParameter(method);
  const name = parameter && params.get(parameter);
  if (typeof name === 'string') headers.push('Mcp-Name', encodeHeaderValue(name));
  return headers;
}

/**
 * Each request of a legacy session over Streamable HTTP. Id and revision are unknown before the server has answered.
 */
export function sessionHeaders(
  credential: Credential,
  sessionId: string | undefined,
  revision: Revision | undefined,
): string[] {
  const headers = [...credential.headers];
  if (sessionId !== undefined) headers.push('Mcp-Session-Id', sessionId);
  if (revision?.versionHeader) headers.push('MCP-Protocol-Version', revision.date);
  return headers;
}

/** A POST to a server with the HTTP+SSE transport. */
export const ssePostHeaders = (credential: Credential): string[] => [...SENDS_JSON, ...credential.headers];

/**
 * Control characters. A header cannot carry an event id that contains one of them, so a stream cannot be resumed after
 * that event.
 */
const UNSENDABLE = /[^\t\x20-\x7e\x80-\uffff]/;

export const isSendableEventId = (id: string): boolean => !UNSENDABLE.test(id);

/** The `Last-Event-ID` header. The id is sent as UTF-8 bytes. */
export const lastEventIdHeader = (id: string): [string, string] => [
  'Last-Event-ID',
  Buffer.from(id).toString('latin1'),
];
