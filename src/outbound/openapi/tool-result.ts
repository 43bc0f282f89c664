/** The reply of an HTTP API as the result of a tool. */
import { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import { headerOf } from '../http/index.js';

export interface ApiReply {
  readonly status: number;
  /** Flat pairs. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** Maximum bytes of an error's body that the model reads. */
const MOST_ERROR = 16 * 1024;

/**
 * The tool result for a reply. The body of a success is the content. An error status becomes a tool error, which the
 * model reads. Throws if the reply concerns the gateway's credential or the rate of its requests instead of the call.
 */
export function resultOf(server: string, reply: ApiReply): JsonObject {
  const { status, headers, body } = reply;
  const type = (headerOf(headers, 'content-type') ?? '').split(';', 1)[0]!.trim().toLowerCase();
  if (status === 401 || status === 407)
    throw new ProtocolError('upstream_unauthorized', `Server "${server}" refused the credential of the gateway`, {
      outcome: 'not_executed',
      data: { server },
    });
  if (status === 429) {
    const after = headerOf(headers, 'retry-after');
    throw new ProtocolError(
      'upstream_rate_limited',
      `Server "${server}" is limiting requests (HTTP 429); try again later`,
      {
        outcome: 'not_executed',
        data: { server },
        ...(after !== undefined && /^\d{1,6}$/.test(after) && { headers: { 'Retry-After': after } }),
      },
    );
  }
  if (status >= 200 && status < 300) return success(server, { type, body, status });
  const text = isText(type) ? body.subarray(0, MOST_ERROR).toString('utf8') : '';
  const said = status >= 300 && status < 400 ? 'a redirect, which the gateway does not follow' : `HTTP ${status}`;
  return {
    resultType: 'complete',
    content: [
      { type: 'text', text: text === '' ? `The server answered ${said}` : `The server answered ${said}:\n${text}` },
    ],
    isError: true,
  };
}

const isText = (type: string): boolean =>
  type === '' ||
  type.startsWith('text/') ||
  /[/+](?:json|xml|yaml|javascript|x-www-form-urlencoded|x-ndjson)$/.test(type);

function success(
  server: string,
  { type, body, status }: { readonly type: string; readonly body: Buffer; readonly status: number },
): JsonObject {
  const result = (content: JsonObject, more: JsonObject = {}): JsonObject => ({
    resultType: 'complete',
    content: [content],
    ...more,
  });
  if (body.length === 0) return result({ type: 'text', text: `The server answered HTTP ${status} without content` });
  if (isText(type)) {
    const text = body.toString('utf8');
    const value = /[/+]json$/.test(type) ? parsed(text) : undefined;
    // Every revision with structured content accepts an object.
    return result({ type: 'text', text }, isObject(value) ? { structuredContent: value } : {});
  }
  const data = body.toString('base64');
  const kind = type.split('/', 1)[0];
  if (kind === 'image' || kind === 'audio') return result({ type: kind, data, mimeType: type });
  return result({ type: 'resource', resource: { uri: `openapi://${server}/result`, mimeType: type, blob: data } });
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
