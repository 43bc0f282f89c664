/** One request of a 2026-07-28 client, without any client library. */
const META = 'io.modelcontextprotocol';

export interface ModernReply {
  readonly result?: {
    readonly content?: { text: string }[];
    readonly isError?: boolean;
    readonly tools?: { name: string }[];
    readonly inputRequests?: Record<string, { params: { mode: string; url: string; message: string } }>;
    readonly requestState?: string;
    readonly [key: string]: unknown;
  };
  readonly error?: { message: string; data?: { reason?: string } };
}

export async function modernRequest(
  endpoint: string,
  token: string,
  method: string,
  params: object,
  capabilities: object = {},
): Promise<ModernReply> {
  const named = (params as { name?: string; uri?: string }).name ?? (params as { uri?: string }).uri;
  const reply = await fetch(endpoint, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(named !== undefined && { 'mcp-name': named }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: {
        ...params,
        _meta: { [`${META}/protocolVersion`]: '2026-07-28', [`${META}/clientCapabilities`]: capabilities },
      },
    }),
  });
  const text = await reply.text();
  const data = /^data: (.*)$/m.exec(text)?.[1];
  return JSON.parse(data ?? text) as ModernReply;
}
