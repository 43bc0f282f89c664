/** Requests of the newest revision of MCP to a gateway. */
const PREFIX = 'io.modelcontextprotocol';

export interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: whatever was answered
  readonly body: any;
  readonly text: string;
  readonly headers: Headers;
}

let ids = 0;

export async function ask(
  gateway: string,
  method: string,
  params: Readonly<Record<string, unknown>> = {},
  { token, path = '/mcp', id = ++ids, headers = {} }: AskOptions = {},
): Promise<Reply> {
  const name = (params['name'] ?? params['uri']) as string | undefined;
  const response = await fetch(`${gateway}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(name !== undefined && { 'mcp-name': name }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id,
      method,
      params: {
        ...params,
        _meta: { [`${PREFIX}/protocolVersion`]: '2026-07-28', [`${PREFIX}/clientCapabilities`]: {} },
      },
    }),
  });
  const text = await response.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  return { status: response.status, body, text, headers: response.headers };
}

export interface AskOptions {
  readonly token?: string;
  readonly path?: string;
  readonly id?: number | string;
  readonly headers?: Readonly<Record<string, string>>;
}

export const toolsOf = async (gateway: string, options?: AskOptions): Promise<string[]> =>
  ((await ask(gateway, 'tools/list', {}, options)).body.result.tools as { name: string }[]).map(({ name }) => name);
